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

/** @param {string} template @returns {Token[]} */
export function tokenize(template) {
  const source = template.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  /** @type {Token[]} */
  const tokens = [];
  let [at, line, lineBegins] = [0, 1, true];
  const nextLine = (/** @type {number} */ from) => (source.indexOf('\n', from) + 1 || Infinity) - 1;
  let newline = nextLine(0);
  const take = (/** @type {number} */ end) => {
    for (; newline < end; newline = nextLine(newline + 1)) line++;
    if (end > at) lineBegins = source[end - 1] === '\n';
    at = end;
  };
  const put = (/** @type {TokenType} */ type, /** @type {any} */ value) => tokens.push({ type, value, line });
  const match = (/** @type {RegExp} */ pattern) => {
    pattern.lastIndex = at;
    return pattern.exec(source);
  };

  /**
   * Adds the text before the tag at `open`. The sign of the tag (`{%-`, `{%+`) determines which white space is removed.
   * @param {number} open @param {boolean} variable @param {string} [sign]
   */
  const putData = (open, variable, sign = source[open + 2]) => {
    const text = source.slice(at, open);
    const data =
      sign === '-'
        ? trimEnd(text, true, lineBegins)
        : sign === '+' || variable
          ? text
          : trimEnd(text, false, lineBegins);
    if (data) put('data', data);
  };

  /** Returns the offset of the next tag, or -1 if no tag follows. */
  const nextTag = () => {
    for (let i = source.indexOf('{', at); i >= 0; i = source.indexOf('{', i + 1))
      if ('%{#'.includes(source[i + 1] || ' ')) return i;
    return -1;
  };

  /** @param {'block' | 'variable'} kind */
  const expression = (kind) => {
    /** @type {string[]} */
    const open = [];
    for (;;) {
      if (at >= source.length) return;
      const end = !open.length && match(ENDS[kind]);
      if (end) {
        put(`${kind}_end`, end[0]);
        return take(at + end[0].length);
      }
      const white = match(WHITE);
      if (white) {
        take(at + white[0].length);
        continue;
      }
      let found = match(FLOAT);
      if (found) put('float', Number(found[0].replaceAll('_', '')));
      else if ((found = match(INTEGER))) put('integer', found[0].replaceAll('_', ''));
      else if ((found = match(NAME))) {
        if (!/^[\p{L}_]/u.test(found[0])) throw syntax(`expected a name, found ${JSON.stringify(found[0])}`, line);
        put('name', found[0]);
      } else if ((found = match(STRING))) put('string', decodeString(found[0].slice(1, -1), line));
      else if ((found = match(OPERATOR))) {
        const [operator] = found;
        if (CLOSING[operator]) open.push(CLOSING[operator]);
        else if (')]}'.includes(operator) && open.pop() !== operator) throw syntax(`unexpected "${operator}"`, line);
        put('operator', operator);
      } else throw syntax(`unexpected ${JSON.stringify(source[at])}`, line);
      take(at + found[0].length);
    }
  };

  while (at < source.length) {
    const open = nextTag();
    if (open < 0) {
      put('data', source.slice(at));
      break;
    }
    const kind = source[open + 1] === '%' ? 'block' : source[open + 1] === '{' ? 'variable' : 'comment';
    putData(open, kind === 'variable');
    take(open);
    const raw = kind === 'block' ? match(RAW) : null;
    if (raw) {
      take(at + raw[0].length);
      const end = match(END_RAW);
      if (!end && at === source.length) break; // jinja2 accepts this
      if (!end) throw syntax('{% raw %} has no {% endraw %}', line);
      putData(end.index, false, end[1]);
      take(end.index + end[0].length);
      continue;
    }
    const sign = '-+'.includes(source[at + 2] || ' ') ? 1 : 0;
    take(at + 2 + sign);
    if (kind === 'comment') {
      const end = match(ENDS.comment);
      if (!end && at === source.length) break;
      if (!end) throw syntax('a comment has no end', line);
      take(end.index + end[0].length);
      continue;
    }
    put(`${kind}_begin`, '');
    expression(kind);
  }
  put('eof', '');
  return tokens;
}
