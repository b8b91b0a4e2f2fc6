/** The card above the message field with the progress of a download or load, Pause and Cancel. */
import * as format from '../page/format.js';
import { $, focusMessage } from '../page/page.js';

const [strip, words, pause, amount] = [$('arriving'), $('arriving-words'), $('arriving-pause'), $('arriving-amount')];
const bar = /** @type {HTMLProgressElement} */ ($('arriving-bar'));

/** @param {{ pause: () => void, cancel: () => void }} actions */
export function onArriving(actions) {
  pause.addEventListener('click', actions.pause);
  $('arriving-cancel').addEventListener('click', actions.cancel);
}

/**
 * Shows or hides the card.
 * @param {string} text  '' hides it
 * @param {boolean} [paused]
 * @param {boolean} [converted]  whether it cannot be paused, such as a conversion
 */
export function showArriving(text, paused = false, converted = false) {
  // The focus would be lost with its button.
  if (!text && strip.contains(document.activeElement)) focusMessage();
  if (!text || words.textContent !== text) {
    bar.removeAttribute('value');
    amount.textContent = '';
  }
  strip.hidden = !text;
  words.textContent = text;
  pause.hidden = converted;
  pause.textContent = paused ? 'Resume' : 'Pause';
}

/** @param {import('../../js/shared/types.js').Progress} progress */
export function showArrived(progress) {
  if (progress.total) bar.value = progress.loaded / progress.total;
  amount.textContent = format.progress(progress);
}
