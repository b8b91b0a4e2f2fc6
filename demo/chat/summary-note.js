/** What older turns were summed up to, where it stands in a conversation: marked as the model's, and taken back. */
import { button, element } from '../page/element.js';

/** @typedef {import('../storage/local-storage.js').Summary} Summary */

export class SummaryNote {
  #text = element('p', 'text');
  #undo;
  root = element('aside', 'summary');

  /** @param {() => void} onUndo */
  constructor(onUndo) {
    this.#undo = button('Undo', 'Undo the summary', onUndo);
    this.root.setAttribute('aria-label', 'Summary');
    this.root.append(
      element('p', 'hint', 'The model’s summary of what stands above: it reads this instead'),
      this.#text,
      this.#undo,
    );
  }

  /** @param {string} text @param {boolean} writing  it is not in use yet */
  show(text, writing) {
    this.#text.textContent = text;
    this.#undo.hidden = writing;
    this.root.classList.toggle('writing', writing);
  }
}
