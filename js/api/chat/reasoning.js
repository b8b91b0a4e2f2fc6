/**
 * Reasoning in a reply: what a model writes between its think marks comes as a part of its own, without the marks.
 */
import { overlap } from './stop-strings.js';

/** @import { Part, Result } from '../../shared/types.js' */

/** Marks of models that reason. @type {[string, string][]} */
const KNOWN = [
  ['<think>', '</think>'],
  ['[THINK]', '[/THINK]'],
  ['<|START_THINKING|>', '<|END_THINKING|>'],
  ['<seed:think>', '</seed:think>'],
  ['<thinking>', '</thinking>'],
];

export class Thinking {
  /** @type {string} */
  #open;
  /** @type {string} */
  #close;
  /** Before the opening mark, between the marks, behind the closing one. @type {'before' | 'inside' | 'after'} */
  #place;
  /** What may be part of a mark. */
  #held = '';
  /** White space at the beginning of what comes next is left out. */
  #bare = false;
  /** Of each part. @type {{ text: string, reasoning: string }[]} */
  #told = [];

  /** @param {[string, string]} marks @param {boolean} opened  by the prompt already */
  constructor([open, close], opened) {
    this.#open = open;
    this.#close = close;
    this.#place = opened ? 'inside' : 'before';
    this.#bare = opened;
  }

  /**
   * For a reply to this prompt; null: the model has no marks.
   * @param {[string, string] | undefined} given  marks of the format
   * @param {string} template @param {string} prompt  its last text
   */
  static of(given, template, prompt) {
    const marks = given ?? KNOWN.find(([open]) => template.includes(open));
    return marks ? new Thinking(marks, prompt.lastIndexOf(marks[0]) > prompt.lastIndexOf(marks[1])) : null;
  }

  /** What opens and what closes the reasoning. @returns {[string, string]} */
  get marks() {
    return [this.#open, this.#close];
  }

  get place() {
    return this.#place;
  }

  /** What a reply's next text is. @param {string} text @param {boolean} ends  nothing more comes @returns {{ text: string, reasoning: string }} */
  push(text, ends) {
    this.#held += text;
    const { text: said, reasoning = '' } = this.#part(0, ends);
    return { text: said, reasoning };
  }

  /** @param {AsyncIterable<Part>} run @returns {AsyncGenerator<Part, void>} */
  async *parts(run) {
    let last = 0;
    for await (const { token, text, ...more } of run) {
      last = token;
      this.#held += text;
      yield { ...more, ...this.#part(token, false) };
    }
    // What could have become a mark and didn't.
    if (this.#held) yield this.#part(last, true);
  }

  /** @param {Result} result  of the whole reply @param {number} read  parts that were read @returns {Result} */
  result(result, read) {
    const told = this.#told.slice(0, read);
    const all = (/** @type {'text' | 'reasoning'} */ kind) => told.map((part) => part[kind]).join('');
    return { ...result, text: all('text'), reasoning: all('reasoning') };
  }

  /** @param {number} token @param {boolean} ends @returns {Part} */
  #part(token, ends) {
    const told = { text: '', reasoning: '' };
    if (this.#place === 'before') this.#begin(ends);
    if (this.#place === 'inside') told.reasoning = this.#reason(ends);
    if (this.#place === 'after') told.text = this.#take(this.#held.length);
    this.#told.push(told);
    return { token, text: told.text, ...(told.reasoning && { reasoning: told.reasoning }) };
  }

  /** Only a reply's first words can open the reasoning. @param {boolean} ends */
  #begin(ends) {
    const first = this.#held.trimStart();
    if (first.startsWith(this.#open)) {
      this.#place = 'inside';
      this.#bare = true;
      this.#held = first.slice(this.#open.length);
    } else if (ends || !this.#open.startsWith(first)) this.#place = 'after';
  }

  /** @param {boolean} ends */
  #reason(ends) {
    const at = this.#held.indexOf(this.#close);
    if (at < 0) return this.#take(this.#held.length - (ends ? 0 : overlap(this.#held, this.#close)));
    const reasoning = this.#take(at);
    this.#held = this.#held.slice(this.#close.length);
    this.#place = 'after';
    this.#bare = true;
    return reasoning;
  }

  /** @param {number} length  of what is held */
  #take(length) {
    const all = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    const text = this.#bare ? all.trimStart() : all;
    if (text) this.#bare = false;
    return text;
  }
}
