/**
 * Notations of values: JSON, and the notations in which models write the arguments of tool calls. Grammars are
 * generated from these descriptions (schema/), and replies are parsed by them (templates/noted-values.js).
 */
import { shown } from '../../shared/quote-value.js';
import { grammarError } from './failure.js';

/**
 * Marks around a string, and the strings that can be written between them.
 * @typedef {object} Quote
 * @property {string} open
 * @property {string} close
 * @property {'"' | "'" | null} escaped  quote that is escaped with a backslash; the backslash itself and control
 *   characters are escaped, too. null: nothing is escaped
 * @property {string | null} pattern  regular expression that the complete string must match; null: any string
 */
/**
 * How members of an object are written.
 * @typedef {{ open: string, close: string, names: Quote[], colon: string }} Members
 */
/**
 * @typedef {object} Notation
 * @property {string} name
 * @property {Quote[]} quotes  of strings; `writeValue` uses the first that can hold the string
 * @property {Map<boolean | null, string[]>} words  spellings of null, true and false; `writeValue` uses the first
 * @property {string} comma  between items and members
 * @property {Members} object
 * @property {Members} root  of the arguments of a call
 * @property {boolean} isSorted  whether members are sorted by name instead of following the order of the schema
 */

/** @type {Quote} */
const DOUBLE = { open: '"', close: '"', escaped: '"', pattern: null };
/** @type {Quote} */
const SINGLE = { open: "'", close: "'", escaped: "'", pattern: null };
/** A name without quotes. @param {string} pattern @returns {Quote} */
const bareName = (pattern) => ({ open: '', close: '', escaped: null, pattern });

/** @param {string[]} none @param {string[]} yes @param {string[]} no @returns {Notation['words']} */
const words = (none, yes, no) =>
  new Map([
    [null, none],
    [true, yes],
    [false, no],
  ]);

const JSON_WORDS = words(['null'], ['true'], ['false']);
/** @param {Quote[]} names @param {string} colon @returns {Members} */
const braces = (names, colon) => ({ open: '{', close: '}', names, colon });

/** @type {Notation} */
export const JSON_NOTATION = {
  name: 'json',
  quotes: [DOUBLE],
  words: JSON_WORDS,
  comma: ', ',
  object: braces([DOUBLE], ': '),
  root: braces([DOUBLE], ': '),
  isSorted: false,
};

/**
 * Python's literals, and arguments by keyword (LFM2). Words may also have JSON's spelling, because templates write them
 * so inside a dict.
 * @type {Notation}
 */
const PYTHON = {
  name: 'python',
  quotes: [DOUBLE, SINGLE],
  words: words(['None', 'null'], ['True', 'true'], ['False', 'false']),
  comma: ', ',
  object: braces([DOUBLE, SINGLE], ': '),
  root: { open: '', close: '', names: [bareName('[^\\s\\u0000-\\u001f=,\'"()[\\]{}\\\\]+')], colon: '=' },
  isSorted: false,
};

const GEMMA_NAMES = [bareName('[^\\u0000-\\u001f:,<>"{}[\\]]+')];

/**
 * Strings between special marks, without escapes, and names without quotes (Gemma 4). Its template writes null as
 * `None`.
 * @type {Notation}
 */
const GEMMA = {
  name: 'gemma',
  quotes: [{ open: '<|"|>', close: '<|"|>', escaped: null, pattern: '(?![\\s\\S]*<\\|"\\|>)[\\s\\S]*' }],
  words: words(['null', 'None'], ['true'], ['false']),
  comma: ',',
  object: braces(GEMMA_NAMES, ':'),
  root: braces(GEMMA_NAMES, ':'),
  isSorted: true,
};

/** Notations of arguments other than JSON. */
export const CALL_NOTATIONS = [PYTHON, GEMMA];

/** @param {string} name */
export const notationNamed = (name) =>
  /** @type {Notation} */ ([JSON_NOTATION, ...CALL_NOTATIONS].find((one) => one.name === name));

/**
 * Quotes of several characters. In a vocabulary each may be a single token, and a model may have learned only that
 * token.
 */
export const QUOTE_MARKS = CALL_NOTATIONS.flatMap(({ quotes }) => quotes.map(({ open }) => open)).filter(
  (mark) => mark.length > 1,
);

/**
 * Returns a string in quotes, or null if this kind of quote cannot hold it.
 * @param {string} text @param {Quote} quote
 */
export function quoteText(text, { open, close, escaped, pattern }) {
  if (pattern !== null && !new RegExp(`^(?:${pattern})$`, 'u').test(text)) return null;
  let inside = text;
  if (escaped) {
    inside = JSON.stringify(text).slice(1, -1);
    if (escaped === "'") inside = inside.replace(/\\(.)|'/g, (all, c) => (c === '"' ? '"' : c ? all : "\\'"));
  }
  return open + inside + close;
}

/**
 * Returns all spellings of a string in quotes. Throws GRAMMAR if there is none.
 * @param {string} text @param {Quote[]} quotes @param {string} subject  of the message
 */
function requireQuoted(text, quotes, subject) {
  const found = quotes.flatMap((quote) => quoteText(text, quote) ?? []);
  if (!found.length)
    throw grammarError(
      `${subject} ${shown(text)} can't be written in the calls of this model`,
      'use other characters in it',
    );
  return found;
}

/** Returns all spellings of a name. Throws GRAMMAR if there is none. @param {string} text @param {Members} members */
export const nameSpellings = (text, { names }) => requireQuoted(text, names, 'the name');

/** @param {string} a @param {string} b */
const compareStrings = (a, b) => (a < b ? -1 : Number(a > b));

/**
 * Returns names in the order of a notation. Sorting ignores case, as Jinja's `dictsort` does in templates.
 * @param {string[]} names @param {Notation} notation
 */
export const sortNames = (names, { isSorted }) =>
  isSorted ? [...names].sort((a, b) => compareStrings(a.toLowerCase(), b.toLowerCase())) : names;

/**
 * Writes a value on one line. Throws GRAMMAR if the notation cannot express a string in it.
 * @param {any} value @param {Notation} notation @param {Members} [members] @returns {string}
 */
export function writeValue(value, notation, members = notation.object) {
  const { comma } = notation;
  if (Array.isArray(value)) return `[${value.map((item) => writeValue(item, notation)).join(comma)}]`;
  if (typeof value === 'object' && value)
    return (
      members.open +
      sortNames(Object.keys(value), notation)
        .map((name) => nameSpellings(name, members)[0] + members.colon + writeValue(value[name], notation))
        .join(comma) +
      members.close
    );
  return scalarSpellings(value, notation)[0];
}

/**
 * Returns all spellings of a value that is not a list or an object. Throws GRAMMAR.
 * @param {any} value @param {Notation} notation
 */
function scalarSpellings(value, { quotes, words: spellings }) {
  if (typeof value === 'string') return requireQuoted(value, quotes, 'the text');
  return spellings.get(value) ?? [typeof value === 'bigint' ? String(value) : JSON.stringify(value)];
}

/**
 * Returns the accepted spellings of a value of `enum` or `const`. Lists and objects have only one. Throws GRAMMAR.
 * @param {any} value @param {Notation} notation
 */
export const valueSpellings = (value, notation) =>
  typeof value === 'object' && value ? [writeValue(value, notation)] : scalarSpellings(value, notation);
