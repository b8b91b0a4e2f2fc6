/** Announces a reply to screen readers: complete sentences, not single tokens. */
import { element } from '../page/element.js';

/** Text of this length, in characters, is announced even if no sentence ends in it. */
const MAX_PENDING = 300;

const region = /** @type {HTMLElement} */ (document.getElementById('heard'));

/** @param {string} text @returns {string[]} */
function sentences(text) {
  if ('Segmenter' in Intl)
    return Array.from(
      new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(text),
      ({ segment }) => segment,
    );
  return text.split(/(?<=[.!?…。！？।॥]\s)|(?<=\n)/u);
}

export class Speaker {
  /** Text that has not been announced yet. */
  #pending = '';

  /** Announces the sentences that this text completes. @param {string} text  next part of the reply */
  hear(text) {
    this.#pending += text;
    // A sentence has certainly ended only when the next one begins.
    if (!/[.!?…:。！？।॥\n]/u.test(this.#pending) && this.#pending.length < MAX_PENDING) return;
    const all = sentences(this.#pending);
    if (all.length < 2 && this.#pending.length < MAX_PENDING) return;
    this.#pending = all.length > 1 ? String(all.pop()) : '';
    for (const sentence of all) this.#announce(sentence);
  }

  /** Announces the remaining text at the end of the reply. */
  end() {
    this.#announce(this.#pending);
    this.#pending = '';
  }

  /** @param {string} text */
  #announce(text) {
    if (!text.trim()) return;
    region.append(element('p', '', text.trim()));
    while (region.childElementCount > 20) region.firstElementChild?.remove();
  }
}
