/** What a screen reader hears of a reply: whole sentences as they are finished, not its tokens. */
import { element } from '../page/element.js';

/** A rest as long as this is said though no sentence ends in it. */
const LONG = 300;

const place = /** @type {HTMLElement} */ (document.getElementById('heard'));

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
  #rest = '';

  /** @param {string} text  what the reply goes on with */
  hear(text) {
    this.#rest += text;
    // Only behind its end is it certain that a sentence has ended.
    if (!/[.!?…:。！？।॥\n]/u.test(this.#rest) && this.#rest.length < LONG) return;
    const all = sentences(this.#rest);
    if (all.length < 2 && this.#rest.length < LONG) return;
    this.#rest = all.length > 1 ? String(all.pop()) : '';
    for (const sentence of all) this.#say(sentence);
  }

  /** What is left of the reply. */
  end() {
    this.#say(this.#rest);
    this.#rest = '';
  }

  /** @param {string} text */
  #say(text) {
    if (!text.trim()) return;
    place.append(element('p', '', text.trim()));
    while (place.childElementCount > 20) place.firstElementChild?.remove();
  }
}
