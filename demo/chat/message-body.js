/** The text of a message: plain, or formatted once it contains Markdown. The Markdown library is loaded then. */
import { element } from '../page/element.js';
import { limitDirections } from '../page/page.js';

/** Matches texts with Markdown: emphasis, code, formulas, lists, headings, quotes, tables, links, rules. */
const MARKED = /[*_`~|$]|\\[([]|^ {0,3}(#{1,6} |>|[-+] |\d{1,9}[.)] |---)|\]\(/m;

/** @type {Promise<typeof import('./markdown.js') | null> | null} */
let library = null;
/** Whether the user prefers plain text. */
let isAlwaysPlain = false;

/** Sets the preference for all messages that are drawn from now on. @param {boolean} plain */
export const preferPlain = (plain) => {
  isAlwaysPlain = plain;
};

export class Body {
  root = element('div', 'text');
  /** Whether the text is shown unchanged, without formatting. */
  plain = false;
  #text = '';
  #plainText = document.createTextNode('');
  #thoughts = element('details', 'thoughts');
  #thought = element('div', 'thought');
  /** Draws formatted text; null while the text is plain. @type {import('./markdown.js').Renderer | null} */
  #renderer = null;
  #drawing = false;
  #writing = false;

  constructor() {
    this.#thoughts.append(element('summary', '', 'Reasoning'), this.#thought);
    this.root.dir = this.#thought.dir = 'auto';
    this.root.append(this.#plainText);
  }

  /** @param {string} text @param {string} [reasoning] @param {boolean} [writing]  more is to come */
  show(text, reasoning = '', writing = false) {
    if (reasoning) {
      if (!this.#thoughts.isConnected) this.root.before(this.#thoughts);
      this.#thought.textContent = reasoning;
      this.#thoughts.classList.toggle('thinking', writing && !text);
    }
    this.#text = text;
    limitDirections(this.root, text.length);
    this.#writing = writing;
    if (this.#renderer) this.#draw(writing);
    else {
      // Only new text is appended, so that a selection of the user stays.
      if (text.startsWith(this.#plainText.data)) this.#plainText.appendData(text.slice(this.#plainText.length));
      else this.#plainText.data = text;
      if (!this.plain && !isAlwaysPlain && MARKED.test(text)) void this.#format();
    }
  }

  async #format() {
    library ??= import('./markdown.js').catch(() => null); // then text stays plain
    const output = await library;
    if (!output || this.#renderer) return;
    const place = element('div', 'formatted');
    this.#renderer = new output.Renderer(place);
    this.#renderer.show(this.#text, this.#writing);
    this.#plainText.replaceWith(place);
  }

  /** Draws the formatted text, at most once per frame while it is written. @param {boolean} writing */
  #draw(writing) {
    if (!writing) return this.#renderer?.show(this.#text);
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.#renderer?.show(this.#text, this.#writing);
    });
  }
}
