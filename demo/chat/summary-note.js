/** A summary of older messages within a conversation, with a button that removes it. */
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

  /** @param {string} text @param {boolean} writing  whether it is incomplete */
  show(text, writing) {
    this.#text.textContent = text;
    this.#undo.hidden = writing;
    this.root.classList.toggle('writing', writing);
  }
}
