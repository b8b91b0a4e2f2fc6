/**
 * The blocks of a Markdown text, by a library that says only what its parts are. What comes from a model or an imported file may be
 * written so that the library takes minutes for it (its work grows with the square of some texts), so the work is counted before
 * it is done, and a text beyond the bound is one plain paragraph. Has no document: it runs in Node, too.
 */
// @ts-ignore: its types are under its name alone, and tests have them
import { Lexer, Tokenizer } from '../../node_modules/marked/lib/marked.esm.js';

/** @typedef {import('marked').MarkedToken} Token */

/** Characters; longer texts stay plain. */
const LONGEST = 100_000;
/** Of one text, in `workOf`: less than a second of a slow machine. A chapter with a mark in each line takes a hundredth. */
export const MOST_WORK = 10_000_000;
/** While a text is written, each frame may take this much; after more, it is read again only once it has grown, at most to twice its length. */
const LITTLE_WORK = 200_000;
/** Cells of all tables. */
const MOST_CELLS = 5_000;
/** Quotes and lists in one another: no text has more, and some engines take a minute to lay them out. */
const MOST_NESTED = 40;
const TOO_DEEP = new RegExp(`^(?:[ \\t]*(?:>|[-*+][ \\t]|\\d{1,9}[.)][ \\t])){${MOST_NESTED}}`, 'm');
/** Definitions of links: those at the end of a text change what stands above them. */
const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;

/**
 * Formulas: $$…$$ and \[…\] as blocks; $…$ and \(…\) in a line. A single dollar begins one only before a letter or mark and ends it
 * only behind one and before no digit, so that prices stay prices (the rule of Pandoc's tex_math_dollars).
 */
const BLOCK_FORMULA = /^ {0,3}(?:\$\$([^$]+?)\$\$|\\\[([^]+?)\\\])[ \t]*(?:\n+|$)/;
const LINE_FORMULA =
  /^(?:\$\$([^$\n]+?)\$\$|\$(?![\s$])((?:\\.|[^$\\\n])*?[^\s\\$]|[^\s\\$])\$(?!\d)|\\\(([^\n]+?)\\\))/;
/** Characters in which the end of a formula is looked for. */
const FORMULA_WINDOW = 2100;

/** @param {RegExp} pattern @param {boolean} isBlock @returns {(source: string) => any} */
const formulaReader = (pattern, isBlock) => (source) => {
  const found = pattern.exec(source.slice(0, FORMULA_WINDOW));
  const formula = found?.slice(1).find((part) => part !== undefined);
  return found && formula !== undefined
    ? { type: 'formula', raw: found[0], text: formula.trim(), isBlock: isBlock || found[1] !== undefined }
    : undefined;
};

/** Where the pattern is found first: so far a text holds no formula. @param {RegExp} pattern @returns {(source: string) => number | undefined} */
const startOf = (pattern) => (source) => {
  const at = source.search(pattern);
  return at < 0 ? undefined : at;
};

/** What the library asks besides its own rules. @type {any} */
const FORMULAS = {
  block: [formulaReader(BLOCK_FORMULA, true)],
  inline: [formulaReader(LINE_FORMULA, false)],
  startBlock: [startOf(/(?<=\n) {0,3}(?:\$\$|\\\[)/)],
  startInline: [startOf(/\$|\\\(/)],
};

/** What each mark is looked for in the rest of its text; for each character of a word that may be an address, in the rest of the word. @param {string} text */
function workOf(text) {
  const marks = text.match(/[*_~`[\]<>!@\\&$]/g)?.length ?? 0;
  const words = text.match(/[\w.!#$%&'*+/=?^`{|}~-]{64,}/g) ?? [];
  return text.length * (1 + marks) + words.reduce((sum, word) => sum + word.length ** 2, 0);
}

/** The text takes more work than is done. */
class TooMuch extends Error {}

/** A lexer that counts its work before it does it, and ends with TooMuch. */
class BoundedLexer extends Lexer {
  work = 0;
  cells = 0;
  #depth = 0;

  constructor() {
    const tokenizer = new Tokenizer();
    super({ gfm: true, breaks: true, tokenizer, extensions: FORMULAS });
    const table = tokenizer.table.bind(tokenizer);
    // Each row is filled up to the columns of the first one. Undefined: it is no table.
    tokenizer.table = (/** @type {string} */ source) => {
      const whole = source.split(/\n[ \t]*\n/, 1)[0];
      const columns = (whole.split('\n', 1)[0].match(/\|/g)?.length ?? 0) + 1;
      const rows = whole.split('\n').length;
      if (columns * rows + this.cells > MOST_CELLS) return undefined;
      const found = table(source);
      if (found) this.cells += columns * rows;
      return found;
    };
    // Whether a text is underlined is looked for in all of what follows.
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
 * A text's blocks, again and again while it is written: of what it had before, only the last two blocks are read again, as what
 * comes can change no others.
 */
export class Blocks {
  /** Of all readings, as MOST_WORK counts it. */
  work = 0;
  /** @type {Token[]} */
  #all = [];
  #text = '';
  /** It is read again from this length on. */
  #next = 0;
  #isPlain = false;

  /** @param {string} given @param {boolean} [writing]  more is to come @returns {Token[] | null}  null: too little is new */
  read(given, writing = false) {
    const text = given.replace(/\r\n?/g, '\n');
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

  /** Blocks that stay as they are whatever follows. */
  #settled() {
    if (this.#isPlain || DEFINITION.test(this.#text)) return [];
    const open = this.#all.findLastIndex(({ type }, i) => type !== 'space' && i < this.#all.length - 1);
    const before = this.#all.slice(0, Math.max(0, open));
    return this.#text.startsWith(before.map(({ raw }) => raw).join('')) ? before : [];
  }

  /** @param {string} text @returns {{ blocks: Token[] | null, work: number }}  null: it stays plain */
  #lex(text) {
    const lexer = new BoundedLexer();
    try {
      return { blocks: /** @type {any} */ (lexer).lex(text), work: lexer.work };
    } catch {
      return { blocks: null, work: lexer.work }; // too much of it, or nested too deeply
    }
  }
}
