/** The notice of a downloaded model, which stays in memory as long as the notice is shown. Loaded on demand. */
import { showNotice } from '../page/alerts.js';
import { forgetDownload } from '../storage/model-history.js';

/**
 * @typedef {{ key: string, card: HTMLElement, take: HTMLElement, dismiss: HTMLElement }} Offered  a notice, the key of
 *   the model that it offers, and its buttons: the list of models presses them if the model is used or deleted there
 */

/**
 * Shows a notice that stays and offers a model.
 * @param {string} key  of the model
 * @param {string} words
 * @param {import('../page/alerts.js').Action} action
 * @param {() => void} onDismiss
 * @returns {Offered}
 */
export function showOffer(key, words, action, onDismiss) {
  const card = showNotice(words, [action], true, onDismiss);
  const [take, dismiss] = card.querySelectorAll('button');
  return { key, card, take, dismiss };
}

/**
 * Shows the notice of a downloaded model.
 * @param {{ name: string, key: string }} choice
 * @param {() => void} run  loads the model or switches to it
 */
export const showReady = ({ name, key }, run) =>
  showOffer(key, `${name} is ready.`, { text: 'Switch', run }, () => forgetDownload(key));

/**
 * @param {import('../storage/model-history.js').ModelChoice} choice
 * @param {import('../../js/shared/types.js').Model} model
 * @param {() => void} use
 * @returns {Offered}
 */
export function offerSwitch(choice, model, use) {
  let isTaken = false;
  const run = () => {
    isTaken = true;
    use();
  };
  const offered = showReady(choice, run);
  // A click on Switch removes the notice before it calls `run`.
  offered.card.addEventListener('removed', () => queueMicrotask(() => isTaken || void model.close()));
  return offered;
}
