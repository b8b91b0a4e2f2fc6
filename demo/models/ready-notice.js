/** The notice of a model that was downloaded: it is held in memory, beside the one in use, as long as its notice is there. Loaded on demand. */
import { showNotice } from '../page/alerts.js';
import { forgetDownload } from '../storage/model-history.js';

/** @typedef {{ key: string, take: HTMLElement, dismiss: HTMLElement }} Ready  of a model: its key, the buttons of its notice */

/** The notice. @param {{ name: string, key: string }} choice @param {() => void} run  loads it or switches to it */
export const showReady = ({ name, key }, run) =>
  showNotice(`${name} is ready.`, [{ text: 'Switch', run }], true, () => forgetDownload(key));

/** @param {import('../storage/model-history.js').ModelChoice} choice @param {import('../../js/shared/types.js').Model} model @param {() => void} use @returns {Ready} */
export function offerSwitch(choice, model, use) {
  let taken = false;
  const run = () => {
    taken = true;
    use();
  };
  const card = showReady(choice, run);
  // Switch takes the notice away before it does its work.
  card.addEventListener('removed', () => queueMicrotask(() => taken || void model.close()));
  const [take, dismiss] = card.querySelectorAll('button');
  return { key: choice.key, take, dismiss };
}
