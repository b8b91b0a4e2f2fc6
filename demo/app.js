/** The chat page: connects its parts, each of which is a module of its own, and contains the order of events. */
import { clearAlert, showError, showNotice, trouble } from './page/alerts.js';
import { preferPlain } from './chat/message-body.js';
import { Context } from './panel/context-meter.js';
import { composedText, isReading, loadAttachments, setComposedText, stopReading } from './chat/composer.js';
import { Current } from './chat/conversation.js';
import { Host } from './models/engine-host.js';
import { isolate, onVersion } from './offline.js';
import {
  $,
  closeBeside,
  chips,
  details,
  focusMessage,
  isComposing,
  keepFocus,
  message,
  newChat,
  onMessage,
  plain,
  rememberPanel,
  say,
  send,
  showDialog,
  showLoading,
  stop,
} from './page/page.js';
import { Models } from './models/models.js';
import { Panel } from './panel/panel.js';
import { recommendedFor } from './models/catalogue.js';
import { Settings } from './page/settings.js';
import { draftOf, editOf, loadLooks, saveDraft, saveLooks, titleOf } from './storage/local-storage.js';
import { Turns } from './chat/turn.js';
import { Log } from './chat/view.js';
import { Waiting } from './chat/reply-progress.js';

const host = new Host();
const panel = new Panel($('details'));
const size = /** @type {HTMLSelectElement} */ ($('text-size'));
/** Label of a button after it has copied. */
const COPIED = 'Copied ✓';
/** Milliseconds for which a button has this label. */
const COPIED_MS = 2000;
/** Longer pasted texts, in characters, become attachments. */
const LONG_PASTE = 2000;
/**
 * The smallest context, in tokens, in which summaries are offered. The built-in model, whose summaries are poor, has
 * less.
 */
const SUMMARY_CONTEXT = 2048;

/** The list of chats; null until it is first shown. @type {import('./chat/chat-list.js').Chats | null} */
let chats = null;
/** The state of the page. @type {'loading' | 'ready' | 'writing'} */
let phase = 'loading';

const log = new Log($('log'), {
  onCopy: ({ content }, from) => void copy(content, from),
  onRegenerate: (entry) => turns.regenerate(entry),
  onContinue: () => turns.continueReply(),
  onEdit: (entry, text) => turns.edit(entry, text),
  chatId: () => current.conversation.id,
  onMenu: (entry, menu) => {
    const page = { current, idle: () => phase === 'ready', focusAt: (/** @type {number} */ at) => log.focusAt(at, '') };
    void import('./chat/message-menu.js').then(({ fillMenu }) => fillMenu(entry, menu, page), showError);
  },
  onSummarize: () => void summarize().catch(showError),
  onSearchModel: () =>
    void import('./chat/excerpts.js').then(({ bringEmbedder }) => bringEmbedder(host, turns.regenerate), showError),
  onUndoSummary: () => {
    if (phase !== 'ready') return;
    current.takeBackSummary();
    focusMessage();
    void showState();
  },
  onVersion: (entry, step) => {
    if (phase !== 'ready') return;
    const at = current.path.indexOf(entry);
    clearAlert(); // the notice that later messages are hidden
    current.step(entry, step);
    log.focusAt(at, step < 0 ? 'Previous version' : 'Next version');
    void showState();
  },
});
const current = new Current(log, changed, () => phase === 'writing');
const settings = new Settings(
  {
    form: /** @type {HTMLFormElement} */ ($('sampling')),
    preset: /** @type {HTMLSelectElement} */ ($('preset')),
    system: /** @type {HTMLTextAreaElement} */ ($('system')),
    reset: $('reset'),
  },
  (chosen) => current.change(chosen),
);
const context = new Context({
  host,
  current: () => current,
  name: () => models.name,
  reload: (size) => void models.reload(size),
});
const waiting = new Waiting(() => models.waitReason);
const turns = new Turns({
  host,
  panel,
  settings,
  log,
  current,
  context,
  enter,
  showState,
  waiting,
  replied: (result) => models.rememberSpeed(result),
  draftChanged: keepDraft,
  get phase() {
    return phase;
  },
});
const models = new Models({
  host,
  panel,
  enter: (next) => enter(next ?? phase),
  loading: () => phase === 'loading',
  idle: () => phase === 'ready' && !current.path.length && !composedText(),
  stopReply: (handOver) => turns.stop(handOver),
  showState,
  onModel: ({ name, key }) => {
    current.forgetTokens();
    settings.recommended = recommendedFor(`${name} ${key}`).sampling ?? {};
    log.summarizes = (host.info?.contextTokens ?? 0) >= SUMMARY_CONTEXT;
  },
  onTexts: (files) => void attach(files),
});

/**
 * Changes the state of the page.
 * @param {typeof phase} next
 * @param {HTMLElement} [back]  gets the focus if the focused element disappears
 */
function enter(next, back) {
  const wasLoading = phase === 'loading';
  phase = next;
  const able = phase === 'ready' && host.hasModel;
  showLoading(phase === 'loading');
  models.showAvailability(phase === 'ready');
  const focused = document.activeElement;
  stop.hidden = phase !== 'writing';
  send.hidden = phase === 'writing';
  for (const control of [send, ...chips]) control.disabled = !able;
  newChat.disabled = phase === 'loading';
  log.able = able;
  $('intro').hidden = current.path.length > 0;
  $('better').hidden = !current.path.length || !models.isTinyInUse;
  document.title = current.path.length ? `${titleOf(current.conversation)} · bq4` : TITLE;
  keepFocus(focused, back);
  if (next === 'writing') chats?.refresh(true);
  if (able && wasLoading) turns.sendEarly();
}
const TITLE = document.title;

/** Called when another conversation is shown, or when another tab has changed the one shown. */
function changed() {
  settings.show(current.conversation);
  enter(phase);
  void showState();
}

async function showState() {
  chats?.refresh();
  if (!host.hasModel) return;
  try {
    context.offer();
    panel.state(await host.model.memory(), await context.state());
  } catch {
    // The error of a failed model is already shown.
  }
}

/** Stores the unsent text of the message field for this conversation. */
function keepDraft() {
  saveDraft(current.conversation.id, composedText());
}

function showDraft() {
  setComposedText(draftOf(current.conversation.id));
  log.restoreEdit(editOf(current.conversation.id));
}

/**
 * Shows a conversation.
 * @param {import('./storage/local-storage.js').Conversation} [conversation]  default: a new one
 */
async function open(conversation) {
  await turns.stop();
  clearAlert();
  context.clear();
  panel.noReply();
  say('');
  stopReading();
  globalThis.speechSynthesis?.cancel();
  current.open(conversation);
  showDraft();
}

async function beginAnew() {
  await open();
  say('New chat.');
  focusMessage();
}

/**
 * Copies a text to the clipboard.
 * @param {string} text
 * @param {HTMLElement} from  button whose label changes for a moment
 */
async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
    const name = from.textContent;
    if (name !== COPIED) setTimeout(() => (from.textContent = name), COPIED_MS);
    from.textContent = COPIED;
    say('Copied.');
  } catch (error) {
    showError(trouble('CLIPBOARD', "couldn't copy", 'select the text and press Ctrl+C', error));
  }
}

/** @param {File[]} files */
async function attach(files) {
  const { attachFiles } = await loadAttachments();
  await attachFiles(files);
}

/**
 * Attaches pasted files, and long texts that are pasted or dropped: Chromium lays out 2 million lines for a minute.
 * @param {any} event  `paste`, or `beforeinput` of the message field, of which only drops count
 */
function attachPasted(event) {
  const { clipboardData, data, inputType } = event;
  if (inputType && inputType !== 'insertFromDrop') return;
  const text = data ?? clipboardData?.getData('text/plain') ?? '';
  // The clipboard may contain a picture of a text in addition to the text.
  const files = text ? [] : [...(clipboardData?.files ?? [])];
  if (text.length <= LONG_PASTE && !files.length) return;
  event.preventDefault();
  if (files.length) void attach(files).catch(showError);
  else void loadAttachments().then(({ attachText }) => attachText('Pasted text', text), showError);
}

/** Loads the list of prompts when a slash is typed into an empty field. From then on the list has its own listener. */
function showPrompts() {
  if (message.value !== '/') return;
  message.removeEventListener('input', showPrompts);
  void import('./chat/prompts.js').then((prompts) => prompts.showPrompts(), showError);
}

const showShortcuts = () => void import('./page/shortcuts.js').then((page) => page.showShortcuts(), showError);

function openLink() {
  const { hash } = location;
  if (hash.startsWith('#chat='))
    void import('./chat/share-link.js').then((link) => link.openLink(hash, open, current)).catch(showError);
}

/** Offers dictation if the browser recognises speech on this device, without a server. */
async function offerDictation() {
  const { SpeechRecognition, webkitSpeechRecognition: own = SpeechRecognition } = /** @type {any} */ (globalThis);
  if ((await own?.available?.({ langs: [navigator.language], processLocally: true })) === 'available')
    (await import('./chat/dictation.js')).offerDictation(own);
}

async function summarize() {
  const work = await import('./chat/summary.js');
  const page = { host, current: () => current, log, system: context.system, waiting, enter, showState };
  return turns.runTask((signal) => work.summarize(page, signal));
}

/** Shows the list of chats. @param {'show' | 'search'} [method]  of the list @param {boolean} [isRequested]  by the user */
async function showChats(method = 'show', isRequested = true) {
  const { Chats } = await import('./chat/chat-list.js');
  chats ??= new Chats({ current, open, beginAnew, log });
  chats[method](isRequested);
}

/** Runs the shortcut of a key, if it has one. @param {KeyboardEvent} event */
function runShortcut(event) {
  const { ctrlKey, metaKey, shiftKey, altKey, keyCode } = event;
  if (altKey || !(ctrlKey || metaKey)) return;
  // The codes of O and K: keyboards of other alphabets have them, too.
  const isNewChat = shiftKey && keyCode === 79;
  if (!isNewChat && (shiftKey || keyCode !== 75)) return;
  event.preventDefault();
  if (!isNewChat) return void showChats('search').catch(showError);
  /** @type {HTMLDialogElement | null} */ (document.querySelector('dialog:modal'))?.close();
  newChat.click();
}

function listen() {
  onMessage(
    () => {
      if (isReading()) showNotice('A file is still being read. Send the message when it is attached.');
      else turns.submit(composedText());
    },
    () => phase === 'ready' && log.editLast(),
  );
  message.addEventListener('input', keepDraft);
  for (const type of ['paste', 'beforeinput']) message.addEventListener(type, attachPasted);
  message.addEventListener('input', showPrompts);
  stop.addEventListener('click', () => {
    void turns.stop();
    focusMessage();
  });
  newChat.addEventListener('click', beginAnew);
  $('chats').addEventListener('click', () => void showChats().catch(showError));
  $('perplexity').addEventListener('toggle', () =>
    import('./panel/perplexity.js').then(({ show }) => show({ host, turns, enter }), showError),
  );
  $('requests').addEventListener('toggle', () => import('./panel/requests.js').then(({ show }) => show(), showError));
  $('log').addEventListener('copy-code', (event) => {
    const { target, detail } = /** @type {CustomEvent} */ (event);
    void copy(detail, /** @type {HTMLElement} */ (target).querySelector('button') ?? $('log'));
  });
  const settingsDialog = /** @type {HTMLDialogElement} */ ($('settings'));
  $('settings-open').addEventListener('click', () => showDialog(settingsDialog));
  $('shortcuts').addEventListener('click', showShortcuts);
  $('delete-chats').addEventListener('click', () =>
    import('./chat/all-deletion.js').then((page) => page.confirmDeletion({ current, open, showState }), showError),
  );
  $('settings-close').addEventListener('click', () => settingsDialog.close());
  closeBeside(settingsDialog);
  const attachment = /** @type {HTMLInputElement} */ ($('attachment'));
  $('attach').addEventListener('click', () => attachment.click());
  attachment.addEventListener('change', () => {
    const files = [...(attachment.files ?? [])];
    attachment.value = '';
    void attach(files);
  });
  plain.addEventListener('change', () => {
    keepLooks();
    preferPlain(plain.checked);
    log.redraw();
    current.show();
  });
  size.addEventListener('change', () => {
    keepLooks();
    document.documentElement.dataset.size = size.value;
  });
  for (const chip of chips) {
    chip.addEventListener('click', () => {
      turns.submit(chip.textContent ?? '');
      focusMessage();
    });
  }
  $('details-toggle').addEventListener('click', () => {
    details.open = !details.open;
    if (details.wide.matches) rememberPanel('details', details.open);
  });
  addEventListener('keydown', runShortcut);
  addEventListener('keydown', (event) => {
    const isTyping = event.target instanceof Element && event.target.closest('input, textarea, select');
    if (event.key === '?' && !isTyping && !document.querySelector('dialog:modal')) return showShortcuts();
    if (
      event.key !== 'Escape' ||
      event.defaultPrevented ||
      isComposing(event) ||
      document.querySelector('dialog:modal')
    )
      return;
    if (phase === 'writing') stop.click();
    else if (details.open && !details.wide.matches) {
      details.open = false;
      $('details-toggle').focus();
    }
  });
  onVersion(
    (take) => showNotice('A new version of this page is ready.', [{ text: 'Reload', run: take }], true),
    () => showNotice('Close the other tabs of this page to get the new version.'),
  );
  addEventListener('pagehide', () => phase === 'writing' && current.save());
}

const keepLooks = () => saveLooks({ plain: plain.checked, size: size.value });

async function begin() {
  const looks = loadLooks();
  plain.checked = looks.plain === true;
  size.value = typeof looks.size === 'string' ? looks.size : '';
  preferPlain(plain.checked);
  current.show();
  settings.show(current.conversation);
  $('details-toggle').setAttribute('aria-expanded', String(details.open)); // set by theme.js
  showDraft();
  listen();
  enter('loading');
  void current.settle().then(showDraft);
  openLink();
  addEventListener('hashchange', openLink);
  if (document.documentElement.hasAttribute('data-sidebar')) void showChats('show', false).catch(() => {});
  // On a phone focus would open the keyboard.
  if (matchMedia('(hover: hover)').matches) message.focus();
  void offerDictation().catch(() => {});
  if (await isolate()) return;
  if (location.search)
    void import('./share-target.js').then(({ takeShared }) => takeShared(models.choose)).catch(showError);
  try {
    await host.start((info) => panel.engine(info));
  } catch (error) {
    enter('ready');
    say('The engine did not start.');
    return showError(error, { text: 'Reload the page', run: () => location.reload() });
  }
  await models.start();
}

void begin();
