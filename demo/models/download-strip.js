/** The card above the message field while a model is downloaded or read: how far it is, Pause, Cancel. */
import * as format from '../page/format.js';
import { $ } from '../page/page.js';

const [strip, words, pause, amount] = [$('arriving'), $('arriving-words'), $('arriving-pause'), $('arriving-amount')];
const bar = /** @type {HTMLProgressElement} */ ($('arriving-bar'));

/** @param {{ pause: () => void, cancel: () => void }} actions */
export function onArriving(actions) {
  pause.addEventListener('click', actions.pause);
  $('arriving-cancel').addEventListener('click', actions.cancel);
}

/** @param {string} text  '': nothing is on its way @param {boolean} [paused] @param {boolean} [converted]  it is converted here, which can't be paused */
export function showArriving(text, paused = false, converted = false) {
  // The keyboard, where it would be lost with its button, goes to the message.
  if (!text && strip.contains(document.activeElement)) $('message').focus();
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
