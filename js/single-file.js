/**
 * Script of a page with an embedded model (`bq4 bundle`). Engine, model and page are one file, which also works when it
 * is opened from a disk. No worker can start there, so the engine runs in the page's main thread and yields for
 * drawing between tokens.
 */
import { createEngine } from './engine/create.js';
import { BqError } from './shared/errors.js';
import { fromBytes } from './storage/sources/index.js';

/** Chat format for a model without one: the model continues the text. */
const PLAIN_FORMAT = { roles: { user: { before: '', after: '' }, assistant: { before: '', after: '' } }, bos: true };
const BUILDS = ['relaxed', 'simd128'];
/** Modules of optional kernels, which the page only contains if the model needs them. */
const OPTIONAL_KERNELS = BUILDS.map((name) => `${name}-rare`);
/** Number of base64 characters to decode in one step, a multiple of four. */
const DECODED_CHARACTERS = 1 << 20;

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** Removes an element from the page and returns its text. Throws FORMAT if it is missing. @param {string} id */
function removeText(id) {
  const element = $(id);
  if (!element)
    throw new BqError('FORMAT', `the page has no element "${id}"`, { hint: 'create the page again: npx bq4 bundle' });
  const text = element.textContent.trim();
  element.remove();
  return text;
}

/** Decodes base64. @param {string} text @returns {Uint8Array<ArrayBuffer>} */
function decodeBase64(text) {
  const { fromBase64 } = /** @type {any} */ (Uint8Array);
  if (fromBase64) return fromBase64.call(Uint8Array, text);
  const bytes = new Uint8Array((text.length / 4) * 3 - (/=*$/.exec(text)?.[0].length ?? 0));
  for (let i = 0, at = 0; i < text.length; i += DECODED_CHARACTERS) {
    const piece = atob(text.slice(i, i + DECODED_CHARACTERS));
    for (let k = 0; k < piece.length; k++) bytes[at++] = piece.charCodeAt(k);
  }
  return bytes;
}

/** @param {string} text */
const showStatus = (text) => ($('status').textContent = text);

/** @param {unknown} error */
function showError(error) {
  const { message, hint } = /** @type {any} */ (error);
  showStatus(`Error: ${message}${hint ? ` (${hint})` : ''}`);
}

/** Appends a message to the page. @param {string} role @param {string} text */
function appendMessage(role, text) {
  const article = document.createElement('article');
  article.className = role;
  article.textContent = text;
  $('log').append(article);
  article.scrollIntoView({ block: 'end' });
  return article;
}

/** Resolves after the page was drawn. */
const nextFrame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));

async function start() {
  showStatus('Starting…');
  const wasmUrl = /** @type {any} */ (
    Object.fromEntries(
      [...BUILDS, ...OPTIONAL_KERNELS.filter((name) => $(`bq4-${name}`))].map((name) => [
        name,
        `data:application/wasm;base64,${removeText(`bq4-${name}`)}`,
      ]),
    )
  );
  const engine = await createEngine({ wasmUrl, threads: 1 });
  const model = await engine.load(fromBytes(decodeBase64(removeText('bq4-model'))));
  const chat = await model.createChat(
    model.info.chatFormat || model.info.chatTemplate ? {} : { chatFormat: PLAIN_FORMAT },
  );
  /** Aborts the running reply; null if there is none. @type {AbortController | null} */
  let controller = null;
  $('stop').addEventListener('click', () => controller?.abort());
  $('message').addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $('form').requestSubmit();
  });
  $('form').addEventListener('submit', async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const text = $('message').value;
    if (controller || !text.trim()) return;
    controller = new AbortController();
    $('message').value = '';
    [$('send').hidden, $('stop').hidden] = [true, false];
    appendMessage('user', text);
    const reply = appendMessage('assistant', '');
    showStatus('Writing…');
    await nextFrame();
    const generation = chat.send(text, { signal: controller.signal });
    let lastShown = performance.now();
    try {
      for await (const part of generation) {
        reply.textContent += part.text;
        if (performance.now() - lastShown < 50) continue;
        await nextFrame();
        lastShown = performance.now();
      }
    } catch (error) {
      if (!controller.signal.aborted) showError(error);
    }
    if (!reply.textContent) reply.remove();
    const result = await generation.result.catch(() => null);
    if (result)
      showStatus(
        result.finishReason === 'context'
          ? 'The conversation is full: load the page again.'
          : `${result.tokens.length} tokens`,
      );
    controller = null;
    [$('send').hidden, $('stop').hidden] = [false, true];
    $('message').focus();
  });
  $('send').disabled = false;
  showStatus('Ready. Nothing leaves this page.');
}

start().catch(showError);
