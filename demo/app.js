/** The chat page: what happens when. Looks are in style.css, each part of the page has a module of its own. */
import { BqError } from '../js/index.js';
import { clearAlert, showError, trouble } from './alerts.js';
import * as format from './format.js';
import { Host } from './host.js';
import { isolate } from './offline.js';
import { $, chips, countOn, details, grow, message, newChat, onMessage, say, send, showLoading, stop } from './page.js';
import { Models } from './models.js';
import { Panel } from './panel.js';
import { SettingsForm } from './settings.js';
import { loadConversation, saveConversation } from './store.js';
import { Conversation } from './view.js';

/** @typedef {import('./store.js').Entry} Entry */
/** @typedef {import('../js/shared/types.js').Result} Result */

/** A reload in the middle of a reply loses no more than this many milliseconds of it. */
const SAVE_EVERY = 300;

const host = new Host();
const panel = new Panel($('details'));
const settings = new SettingsForm(/** @type {HTMLFormElement} */ ($('sampling')), $('reset'));
const conversation = new Conversation($('log'), { onCopy: copy, onRegenerate: () => answer(null) });

/** What the page is doing. @type {'loading' | 'ready' | 'writing' | 'clearing'} */
let phase = 'loading';
/** Ends the reply under way, and its end. */
let replying = new AbortController();
let underWay = Promise.resolve();

const models = new Models({
  host,
  panel,
  messages: () => conversation.entries,
  enter: (next) => enter(next ?? phase),
  loading: () => phase === 'loading',
  stopReply,
  showState,
});

/** @param {typeof phase} next */
function enter(next) {
  phase = next;
  const able = phase === 'ready' && host.hasModel;
  showLoading(phase === 'loading' || models.arriving);
  stop.hidden = phase !== 'writing';
  send.hidden = phase === 'writing';
  for (const control of [send, ...chips]) control.disabled = !able;
  newChat.disabled = phase === 'loading' || phase === 'clearing';
  conversation.canRegenerate = able;
  $('intro').hidden = conversation.entries.length > 0;
  $('fine').hidden = !$('intro').hidden;
}

const save = () => saveConversation(conversation.entries);

// ---- a turn

/** @param {string} text */
function submit(text) {
  if (phase !== 'ready' || !host.hasModel || !text.trim()) return;
  message.value = '';
  grow();
  if (!details.wide.matches) details.open = false;
  conversation.add({ role: 'user', content: text, note: '' });
  answer(text);
}

/** @param {string | null} text  what was said; null: answer the last message once more */
function answer(text) {
  if (phase === 'ready') underWay = reply(text);
}

function stopReply() {
  replying.abort();
  return underWay;
}

/** @param {string | null} text */
async function reply(text) {
  clearAlert();
  const replaced = text === null ? conversation.entries.at(-1) : undefined;
  if (replaced) conversation.drop();
  const shown = conversation.add({ role: 'assistant', content: '', note: '' });
  replying = new AbortController();
  enter('writing');
  say('Reading…');
  shown.writing = true;
  const { signal } = replying;
  const { seed, ...sampling } = settings.values;
  // A short random seed can be typed again.
  const generation = host.reply(text, { ...sampling, seed: seed ?? Math.floor(Math.random() * 1e6), signal });
  /** @type {unknown} */
  let failure = null;
  try {
    await write(generation, shown);
  } catch (error) {
    if (!signal.aborted) failure = error;
  }
  shown.writing = false;
  countOn();
  conversation.follow();
  const { result } = generation;
  const came = result !== null && (result.ids.length > 0 || result.reason !== 'abort');
  if (came) finish(result, shown);
  else undo(text, replaced);
  enter('ready');
  save();
  if (failure) showFailure(failure);
  if (!came) say(failure ? 'That failed.' : 'Stopped.');
  await panel.parts.end(host).catch(() => {}); // a model that broke has said so already
  await showState();
}

/** @param {AsyncIterable<{ text: string }>} generation @param {import('./view.js').Message} shown */
async function write(generation, shown) {
  let tokens = 0;
  let first = 0;
  let saved = 0;
  for await (const part of generation) {
    const now = performance.now();
    if (!tokens) [first] = [now, say('Writing…'), panel.parts.begin(host).catch(() => {})];
    shown.append(part.text);
    conversation.follow();
    panel.writing(++tokens, format.rate({ tokens, decodeMs: now - first }));
    countOn(tokens);
    if (now - saved > SAVE_EVERY) [saved] = [now, save()];
  }
}

/** @param {Result} result @param {import('./view.js').Message} shown */
function finish(result, shown) {
  const tokens = result.ids.length;
  const ends = { stop: '', length: 'cut at the longest reply', context: 'cut: the context is full', abort: 'stopped' };
  const facts = [format.counted(tokens, 'token'), format.speed(format.rate(result.timings)), `seed ${result.seed}`, ends[result.reason]];
  shown.note = facts.filter(Boolean).join(' · ');
  panel.reply(tokens, result.timings);
  if (result.reason === 'context') {
    showFailure(new BqError('CONTEXT_FULL', 'the conversation has filled the context: the model can read no more', { hint: 'start a new chat' }));
  }
  if (result.reason === 'abort') say(`Stopped after ${format.counted(tokens, 'token')}.`);
  else say(`Done: ${facts.slice(0, 2).filter(Boolean).join(', ')}.`);
}

/** The conversation as it was before a turn that came to nothing. @param {string | null} text @param {Entry} [replaced] */
function undo(text, replaced) {
  conversation.drop(text === null ? 1 : 2);
  if (replaced) conversation.add(replaced);
  if (text !== null && !message.value) message.value = text;
  grow();
}

/** @param {unknown} error */
function showFailure(error) {
  const code = /** @type {any} */ (error)?.code;
  if (code === 'CONTEXT_FULL') showError(error, { text: 'New chat', run: beginAnew });
  else if (code === 'TRAP' || code === 'NO_WORKER') showError(error, { text: 'Reload the page', run: () => location.reload() });
  else showError(error);
}

async function beginAnew() {
  await stopReply();
  conversation.clear();
  save();
  clearAlert();
  panel.noReply();
  enter('clearing');
  message.focus();
  say('A new chat.');
  try {
    if (host.hasModel) await host.restart([]);
  } catch (error) {
    showFailure(error);
  }
  enter('ready');
  await showState();
}

async function showState() {
  try {
    const { memory, stats } = await host.state();
    panel.state(memory, stats);
  } catch {
    // A model that broke has said so already.
  }
}

/** @param {Entry} entry */
async function copy({ content }) {
  try {
    await navigator.clipboard.writeText(content);
    say('Copied.');
  } catch (error) {
    showError(trouble('CLIPBOARD', 'the text could not be copied', 'select it and copy it with the keyboard', error));
  }
}

function listen() {
  onMessage(submit);
  stop.addEventListener('click', () => {
    replying.abort();
    message.focus();
  });
  newChat.addEventListener('click', beginAnew);
  for (const chip of chips) {
    chip.addEventListener('click', () => {
      submit(chip.textContent ?? '');
      message.focus();
    });
  }
  $('details-toggle').addEventListener('click', () => {
    details.open = !details.open;
  });
  addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    if (phase === 'writing') stop.click();
    else if (details.open && !details.wide.matches) {
      details.open = false;
      $('details-toggle').focus();
    }
  });
  addEventListener('pagehide', () => phase === 'writing' && save());
}

async function begin() {
  for (const entry of loadConversation()) conversation.add(entry);
  details.open = details.wide.matches;
  listen();
  enter('loading');
  // On a phone this would bring up the keyboard.
  if (matchMedia('(hover: hover)').matches) message.focus();
  if (await isolate()) return;
  try {
    panel.engine(await host.start());
  } catch (error) {
    enter('ready');
    say('The engine did not start.');
    return showError(error, { text: 'Reload the page', run: () => location.reload() });
  }
  await models.begin();
}

void begin();
