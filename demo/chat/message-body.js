/** A message's text: plain, or, once it has marks of Markdown in it, formatted by a library that is loaded then. */
import { element } from '../page/element.js';

/** What makes a text worth formatting: emphasis, code, formulas, lists, headings, quotes, tables, links, rules. */
const MARKED = /[*_`~|$]|\\[([]|^ {0,3}(#{1,6} |>|[-+] |\d{1,9}[.)] |---)|\]\(/m;

/** @type {Promise<typeof import('./markdown.js') | null> | null} */
let library = null;
/** The person wants plain text. */
let always = false;

/** @param {boolean} plain  for all messages that are made from now on */
export const preferPlain = (plain) => {
  always = plain;
};

export class Body {
  root = element('div', 'text');
  /** It is shown as it is. */
  plain = false;
  #text = '';
  #plainText = document.createTextNode('');
  #thoughts = element('details', 'thoughts');
  #thought = element('div', 'thought');
  /** Draws formatted text, once there is some. @type {import('./markdown.js').Renderer | null} */
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
    this.#writing = writing;
    if (this.#renderer) this.#draw(writing);
    else {
      // Only what is new: what a person has marked stays marked.
      if (text.startsWith(this.#plainText.data)) this.#plainText.appendData(text.slice(this.#plainText.length));
      else this.#plainText.data = text;
      if (!this.plain && !always && MARKED.test(text)) void this.#format();
    }
  }

  async #format() {
    library ??= import('./markdown.js').catch(() => null); // without it text stays plain
    const output = await library;
    if (!output || this.#renderer) return;
    const place = element('div', 'formatted');
    this.#renderer = new output.Renderer(place);
    this.#renderer.show(this.#text, this.#writing);
    this.#plainText.replaceWith(place);
  }

  /** Once per frame while it is written. @param {boolean} writing */
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
