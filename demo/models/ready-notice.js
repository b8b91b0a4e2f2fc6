/** The notice of a downloaded model, which stays in memory as long as the notice is shown. Loaded on demand. */
import { showNotice } from '../page/alerts.js';
import { forgetDownload } from '../storage/model-history.js';

/**
 * @typedef {{ key: string, take: HTMLElement, dismiss: HTMLElement }} Ready  of a model: its key, the buttons of its
 *   notice
 */

/**
 * Shows the notice.
 * @param {{ name: string, key: string }} choice
 * @param {() => void} run  loads the model or switches to it
 */
export const showReady = ({ name, key }, run) =>
  showNotice(`${name} is ready.`, [{ text: 'Switch', run }], true, () => forgetDownload(key));

/**
 * @param {import('../storage/model-history.js').ModelChoice} choice
 * @param {import('../../js/shared/types.js').Model} model
 * @param {() => void} use
 * @returns {Ready}
 */
export function offerSwitch(choice, model, use) {
  let isTaken = false;
  const run = () => {
    isTaken = true;
    use();
  };
  const card = showReady(choice, run);
  // A click on Switch removes the notice before it calls `run`.
  card.addEventListener('removed', () => queueMicrotask(() => isTaken || void model.close()));
  const [take, dismiss] = card.querySelectorAll('button');
  return { key: choice.key, take, dismiss };
}
