/**
 * Splits a Markdown text into blocks with a library. Text of a model or an imported file can be such that the library needs minutes
 * (its work is quadratic for some texts). So the work is estimated before it is done, and a text beyond the limit becomes one plain
 * paragraph. Uses no document, so it also runs in Node.
 */
// @ts-ignore: its types are under its name alone, and tests have them
import { Lexer, Tokenizer } from '../../node_modules/marked/lib/marked.esm.js';

/** @typedef {import('marked').MarkedToken} Token */

/** Longer texts, in characters, stay plain. */
const LONGEST = 100_000;
/**
 * Largest work for one text, in the unit of `workOf`: less than a second on a slow machine. A usual chapter needs a
 * hundredth.
 */
export const MOST_WORK = 10_000_000;
/**
 * Work per frame while a text is written. A text that needs more is only read again after it has grown, at most to
 * twice its length.
 */
const LITTLE_WORK = 200_000;
/** Largest number of cells of all tables. */
const MOST_CELLS = 5_000;
/** Largest nesting of quotes and lists: some browsers need a minute to lay out more. */
const MOST_NESTED = 40;
const TOO_DEEP = new RegExp(`^(?:[ \\t]*(?:>|[-*+][ \\t]|\\d{1,9}[.)][ \\t])){${MOST_NESTED}}`, 'm');
/** Definitions of links: one at the end of a text changes the text above it. */
const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;

/**
 * Formulas: $$…$$ and \[…\] as blocks, also within a line; $…$ and \(…\) in a line. An opening dollar must not be followed by white space;
 * a closing one must not follow white space nor be followed by a digit. So prices are no formulas (the rule of Pandoc's tex_math_dollars).
 * Within a line \[…\] can also be a pair of escaped brackets, so it needs a character of formulas.
 */
const BLOCK_FORMULA = /^ {0,3}(?:\$\$([^$]+?)\$\$|\\\[([^]+?)\\\])[ \t]*(?:\n+|$)/;
const LINE_FORMULA =
  /^(?:\$\$([^$\n]+?)\$\$|\$(?![\s$])((?:\\.|[^$\\\n])*?[^\s\\$]|[^\s\\$])\$(?!\d)|\\\(([^\n]+?)\\\)|\\\[([^\n]+?)\\\])/;
/** Characters within which a formula must end. */
const FORMULA_WINDOW = 2100;

/** @param {RegExp} pattern @param {boolean} isBlock @returns {(source: string) => any} */
const formulaReader = (pattern, isBlock) => (source) => {
  const found = pattern.exec(source.slice(0, FORMULA_WINDOW));
  const formula = found?.slice(1).find((part) => part !== undefined);
  if (!found || formula === undefined) return undefined;
  const isBracketed = found[0].startsWith('\\[');
  if (isBracketed && !isBlock && !/[\\^_=]/.test(formula)) return undefined;
  return {
    type: 'formula',
    raw: found[0],
    text: formula.trim(),
    isBlock: isBlock || isBracketed || found[0].startsWith('$$'),
  };
};

/**
 * Returns a function that finds the first possible start of a formula.
 * @param {RegExp} pattern
 * @returns {(source: string) => number | undefined}
 */
const startOf = (pattern) => (source) => {
  const at = source.search(pattern);
  return at < 0 ? undefined : at;
};

/** Extensions of the library's rules. @type {any} */
const FORMULAS = {
  block: [formulaReader(BLOCK_FORMULA, true)],
  inline: [formulaReader(LINE_FORMULA, false)],
  startBlock: [startOf(/(?<=\n) {0,3}(?:\$\$|\\\[)/)],
  startInline: [startOf(/\$|\\[([]/)],
};

/**
 * Estimates the library's work for a text: for each mark it searches the rest of the text, and for each character of a long word, which
 * may be an address, the rest of the word.
 * @param {string} text
 */
function workOf(text) {
  const marks = text.match(/[*_~`[\]<>!@\\&$]/g)?.length ?? 0;
  const words = text.match(/[\w.!#$%&'*+/=?^`{|}~-]{64,}/g) ?? [];
  return text.length * (1 + marks) + words.reduce((sum, word) => sum + word.length ** 2, 0);
}

/** Thrown if a text needs more than MOST_WORK. */
class TooMuch extends Error {}

/** A lexer that estimates its work beforehand. Throws TooMuch. */
class BoundedLexer extends Lexer {
  work = 0;
  cells = 0;
  #depth = 0;

  constructor() {
    const tokenizer = new Tokenizer();
    super({ gfm: true, breaks: true, tokenizer, extensions: FORMULAS });
    const table = tokenizer.table.bind(tokenizer);
    // The library fills each row up to the number of columns of the first row. Undefined means that the text is not a table.
    tokenizer.table = (/** @type {string} */ source) => {
      const block = source.split(/\n[ \t]*\n/, 1)[0];
      const columns = (block.split('\n', 1)[0].match(/\|/g)?.length ?? 0) + 1;
      const rows = block.split('\n').length;
      if (columns * rows + this.cells > MOST_CELLS) return undefined;
      const found = table(source);
      if (found) this.cells += columns * rows;
      return found;
    };
    // The search for an underlined heading goes through all of the remaining text.
    const heading = tokenizer.lheading.bind(tokenizer);
    tokenizer.lheading = (/** @type {string} */ source) => {
      this.#spend(source.length / 16);
      return heading(source);
    };
  }

  /** @param {number} work */
  #spend(work) {
    if ((this.work += work) > MOST_WORK) throw new TooMuch();
  }

  /** @template T @param {number} work @param {() => T} read @returns {T} */
  #bounded(work, read) {
    this.#spend(work);
    if (++this.#depth > 2 * MOST_NESTED) throw new TooMuch();
    const found = read();
    this.#depth--;
    return found;
  }

  /** @param {string} source @param {any[]} [tokens] @param {boolean} [last] */
  blockTokens(source, tokens, last) {
    return this.#bounded(source.length, () => super.blockTokens(source, tokens, last));
  }

  /** @param {string} source @param {any[]} [tokens] */
  inlineTokens(source, tokens) {
    return this.#bounded(workOf(source), () => super.inlineTokens(source, tokens));
  }
}

/** @param {string} text @returns {Token[]} */
const plain = (text) => [
  /** @type {Token} */ ({ type: 'paragraph', raw: text, text, tokens: [{ type: 'text', raw: text, text }] }),
];

/**
 * The blocks of a text that grows. Only its last two blocks are read again, because new text cannot change the earlier
 * ones.
 */
export class Blocks {
  /** Work of all readings, in the unit of MOST_WORK. */
  work = 0;
  /** @type {Token[]} */
  #all = [];
  #text = '';
  /** Length from which on the text is read again. */
  #next = 0;
  #isPlain = false;

  /**
   * @param {string} source
   * @param {boolean} [writing]  whether more text will follow
   * @returns {Token[] | null}  null if too little is new
   */
  read(source, writing = false) {
    const text = source.replace(/\r\n?/g, '\n');
    const grows = text.startsWith(this.#text);
    if (grows && writing && text.length < this.#next) return null;
    const before = grows ? this.#settled() : [];
    const at = before.reduce((sum, { raw }) => sum + raw.length, 0);
    this.#isPlain = (grows && writing && this.#isPlain) || text.length > LONGEST || TOO_DEEP.test(text);
    const { blocks, work } = this.#isPlain ? { blocks: null, work: text.length } : this.#lex(text.slice(at));
    this.work += work;
    this.#isPlain ||= !blocks;
    this.#text = text;
    this.#next = text.length * (1 + Math.min(1, Math.max(0, (4 * (work - LITTLE_WORK)) / MOST_WORK)));
    this.#all = blocks ? [...before, ...blocks] : plain(text);
    return this.#all.filter(({ type }) => type !== 'space' && type !== 'def');
  }

  /** Returns the blocks that later text cannot change. */
  #settled() {
    if (this.#isPlain || DEFINITION.test(this.#text)) return [];
    const open = this.#all.findLastIndex(({ type }, i) => type !== 'space' && i < this.#all.length - 1);
    const before = this.#all.slice(0, Math.max(0, open));
    return this.#text.startsWith(before.map(({ raw }) => raw).join('')) ? before : [];
  }

  /**
   * @param {string} text
   * @returns {{ blocks: Token[] | null, work: number }}  `blocks` is null if the text stays plain
   */
  #lex(text) {
    const lexer = new BoundedLexer();
    try {
      return { blocks: /** @type {any} */ (lexer).lex(text), work: lexer.work };
    } catch {
      return { blocks: null, work: lexer.work }; // too much work, or nested too deeply
    }
  }
}
