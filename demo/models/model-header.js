/** What the page shows of its model: its name at the top, a picture of its weights, its facts, its chat template. */
import { $, say } from '../page/page.js';
import { factsOf, rememberFacts } from '../storage/model-history.js';
import { glimpse } from '../panel/weight-picture.js';

/** @typedef {import('../../js/shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */

/** @param {string} name  '': no model */
export function showName(name) {
  $('model-name').textContent = name || 'Choose a model';
}

/** No model is in use: hides the name and picture of the one before. */
export function showNone() {
  showName('');
  $('glimpse').hidden = true;
}

/** @param {ModelInfo} info @param {ModelChoice} choice  of other sites the page itself may read nothing @param {import('./models.js').Page} page @param {AbortSignal} signal  another is being loaded */
export function showModel(info, choice, page, signal) {
  const { source, kind, key, name } = choice;
  const readable = kind !== 'link' && !Array.isArray(source);
  $('glimpse').hidden = !readable;
  if (readable) {
    void glimpse(/** @type {HTMLCanvasElement} */ ($('glimpse')), source, info.fileBytes).then((shown) => {
      if (!shown && !signal.aborted) $('glimpse').hidden = true;
    });
  }
  page.panel.model(info, name, kind);
  page.panel.noReply();
  showName(name);
  void chatFormat(info, key, page, factsOf(key).format === undefined);
  $('format-change').onclick = () => void chatFormat(info, key, page, true);
}

/** A model without a chat template: the person chooses one. @param {ModelInfo} info @param {string} key @param {import('./models.js').Page} page @param {boolean} ask */
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
    say(name ? `The chat template is ${formatTitle(name)} from now on.` : 'The model continues your text.');
  });
}
