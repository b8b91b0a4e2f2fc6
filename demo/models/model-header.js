/** Shows the model in use: its name at the top, a picture of its weights, its facts, its chat template. */
import { $, say } from '../page/page.js';
import { factsOf, rememberFacts } from '../storage/model-history.js';
import { glimpse } from '../panel/weight-picture.js';

/** @typedef {import('../../js/shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */

/** @param {string} name  '' for no model */
export function showName(name) {
  $('model-name').textContent = name || 'Choose a model';
}

/** Hides the name and picture of the previous model when no model is in use. */
export function showNone() {
  showName('');
  $('glimpse').hidden = true;
}

/**
 * @param {ModelInfo} info
 * @param {ModelChoice} choice
 * @param {import('./models.js').Page} page
 * @param {AbortSignal} signal  aborted when another model is loaded
 */
export function showModel(info, choice, page, signal) {
  const { source, kind, key, name } = choice;
  // The content security policy does not let the page itself read files of other sites.
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

/**
 * Shows the chat template chosen for a model without one.
 * @param {ModelInfo} info
 * @param {string} key
 * @param {import('./models.js').Page} page
 * @param {boolean} ask  whether the user is asked to choose one
 */
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
