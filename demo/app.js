/** The chat page: what happens when. Looks are in style.css, each part of the page has a module of its own. */
import { BqError } from '../js/index.js';
import { clearAlert, showError, trouble } from './alerts.js';
import { BUNDLED, keepBundled } from './bundled.js';
import { crashed, marked } from './crash.js';
import { onDrop } from './drop.js';
import * as format from './format.js';
import { glimpse, GLIMPSED } from './weight-picture.js';
import { Host } from './host.js';
import { hidePlan, onLink } from './link-card.js';
import { Links } from './link-flow.js';
import { isolate, keepForOffline } from './offline.js';
import { showOffers } from './offers.js';
import { $, chips, countOn, details, fileInput, grow, message, newChat, onMessage, say, send, showLoading, showProgress, stop } from './page.js';
import { Panel } from './panel.js';
import { SettingsForm } from './settings.js';
import { StoragePanel } from './storage.js';
import { loadConversation, saveConversation } from './store.js';
import { Conversation } from './view.js';

/** @typedef {import('./store.js').Entry} Entry */
/** @typedef {import('../js/shared/types.js').ModelInfo} ModelInfo */
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
/** Ends the loading under way: the file that is chosen last wins. */
let opening = new AbortController();
/** Weights are on their way while the model is in use already. */
let arriving = false;
/** @type {StoragePanel | null} */
let storage = null;
const links = new Links(host, {
  renew,
  open,
  stopReply,
  get signal() {
    return opening.signal;
  },
  get arriving() {
    return arriving;
  },
  async settle() {
    arriving = false;
    enter(phase === 'loading' ? 'ready' : phase);
    await storage?.show();
    if (host.hasModel) await showState();
  },
  openBundled: () => openBundled(),
});

/** @param {typeof phase} next */
function enter(next) {
  phase = next;
  const able = phase === 'ready' && host.hasModel;
  showLoading(phase === 'loading' || arriving);
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

// ---- models

/** Ends what is being opened. @returns {AbortSignal}  of what is opened next */
function renew() {
  opening.abort();
  opening = new AbortController();
  return opening.signal;
}

/**
 * Loads a model in place of the one in use, which goes on when that fails.
 * @param {string} name  to show while the file hasn't said its own
 * @param {Blob | string} source  a file, or the address of one
 * @param {{ retry?: () => void, level?: number, streaming?: boolean }} [how]  `level`: how often to halve the context
 * @returns {Promise<boolean>}  whether it runs now
 */
async function open(name, source, { retry, level = 0, streaming = false } = {}) {
  const signal = renew();
  await stopReply();
  clearAlert();
  arriving = false;
  enter('loading');
  say(`Loading ${name}…`);
  try {
    const url = typeof source === 'string' && source !== BUNDLED ? source : null;
    const sizes = { ...(level && { context: await host.smaller(source, level, signal) }), streaming };
    const info = await /** @type {Promise<ModelInfo>} */ (new Promise((resolve, reject) => {
      // Memory is taken as weights come: the mark stays until they are there.
      marked({ name, url, level }, async () => {
        resolve(await host.load(source, conversation.entries, sizes, showProgress, signal));
        await host.arrived;
      }).catch(reject);
    }));
    showModel(info, info.name || name, source);
    say(info.chat || info.template ? 'Ready.' : 'Ready. This model knows no chat: it goes on with what you write.');
    arriving = streaming;
    enter('ready');
    await showState();
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    enter('ready');
    say(host.hasModel ? 'That file was not loaded; the model before it still runs.' : 'No model is loaded.');
    showError(error, retry && { text: 'Try again', run: retry });
    return false;
  }
}

/** @param {ModelInfo} info @param {string} name @param {Blob | string} source  of other sites the page itself may read nothing */
function showModel(info, name, source) {
  const readable = typeof source !== 'string' || source === BUNDLED;
  $('glimpse').hidden = $('glimpse-note').hidden = !readable;
  $('glimpse-note').textContent = `${GLIMPSED} of the ${format.large(info.fileBytes * 2)} four-bit pieces of its file`;
  if (readable) {
    const { signal } = opening;
    void glimpse(/** @type {HTMLCanvasElement} */ ($('glimpse')), source, info.fileBytes).then((shown) => {
      if (!shown && !signal.aborted) $('glimpse').hidden = $('glimpse-note').hidden = true;
    });
  }
  panel.model(info, name);
  panel.noReply();
  $('model-name').textContent = name;
  $('parameters').textContent = `${format.parameters(info)} model`;
}

async function openBundled(level = 0) {
  hidePlan();
  const opened = await open('the bundled model', BUNDLED, { retry: () => openBundled(level), level });
  if (opened) $('bundled').hidden = true;
}

/** After a tab died while it loaded something: not the same again, but less. @returns {Promise<boolean>}  whether it was so */
async function afterCrash() {
  const attempt = await crashed();
  if (!attempt) return false;
  const again = () => (attempt.url ? links.look(attempt.url, attempt.level + 1) : openBundled(attempt.level + 1));
  enter('ready');
  say('The page ended while it loaded a model.');
  showError(trouble('CRASHED', `the tab ended while it loaded ${attempt.name}: most likely there was not enough memory`, 'load it with a smaller context, or go on with the bundled model'), { text: 'Load with less memory', run: again });
  $('bundled').hidden = false;
  return true;
}

/** @param {File | undefined} file */
async function openFile(file) {
  if (!file) return;
  hidePlan();
  const opened = await open(file.name, file);
  if (opened) $('bundled').hidden = false;
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
  $('open').addEventListener('click', () => fileInput.click());
  fileInput.addEventListener('change', () => {
    void openFile(fileInput.files?.[0]);
    fileInput.value = '';
  });
  $('bundled').addEventListener('click', () => openBundled());
  onLink(links);
  onDrop($('drop'), openFile);
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
  void showOffers((url) => void links.look(url));
  if (host.store) storage = new StoragePanel(host.store, { onUse: (url) => void (url === BUNDLED ? openBundled() : links.look(url)), onError: (error) => showError(error) });
  if (!(await afterCrash())) await openBundled();
  await storage?.show();
  panel.set('offline', 'Storing the page and the model…');
  panel.set('offline', await keepForOffline(() => keepBundled(host.store)));
  await storage?.show();
}

void begin();
