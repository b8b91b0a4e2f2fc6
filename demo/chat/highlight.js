/**
 * Highlights code blocks. The library only classifies parts of the text; elements are made here. Loaded with the first
 * block that has a language.
 */
// @ts-ignore: its types are under another name
import highlighter from '../../node_modules/@highlightjs/cdn-assets/es/highlight.min.js';

/** Longer blocks, in characters, are not highlighted. */
const MAX_CODE = 20_000;

/** Emitter for the library: builds elements instead of markup. */
class ElementBuilder {
  root = document.createDocumentFragment();
  /** @type {Node[]} */
  #open = [this.root];

  /** @param {string} text */
  addText(text) {
    if (text) this.#open[0].appendChild(document.createTextNode(text));
  }

  /** Also called `startScope` by the library. @param {string} scope  such as `title.function` */
  openNode(scope) {
    const part = document.createElement('span');
    part.className = `code-${scope.split('.', 1)[0]}`;
    this.#open[0].appendChild(part);
    this.#open.unshift(part);
  }

  closeNode() {
    if (this.#open.length > 1) this.#open.shift();
  }

  /** @param {string} scope */
  startScope(scope) {
    this.openNode(scope);
  }

  endScope() {
    this.closeNode();
  }

  /** @param {ElementBuilder} other  of embedded code in another language */
  __addSublanguage(other) {
    this.#open[0].appendChild(other.root);
  }

  finalize() {
    this.#open = [this.root];
  }

  toHTML() {
    return '';
  }
}
highlighter.configure({ __emitter: ElementBuilder });

/** @param {HTMLElement} code  its text is the code @param {string} language */
export function highlight(code, language) {
  const text = code.textContent ?? '';
  if (text.length > MAX_CODE || !highlighter.getLanguage(language)) return;
  const { _emitter: builder } = highlighter.highlight(text, { language, ignoreIllegals: true });
  // The highlighted text must be equal to the code, because it is what Copy copies.
  if (builder.root.textContent === text) code.replaceChildren(builder.root);
}
