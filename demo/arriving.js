/** The strip above the message field while a model is on its way: how far it is, Pause, Cancel. */
import * as format from './format.js';
import { $ } from './page.js';

/** @typedef {import('../js/shared/types.js').Progress} Progress */

const [strip, words, pause] = [$('arriving'), $('arriving-words'), $('arriving-pause')];

/** How far a load is, for people. @param {Pick<Progress, 'phase' | 'loaded' | 'total' | 'rate' | 'secondsLeft' | 'failures'>} progress */
export function progressWords({ phase, loaded, total, rate, secondsLeft, failures }) {
  const amount = total ? `${format.bytes(loaded)} of ${format.bytes(total)}` : format.bytes(loaded);
  if (phase === 'convert') return `${amount} converted`;
  if (phase === 'paused') return `${amount}, paused`;
  if (failures) return `${amount}; the network failed, trying again (${failures + 1})`;
  const pace = rate > 0 ? `${format.bytes(rate)}/s` : '';
  const left = secondsLeft === null || !pace ? '' : `${format.duration(secondsLeft * 1000)} left`;
  return [amount, pace, left].filter(Boolean).join(', ');
}

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
