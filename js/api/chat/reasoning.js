/**
 * Separates reasoning from the answer: text between think marks is reported in `reasoning`, without the marks.
 */
import { overlap } from './stop-strings.js';

/** @import { Part, Result } from '../../shared/types.js' */

/** Opening and closing think marks of known chat templates. @type {[string, string][]} */
const KNOWN_MARKS = [
  ['<think>', '</think>'],
  ['[THINK]', '[/THINK]'],
  ['<|START_THINKING|>', '<|END_THINKING|>'],
  ['<seed:think>', '</seed:think>'],
  ['<thinking>', '</thinking>'],
  // Gemma 4: a channel of this name, which an empty one before a reply turns off.
  ['<|channel>thought', '<channel|>'],
];

export class ReasoningParser {
  /** @type {string} */
  #open;
  /** @type {string} */
  #close;
  /** Before the opening mark, between the marks, after the closing one. @type {'before' | 'inside' | 'after'} */
  #position;
  /** Text held back because it may be the beginning of a mark. */
  #pending = '';
  /** Whether white space at the start of the next text is dropped. */
  #trimsStart = false;
  /** Text and reasoning of each part, for the result. @type {{ text: string, reasoning: string }[]} */
  #parts = [];

  /** Texts of special tokens, which a reply shows none of, that marks are or begin with, by their ids. @type {Map<number, string>} */
  #markTexts = new Map();

  /** @param {[string, string]} marks @param {boolean} isOpened  the prompt ends inside the marks */
  constructor([open, close], isOpened) {
    this.#open = open;
    this.#close = close;
    this.#position = isOpened ? 'inside' : 'before';
    this.#trimsStart = isOpened;
  }

  /**
   * A parser for a reply to this prompt; null: the model has no marks.
   * @param {[string, string] | undefined} formatMarks  marks of the format
   * @param {string} template @param {string} prompt  its last text
   * @param {{ encode: (text: string, options: object) => number[], specialText: (id: number) => string | null }} model
   */
  static forPrompt(formatMarks, template, prompt, model) {
    const marks = formatMarks ?? KNOWN_MARKS.find(([open]) => template.includes(open));
    if (!marks) return null;
    const parser = new ReasoningParser(marks, prompt.lastIndexOf(marks[0]) > prompt.lastIndexOf(marks[1]));
    for (const mark of marks)
      for (const id of model.encode(mark, { addSpecial: false, parseSpecial: true, continues: true }))
        parser.#markTexts.set(id, model.specialText(id) ?? '');
    return parser;
  }

  /** The opening and the closing mark. @returns {[string, string]} */
  get marks() {
    return [this.#open, this.#close];
  }

  get place() {
    return this.#position;
  }

  /** The text of a token: of a special one, if it may be a mark here. @param {number} token @param {string} text  that the reply shows */
  textOf(token, text) {
    return text || (this.#position === 'after' ? '' : (this.#markTexts.get(token) ?? ''));
  }

  /** Separates the next text of a reply. @param {string} text @param {boolean} ends  this is the last text @returns {{ text: string, reasoning: string }} */
  push(text, ends) {
    this.#pending += text;
    const { text: answer, reasoning = '' } = this.#part(0, ends);
    return { text: answer, reasoning };
  }

  /** @param {AsyncIterable<Part>} generation @returns {AsyncGenerator<Part, void>} */
  async *parts(generation) {
    let last = 0;
    for await (const { token, text, ...fields } of generation) {
      last = token;
      this.#pending += this.textOf(token, text);
      yield { ...fields, ...this.#part(token, false) };
    }
    // At the end, held text turns out to be no mark.
    if (this.#pending) yield this.#part(last, true);
  }

  /** @param {Result} result  of the whole reply @param {number} read  parts that were read @returns {Result} */
  result(result, read) {
    const readParts = this.#parts.slice(0, read);
    const joined = (/** @type {'text' | 'reasoning'} */ kind) => readParts.map((part) => part[kind]).join('');
    return { ...result, text: joined('text'), reasoning: joined('reasoning') };
  }

  /** @param {number} token @param {boolean} ends @returns {Part} */
  #part(token, ends) {
    const texts = { text: '', reasoning: '' };
    if (this.#position === 'before') this.#begin(ends);
    if (this.#position === 'inside') texts.reasoning = this.#reason(ends);
    if (this.#position === 'after') texts.text = this.#take(this.#pending.length);
    this.#parts.push(texts);
    return { token, text: texts.text, ...(texts.reasoning && { reasoning: texts.reasoning }) };
  }

  /** Looks for the opening mark, which only the start of a reply can be. @param {boolean} ends */
  #begin(ends) {
    const first = this.#pending.trimStart();
    if (first.startsWith(this.#open)) {
      this.#position = 'inside';
      this.#trimsStart = true;
      this.#pending = first.slice(this.#open.length);
    } else if (ends || !this.#open.startsWith(first)) this.#position = 'after';
  }

  /** @param {boolean} ends */
  #reason(ends) {
    const at = this.#pending.indexOf(this.#close);
    if (at < 0) return this.#take(this.#pending.length - (ends ? 0 : overlap(this.#pending, this.#close)));
    const reasoning = this.#take(at);
    this.#pending = this.#pending.slice(this.#close.length);
    this.#position = 'after';
    this.#trimsStart = true;
    return reasoning;
  }

  /** @param {number} length  of the pending text */
  #take(length) {
    const taken = this.#pending.slice(0, length);
    this.#pending = this.#pending.slice(length);
    const text = this.#trimsStart ? taken.trimStart() : taken;
    if (text) this.#trimsStart = false;
    return text;
  }
}
