/** The chat page: what happens when. Looks are in style.css, each part of the page has a module of its own. */
import { clearAlert, showError, showNotice, trouble } from './page/alerts.js';
import { preferPlain } from './chat/message-body.js';
import { Context } from './panel/context-meter.js';
import { Current } from './chat/conversation.js';
import { Host } from './models/engine-host.js';
import { isolate, onVersion } from './offline.js';
import {
  $,
  chips,
  details,
  keepFocus,
  message,
  newChat,
  onMessage,
  plain,
  say,
  send,
  showLoading,
  stop,
} from './page/page.js';
import { Models } from './models/models.js';
import { Panel } from './panel/panel.js';
import { SettingsForm } from './page/settings.js';
import { takeShared } from './share-target.js';
import { loadLooks, saveLooks } from './storage/local-storage.js';
import { Turns } from './chat/turn.js';
import { Log } from './chat/view.js';
import { Waiting } from './chat/reply-progress.js';

const host = new Host();
const panel = new Panel($('details'));

/** What the page is doing. @type {'loading' | 'ready' | 'writing'} */
let phase = 'loading';

const log = new Log($('log'), {
  onCopy: ({ content }) => void copy(content),
  onRegenerate: () => turns.again(),
  onEdit: (entry, text) => turns.edit(entry, text),
  onUndoSummary: () => {
    if (phase !== 'ready') return;
    current.takeBackSummary();
    message.focus();
    void showState();
  },
  onVersion: (entry, step) => {
    if (phase !== 'ready') return;
    const at = current.path.indexOf(entry);
    current.step(entry, step);
    log.focusAt(at, step < 0 ? 'Version before' : 'Next version');
    void showState();
  },
});
const current = new Current(log, changed, () => phase === 'writing');
const settings = new SettingsForm(
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
  newChat: () => void beginAnew(),
  send: () => turns.submit(message.value),
  reload: (size) => void models.reload(size),
  summarize: () => summarize().catch((error) => (showError(error), false)),
});
const waiting = new Waiting(() => models.waits);
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
  replied: (result) => models.replied(result),
  get phase() {
    return phase;
  },
});
const models = new Models({
  host,
  panel,
  enter: (next) => enter(next ?? phase),
  loading: () => phase === 'loading',
  stopReply: () => turns.stop(),
  showState,
});

/** @param {typeof phase} next @param {HTMLElement} [back]  where the keyboard goes on, if this takes its place away */
function enter(next, back) {
  phase = next;
  const able = phase === 'ready' && host.hasModel;
  showLoading(phase === 'loading' || models.underWay);
  models.shown(phase === 'ready');
  const focused = document.activeElement;
  stop.hidden = phase !== 'writing';
  send.hidden = phase === 'writing';
  for (const control of [send, ...chips]) control.disabled = !able;
  newChat.disabled = phase === 'loading';
  log.able = able;
  $('intro').hidden = current.path.length > 0;
  $('fine').hidden = !$('intro').hidden;
  keepFocus(focused, back);
}

/** Another conversation, or what another tab wrote of it. */
function changed() {
  settings.show(current.it);
  enter(phase);
  void showState();
}

async function showState() {
  if (!host.hasModel) return;
  try {
    context.offer();
    panel.state(await host.model.memory(), await context.state());
  } catch {
    // A model that broke has said so already.
  }
}

/** @param {import('./storage/local-storage.js').Conversation} [conversation]  none: a new one */
async function open(conversation) {
  await turns.stop();
  clearAlert();
  context.clear();
  panel.noReply();
  current.open(conversation);
}

async function beginAnew() {
  const before = current.path.length ? current.it : null;
  await open();
  say('A new chat.');
  if (before)
    showNotice('A new chat. The one before is in the list.', [{ text: 'Undo', run: () => void open(before) }]);
  message.focus();
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied.');
  } catch (error) {
    showError(trouble('CLIPBOARD', 'the text could not be copied', 'select it and copy it with the keyboard', error));
  }
}

async function summarize() {
  const work = await import('./chat/summary.js');
  const page = { host, current: () => current, log, system: context.system, waiting, enter, showState };
  return turns.instead((signal) => work.summarize(page, signal));
}

async function showChats() {
  const { Chats } = await import('./chat/chat-list.js');
  new Chats({ current, open, beginAnew }).show();
}

function listen() {
  onMessage(turns.submit);
  stop.addEventListener('click', () => {
    void turns.stop();
    message.focus();
  });
  newChat.addEventListener('click', beginAnew);
  $('chats').addEventListener('click', () => void showChats().catch((error) => showError(error)));
  $('perplexity').addEventListener('toggle', () =>
    import('./panel/perplexity.js').then(({ show }) => show({ host, turns, enter }), showError),
  );
  $('log').addEventListener('copy-code', (event) => void copy(/** @type {CustomEvent} */ (event).detail));
  plain.addEventListener('change', () => {
    saveLooks({ plain: plain.checked });
    preferPlain(plain.checked);
    log.redraw();
    current.show();
  });
  for (const chip of chips) {
    chip.addEventListener('click', () => {
      turns.submit(chip.textContent ?? '');
      message.focus();
    });
  }
  $('details-toggle').addEventListener('click', () => {
    details.open = !details.open;
  });
  addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return;
    if (phase === 'writing') stop.click();
    else if (details.open && !details.wide.matches) {
      details.open = false;
      $('details-toggle').focus();
    }
  });
  onVersion(
    (take) => showNotice('A new version of this page is here.', [{ text: 'Reload', run: take }], true),
    () => showNotice('The new version comes when the other tabs of this page are closed.'),
  );
  addEventListener('pagehide', () => phase === 'writing' && current.save());
}

async function begin() {
  plain.checked = loadLooks().plain === true;
  preferPlain(plain.checked);
  current.show();
  settings.show(current.it);
  details.open = details.wide.matches;
  listen();
  enter('loading');
  // On a phone this would bring up the keyboard.
  if (matchMedia('(hover: hover)').matches) message.focus();
  if (await isolate()) return;
  takeShared();
  try {
    await host.start((info) => panel.engine(info));
  } catch (error) {
    enter('ready');
    say('The engine did not start.');
    return showError(error, { text: 'Reload the page', run: () => location.reload() });
  }
  await models.begin();
}

void begin();
