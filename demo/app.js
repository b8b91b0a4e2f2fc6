/** The chat page: what happens when. Looks are in style.css, each part of the page has a module of its own. */
import { clearAlert, showError, trouble } from './alerts.js';
import { Host } from './host.js';
import { isolate } from './offline.js';
import { $, chips, details, message, newChat, onMessage, say, send, showLoading, stop } from './page.js';
import { Models } from './models.js';
import { Panel } from './panel.js';
import { SettingsForm } from './settings.js';
import { loadConversation, saveConversation } from './store.js';
import { Turns } from './turn.js';
import { Conversation } from './view.js';

/** @typedef {import('./store.js').Entry} Entry */

const host = new Host();
const panel = new Panel($('details'));
const settings = new SettingsForm(/** @type {HTMLFormElement} */ ($('sampling')), $('reset'));
const conversation = new Conversation($('log'), { onCopy: copy, onRegenerate: () => turns.answer(null) });

/** What the page is doing. @type {'loading' | 'ready' | 'writing' | 'clearing'} */
let phase = 'loading';

const turns = new Turns({
  host, panel, settings, conversation, enter, showState,
  save: () => saveConversation(conversation.entries),
  get phase() {
    return phase;
  },
});
const models = new Models({
  host,
  panel,
  messages: () => conversation.entries,
  enter: (next) => enter(next ?? phase),
  loading: () => phase === 'loading',
  stopReply: () => turns.stop(),
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
  onMessage(turns.submit);
  stop.addEventListener('click', () => {
    void turns.stop();
    message.focus();
  });
  newChat.addEventListener('click', turns.beginAnew);
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
    if (event.key !== 'Escape') return;
    if (phase === 'writing') stop.click();
    else if (details.open && !details.wide.matches) {
      details.open = false;
      $('details-toggle').focus();
    }
  });
  addEventListener('pagehide', () => phase === 'writing' && saveConversation(conversation.entries));
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
