/**
 * Splits a template into tokens by the rules of jinja2's lexer with trim_blocks and lstrip_blocks, the settings of
 * transformers. The regular expressions match at one position only (flag y), so that the work is linear in the text.
 */
import { SPACE as SPACE_SET, templateError } from './values.js';

/**
 * @typedef {'data' | 'variable_begin' | 'variable_end' | 'block_begin' | 'block_end' | 'name' | 'string' | 'integer' |
 *   'float' | 'operator' | 'eof'} TokenType
 */
/** `line`: line number, for messages. @typedef {{ type: TokenType, value: any, line: number }} Token */

/** A character of Python's white space. */
const SPACE = `[${SPACE_SET}]`;
const sticky = (/** @type {string} */ source, flags = '') => new RegExp(source, `y${flags}`);
const [WHITE, TRAILING] = [sticky(`${SPACE}+`), new RegExp(SPACE)];
const DIGITS = '(?:\\d+_)*\\d+';
const FLOAT = sticky(`(?<!\\.)${DIGITS}(?:(?:\\.${DIGITS})?e[+-]?${DIGITS}|\\.${DIGITS})`, 'i');
const INTEGER = sticky('0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\\da-f])+|[1-9](?:_?\\d)*|0(?:_?0)*', 'i');
const NAME = sticky('[\\p{L}\\p{N}\\p{M}_]+', 'u');
const STRING = sticky(`'[^'\\\\]*(?:\\\\[^][^'\\\\]*)*'|"[^"\\\\]*(?:\\\\[^][^"\\\\]*)*"`);
const OPERATOR = sticky('//|\\*\\*|==|!=|>=|<=|[-+/*%~[\\](){}<>=.:|,;]');
const RAW = sticky(`\\{%[-+]?${SPACE}*raw${SPACE}*(?:(-%\\})${SPACE}*|%\\})`);
const END_RAW = new RegExp(`\\{%([-+]?)${SPACE}*endraw${SPACE}*(?:\\+%\\}|-%\\}${SPACE}*|%\\}\\n?)`, 'g');
const ENDS = {
  block: sticky(`\\+%\\}|-%\\}${SPACE}*|%\\}\\n?`),
  variable: sticky(`-\\}\\}${SPACE}*|\\}\\}`),
  comment: new RegExp(`\\+#\\}|-#\\}${SPACE}*|#\\}\\n?`, 'g'),
};
const CLOSING = /** @type {Record<string, string>} */ ({ '(': ')', '[': ']', '{': '}' });

const ESCAPES = /** @type {Record<string, string>} */ ({
  '\n': '',
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
});

/** Decodes a string literal with the escapes of Python's `unicode-escape`. @param {string} body @param {number} line */
function decodeString(body, line) {
  return body.replace(/\\(x.{0,2}|u.{0,4}|U.{0,8}|[0-7]{1,3}|[^])/gs, (whole, /** @type {string} */ escape) => {
    const kind = escape[0];
    if (/[0-7]/.test(kind)) return String.fromCharCode(parseInt(escape, 8));
    const digits = /** @type {Record<string, number>} */ ({ x: 2, u: 4, U: 8 })[kind];
    if (digits) {
      const hex = escape.slice(1);
      const code = hex.length === digits && /^[\da-f]+$/i.test(hex) ? parseInt(hex, 16) : Infinity;
      if (code > 0x10ffff) throw syntax(`the escape ${JSON.stringify(whole)} needs ${digits} hexadecimal digits`, line);
      return String.fromCodePoint(code);
    }
    if (kind === 'N') throw syntax('\\N{…} in a string is not supported: write the character itself', line);
    return ESCAPES[escape] ?? whole;
  });
}

/** Creates a syntax error. @param {string} message @param {number} line */
export const syntax = (message, line) => templateError(`it can't be parsed: line ${line}: ${message}`);

/**
 * Removes white space at the end of a text.
 * @param {string} text
 * @param {boolean} all  whether to remove all white space, or only the indentation of an otherwise empty last line
 * @param {boolean} lineBegins  whether the text begins a line
 */
function trimEnd(text, all, lineBegins) {
  let end = text.length;
  if (all) {
    while (end && TRAILING.test(text[end - 1])) end--;
    return text.slice(0, end);
  }
  const line = text.lastIndexOf('\n') + 1;
  if (!line && !lineBegins) return text;
  while (end > line && TRAILING.test(text[end - 1])) end--;
  return end === line ? text.slice(0, line) : text;
}

/** Splits one template. */
class Lexer {
  /** @type {Token[]} */
  #tokens = [];
  #source;
  #at = 0;
  #line = 1;
  /** Whether the text at the current offset begins a line. */
  #lineBegins = true;
  /** Offset of the next line break; Infinity: none. */
  #newline;

  /** @param {string} template */
  constructor(template) {
    this.#source = template.replace(/\r\n?/g, '\n').replace(/\n$/, '');
    this.#newline = this.#newlineFrom(0);
  }

  /** Returns the tokens of the template. Throws TEMPLATE. */
  run() {
    while (this.#at < this.#source.length) {
      const open = this.#nextTag();
      if (open < 0) {
        this.#put('data', this.#source.slice(this.#at));
        break;
      }
      this.#tag(open);
    }
    this.#put('eof', '');
    return this.#tokens;
  }

  /** @param {number} from */
  #newlineFrom(from) {
    return (this.#source.indexOf('\n', from) + 1 || Infinity) - 1;
  }

  /** Moves to an offset. @param {number} end */
  #take(end) {
    for (; this.#newline < end; this.#newline = this.#newlineFrom(this.#newline + 1)) this.#line++;
    if (end > this.#at) this.#lineBegins = this.#source[end - 1] === '\n';
    this.#at = end;
  }

  /** @param {TokenType} type @param {any} value */
  #put(type, value) {
    this.#tokens.push({ type, value, line: this.#line });
  }

  /** Matches a pattern at the current offset, or from there on. @param {RegExp} pattern */
  #match(pattern) {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#source);
  }

  /** @param {string} message @returns {never} */
  #fail(message) {
    throw syntax(message, this.#line);
  }

  /** Returns the offset of the next tag, or -1 if no tag follows. */
  #nextTag() {
    const source = this.#source;
    for (let i = source.indexOf('{', this.#at); i >= 0; i = source.indexOf('{', i + 1))
      if ('%{#'.includes(source[i + 1] || ' ')) return i;
    return -1;
  }

  /** Reads the text before a tag and the tag. @param {number} open  offset of the tag */
  #tag(open) {
    const source = this.#source;
    const kind = source[open + 1] === '%' ? 'block' : source[open + 1] === '{' ? 'variable' : 'comment';
    this.#putData(open, kind === 'variable');
    this.#take(open);
    const raw = kind === 'block' ? this.#match(RAW) : null;
    if (raw) return this.#raw(raw[0].length);
    const sign = '-+'.includes(source[this.#at + 2] || ' ') ? 1 : 0;
    this.#take(this.#at + 2 + sign);
    if (kind === 'comment') return this.#comment();
    this.#put(`${kind}_begin`, '');
    this.#expression(kind);
  }

  /**
   * Adds the text before the tag at `open`. The sign of the tag (`{%-`, `{%+`) determines which white space is removed.
   * @param {number} open @param {boolean} variable @param {string} [sign]
   */
  #putData(open, variable, sign = this.#source[open + 2]) {
    const text = this.#source.slice(this.#at, open);
    const data =
      sign === '-'
        ? trimEnd(text, true, this.#lineBegins)
        : sign === '+' || variable
          ? text
          : trimEnd(text, false, this.#lineBegins);
    if (data) this.#put('data', data);
  }

  /** Reads a block without tags. @param {number} length  length of its first tag */
  #raw(length) {
    this.#take(this.#at + length);
    const end = this.#match(END_RAW);
    if (end) {
      this.#putData(end.index, false, end[1]);
      this.#take(end.index + end[0].length);
    } else if (this.#at < this.#source.length) this.#fail('{% raw %} has no {% endraw %}'); // jinja2 accepts it at the end
  }

  /** Skips a comment. */
  #comment() {
    const end = this.#match(ENDS.comment);
    if (end) this.#take(end.index + end[0].length);
    else if (this.#at < this.#source.length) this.#fail('a comment has no end');
  }

  /** Reads the tokens of a tag and its end. @param {'block' | 'variable'} kind */
  #expression(kind) {
    /** Brackets that close the open ones. @type {string[]} */
    const open = [];
    while (this.#at < this.#source.length) {
      const end = !open.length && this.#match(ENDS[kind]);
      if (end) {
        this.#put(`${kind}_end`, end[0]);
        return this.#take(this.#at + end[0].length);
      }
      const found = this.#match(WHITE) ?? this.#expressionToken(open);
      this.#take(this.#at + found[0].length);
    }
  }

  /** Adds the token of an expression and returns its match. @param {string[]} open */
  #expressionToken(open) {
    let found = this.#match(FLOAT);
    if (found) this.#put('float', Number(found[0].replaceAll('_', '')));
    else if ((found = this.#match(INTEGER))) this.#put('integer', found[0].replaceAll('_', ''));
    else if ((found = this.#match(NAME))) {
      if (!/^[\p{L}_]/u.test(found[0])) this.#fail(`expected a name, found ${JSON.stringify(found[0])}`);
      this.#put('name', found[0]);
    } else if ((found = this.#match(STRING))) this.#put('string', decodeString(found[0].slice(1, -1), this.#line));
    else if ((found = this.#match(OPERATOR))) {
      const [operator] = found;
      if (CLOSING[operator]) open.push(CLOSING[operator]);
      else if (')]}'.includes(operator) && open.pop() !== operator) this.#fail(`unexpected "${operator}"`);
      this.#put('operator', operator);
    } else this.#fail(`unexpected ${JSON.stringify(this.#source[this.#at])}`);
    return found;
  }
}

/** Splits a template into tokens. Throws TEMPLATE. @param {string} template @returns {Token[]} */
export const tokenize = (template) => new Lexer(template).run();
