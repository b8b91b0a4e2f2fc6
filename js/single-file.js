/**
 * The script of a page that carries its model (`bq4 bundle`): engine, model and page are one file, which works from a disk, too, where no
 * worker can begin. So the engine runs in the page's own thread and lets the page draw between tokens.
 */
import { createEngine } from './engine/create.js';
import { BqError } from './shared/errors.js';
import { fromBytes } from './storage/sources/index.js';

/** For a model that knows no turns: it goes on with what is written. */
const NO_TURNS = { roles: { user: { before: '', after: '' }, assistant: { before: '', after: '' } }, bos: true };
const BUILDS = ['relaxed', 'simd128'];
/** Kernels of rare types are there where the model needs them. */
const RARE = BUILDS.map((name) => `${name}-rare`);
/** Characters of base64 that are decoded at once, a multiple of four. */
const PIECE = 1 << 20;

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** Text of an element, which is then emptied. @param {string} id */
function taken(id) {
  const element = $(id);
  if (!element)
    throw new BqError('FORMAT', `the page has lost its "${id}"`, { hint: 'make the page anew: npx bq4 bundle' });
  const text = element.textContent.trim();
  element.remove();
  return text;
}

/** @param {string} text  base64 @returns {Uint8Array<ArrayBuffer>} */
function bytesOf(text) {
  const { fromBase64 } = /** @type {any} */ (Uint8Array);
  if (fromBase64) return fromBase64.call(Uint8Array, text);
  const bytes = new Uint8Array((text.length / 4) * 3 - (/=*$/.exec(text)?.[0].length ?? 0));
  for (let i = 0, at = 0; i < text.length; i += PIECE) {
    const piece = atob(text.slice(i, i + PIECE));
    for (let k = 0; k < piece.length; k++) bytes[at++] = piece.charCodeAt(k);
  }
  return bytes;
}

/** @param {string} text */
const say = (text) => ($('status').textContent = text);

/** @param {unknown} error */
function fail(error) {
  const { message, hint } = /** @type {any} */ (error);
  say(`That failed: ${message}${hint ? ` (${hint})` : ''}`);
}

/** @param {string} role @param {string} text */
function show(role, text) {
  const article = document.createElement('article');
  article.className = role;
  article.textContent = text;
  $('log').append(article);
  article.scrollIntoView({ block: 'end' });
  return article;
}

/** Lets the page draw. */
const drawn = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));

async function begin() {
  say('Starting…');
  const wasmUrl = /** @type {any} */ (
    Object.fromEntries(
      [...BUILDS, ...RARE.filter((name) => $(`bq4-${name}`))].map((name) => [
        name,
        `data:application/wasm;base64,${taken(`bq4-${name}`)}`,
      ]),
    )
  );
  const engine = await createEngine({ wasmUrl, threads: 1 });
  const model = await engine.load(fromBytes(bytesOf(taken('bq4-model'))));
  const chat = await model.createChat(model.info.chatFormat || model.info.chatTemplate ? {} : { chatFormat: NO_TURNS });
  /** @type {AbortController | null} */
  let writing = null;
  $('stop').addEventListener('click', () => writing?.abort());
  $('message').addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $('form').requestSubmit();
  });
  $('form').addEventListener('submit', async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const text = $('message').value;
    if (writing || !text.trim()) return;
    writing = new AbortController();
    $('message').value = '';
    [$('send').hidden, $('stop').hidden] = [true, false];
    show('user', text);
    const reply = show('assistant', '');
    say('Writing…');
    await drawn();
    const run = chat.send(text, { signal: writing.signal });
    let lastShown = performance.now();
    try {
      for await (const part of run) {
        reply.textContent += part.text;
        if (performance.now() - lastShown < 50) continue;
        await drawn();
        lastShown = performance.now();
      }
    } catch (error) {
      if (!writing.signal.aborted) fail(error);
    }
    if (!reply.textContent) reply.remove();
    const result = await run.result.catch(() => null);
    if (result)
      say(
        result.finishReason === 'context'
          ? 'The conversation is full: load the page again.'
          : `${result.tokens.length} tokens`,
      );
    writing = null;
    [$('send').hidden, $('stop').hidden] = [false, true];
    $('message').focus();
  });
  $('send').disabled = false;
  say('Ready. Nothing leaves this page.');
}

begin().catch(fail);
