/** A summary of older turns, where it stands in a conversation: marked as the model's, with a button that takes it back. */
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
      element('p', 'hint', 'The model now sees this summary instead of the messages above'),
      this.#text,
      this.#undo,
    );
  }

  /** @param {string} text @param {boolean} writing  it is not complete yet */
  show(text, writing) {
    this.#text.textContent = text;
    this.#undo.hidden = writing;
    this.root.classList.toggle('writing', writing);
  }
}
