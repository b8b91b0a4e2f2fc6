/**
 * Separates the reasoning of a reply from its answer. Text between think marks becomes `reasoning`, without the marks.
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
  // Gemma 4: a channel of this name. Its template turns reasoning off with an empty channel before the reply.
  ['<|channel>thought', '<channel|>'],
];

export class ReasoningParser {
  /** @type {string} */
  #open;
  /** @type {string} */
  #close;
  /** Position in the reply, relative to the two marks. @type {'before' | 'inside' | 'after'} */
  #position;
  /** Text that is withheld because it may be the beginning of a mark. */
  #pending = '';
  /** Whether white space at the start of the next text is removed. */
  #trimsStart = false;
  /** Text and reasoning of each part, for the result. @type {{ text: string, reasoning: string }[]} */
  #parts = [];

  /**
   * Texts of the special tokens in the marks, by token. (The text of a reply doesn't contain special tokens.)
   * @type {Map<number, string>}
   */
  #markTexts = new Map();

  /** @param {[string, string]} marks @param {boolean} isOpened  whether the prompt ends inside the marks */
  constructor([open, close], isOpened) {
    this.#open = open;
    this.#close = close;
    this.#position = isOpened ? 'inside' : 'before';
    this.#trimsStart = isOpened;
  }

  /**
   * Creates a parser for a reply to a prompt. Returns null if the model has no think marks.
   * @param {[string, string] | undefined} formatMarks  marks of the chat format
   * @param {string} template
   * @param {string} prompt  last text of the prompt
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

  /**
   * Returns the text of a token. A special token has a text only if it can be a mark at this position.
   * @param {number} token
   * @param {string} text  text of the token in a reply, '' for a special token
   */
  textOf(token, text) {
    return text || (this.#position === 'after' ? '' : (this.#markTexts.get(token) ?? ''));
  }

  /**
   * Separates the next text of a reply.
   * @param {string} text
   * @param {boolean} isLast  whether this is the last text
   * @returns {{ text: string, reasoning: string }}
   */
  push(text, isLast) {
    this.#pending += text;
    const { text: answer, reasoning = '' } = this.#nextPart(0, isLast);
    return { text: answer, reasoning };
  }

  /**
   * Separates the parts of a generation.
   * @param {AsyncIterable<Part>} generation
   * @returns {AsyncGenerator<Part, void>}
   */
  async *parts(generation) {
    let last = 0;
    for await (const { token, text, ...fields } of generation) {
      last = token;
      this.#pending += this.textOf(token, text);
      yield { ...fields, ...this.#nextPart(token, false) };
    }
    // Text that is withheld at the end of the reply is not a mark.
    if (this.#pending) yield this.#nextPart(last, true);
  }

  /**
   * Returns the result of a reply with its text and reasoning separated.
   * @param {Result} result  result of the complete reply
   * @param {number} readCount  number of parts that were read
   * @returns {Result}
   */
  result(result, readCount) {
    const readParts = this.#parts.slice(0, readCount);
    const joined = (/** @type {'text' | 'reasoning'} */ kind) => readParts.map((part) => part[kind]).join('');
    return { ...result, text: joined('text'), reasoning: joined('reasoning') };
  }

  /** Separates the pending text. @param {number} token @param {boolean} isLast @returns {Part} */
  #nextPart(token, isLast) {
    const texts = { text: '', reasoning: '' };
    if (this.#position === 'before') this.#findOpeningMark(isLast);
    if (this.#position === 'inside') texts.reasoning = this.#takeReasoning(isLast);
    if (this.#position === 'after') texts.text = this.#take(this.#pending.length);
    this.#parts.push(texts);
    return { token, text: texts.text, ...(texts.reasoning && { reasoning: texts.reasoning }) };
  }

  /** Finds the opening mark, which can only be at the start of a reply. @param {boolean} isLast */
  #findOpeningMark(isLast) {
    const first = this.#pending.trimStart();
    if (first.startsWith(this.#open)) {
      this.#position = 'inside';
      this.#trimsStart = true;
      this.#pending = first.slice(this.#open.length);
    } else if (isLast || !this.#open.startsWith(first)) this.#position = 'after';
  }

  /** Removes the reasoning from the pending text, and the closing mark after it, if any. @param {boolean} isLast */
  #takeReasoning(isLast) {
    const at = this.#pending.indexOf(this.#close);
    if (at < 0) return this.#take(this.#pending.length - (isLast ? 0 : overlap(this.#pending, this.#close)));
    const reasoning = this.#take(at);
    this.#pending = this.#pending.slice(this.#close.length);
    this.#position = 'after';
    this.#trimsStart = true;
    return reasoning;
  }

  /** Removes the beginning of the pending text and returns it. @param {number} length */
  #take(length) {
    const taken = this.#pending.slice(0, length);
    this.#pending = this.#pending.slice(length);
    const text = this.#trimsStart ? taken.trimStart() : taken;
    if (text) this.#trimsStart = false;
    return text;
  }
}
