/** What the page shows of its model: its name at the top, a glimpse of its weights, its facts, how a chat with it is written. */
import * as format from '../page/format.js';
import { $, say } from '../page/page.js';
import { factsOf, rememberFacts } from '../storage/model-history.js';
import { glimpse, GLIMPSED } from '../panel/weight-picture.js';

/** @typedef {import('../../js/shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('../storage/model-history.js').Wanted} Wanted */

/** @param {string} name  '': no model */
export function showName(name) {
  $('model-name').textContent = name || 'Choose a model';
}

/** There is none: nothing that was said of one before. */
export function showNone() {
  showName('');
  $('parameters').textContent = 'language model of your choice';
  $('glimpse').hidden = $('glimpse-note').hidden = true;
}

/** What a person knows it as. @param {Wanted} wanted @param {string} [own]  what its file says */
export const titleOf = ({ kind, name }, own) => (kind === 'bundled' && own) || name;

/** @param {ModelInfo} info @param {Wanted} wanted  of other sites the page itself may read nothing @param {import('./models.js').Page} page @param {AbortSignal} signal  another is being loaded */
export function showModel(info, wanted, page, signal) {
  const { source, kind, key } = wanted;
  const readable = kind !== 'link' && !Array.isArray(source);
  $('glimpse').hidden = $('glimpse-note').hidden = !readable;
  $('glimpse-note').textContent = `${GLIMPSED} of the ${format.large(info.fileBytes * 2)} four-bit pieces of its file`;
  if (readable) {
    void glimpse(/** @type {HTMLCanvasElement} */ ($('glimpse')), source, info.fileBytes).then((shown) => {
      if (!shown && !signal.aborted) $('glimpse').hidden = $('glimpse-note').hidden = true;
    });
  }
  page.panel.model(info, info.name || wanted.name, kind);
  page.panel.noReply();
  showName(titleOf(wanted, info.name));
  $('parameters').textContent = `${format.parameters(info)} model`;
  void chatFormat(info, key, page, factsOf(key).format === undefined);
  $('format-change').onclick = () => void chatFormat(info, key, page, true);
}

/** A model that says nothing of chats: how it is talked to. @param {ModelInfo} info @param {string} key @param {import('./models.js').Page} page @param {boolean} ask */
async function chatFormat(
  { chatFormat: chat, chatTemplate: template, generates },
  key,
  { host, panel, showState, stopReply },
  ask,
) {
  const unknown = generates && !chat && !template;
  $('format-row').hidden = !unknown;
  $('format').hidden = true;
  if (!unknown) return;
  const { askFormat, formatTitle } = await import('./format-card.js');
  const chosen = factsOf(key).format ?? '';
  panel.set('format', formatTitle(chosen));
  if (!ask) return;
  await askFormat(chosen, host.tokenId, async (name) => {
    rememberFacts(key, { format: name });
    panel.set('format', formatTitle(name));
    await stopReply();
    host.format = name;
    await showState();
    say(name ? `The chat is written as ${formatTitle(name)} from now on.` : 'The model goes on with what you write.');
  });
}
