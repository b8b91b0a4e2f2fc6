/** Colours in blocks of code, by a library that says which part of a text is what; elements are made here. Loaded when a block names its language. */
// @ts-ignore: its types are under another name
import highlighter from '../../node_modules/@highlightjs/cdn-assets/es/highlight.min.js';

/** Characters of a block; longer ones have one colour. */
const MAX_CODE = 20_000;

/** Builds elements in place of the library's markup. */
class ElementBuilder {
  root = document.createDocumentFragment();
  /** @type {Node[]} */
  #open = [this.root];

  /** @param {string} text */
  addText(text) {
    if (text) this.#open[0].appendChild(document.createTextNode(text));
  }

  /** The library has two names for each of these. @param {string} scope  such as `title.function` */
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

  /** @param {ElementBuilder} other  of code in another language inside */
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
  // A library that lost a letter must not change what is copied.
  if (builder.root.textContent === text) code.replaceChildren(builder.root);
}
