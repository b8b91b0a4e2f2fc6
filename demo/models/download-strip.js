/** The strip above the message field while a model is on its way: how far it is, Pause, Cancel. */
import { $ } from '../page/page.js';

const [strip, words, pause] = [$('arriving'), $('arriving-words'), $('arriving-pause')];

/** @param {{ pause: () => void, cancel: () => void }} actions */
export function onArriving(actions) {
  pause.addEventListener('click', actions.pause);
  $('arriving-cancel').addEventListener('click', actions.cancel);
}

/** @param {string} name  '': nothing is on its way @param {boolean} [paused] @param {boolean} [converted]  it is made here, which can't be paused */
export function showArriving(name, paused = false, converted = false) {
  // Focus that would be lost with its button goes to the message.
  if (!name && strip.contains(document.activeElement)) $('message').focus();
  strip.hidden = !name;
  words.textContent = converted ? `Converting ${name}` : name;
  pause.hidden = converted;
  pause.textContent = paused ? 'Resume' : 'Pause';
}
