/**
 * Notations of values: JSON, and those in which models write the arguments of calls. Each is a row of a table, from which grammars are
 * written (schema/) and by which texts are read (templates/noted-values.js).
 */
import { shown } from '../../shared/quote-value.js';
import { refused } from './failure.js';

/**
 * What stands around a text, and which texts can be written so.
 * @typedef {object} Quote
 * @property {string} open
 * @property {string} close
 * @property {'"' | "'" | null} escaped  the character that a backslash precedes, as it does itself and controls; null: nothing is escaped
 * @property {string | null} pattern  a regular expression for the whole text; null: any text
 */
/** How members of an object are written. @typedef {{ open: string, close: string, names: Quote[], colon: string }} Members */
/**
 * @typedef {object} Notation
 * @property {string} name
 * @property {Quote[]} quotes  of strings; the first is written where there is a choice
 * @property {Map<boolean | null, string[]>} words
 * @property {string} comma  between items and members
 * @property {Members} object
 * @property {Members} root  of arguments
 * @property {boolean} isSorted  whether members come in the order of their names instead of the schema's
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

/** Python's literals, and arguments by keyword (LFM2). Its words may have JSON's spelling, which templates give them in a dict. @type {Notation} */
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

/** Strings between marks of their own, where nothing is escaped, and bare names (Gemma 4). Its template writes null as Python does. @type {Notation} */
const GEMMA = {
  name: 'gemma',
  quotes: [{ open: '<|"|>', close: '<|"|>', escaped: null, pattern: '(?![\\s\\S]*<\\|"\\|>)[\\s\\S]*' }],
  words: words(['null', 'None'], ['true'], ['false']),
  comma: ',',
  object: braces(GEMMA_NAMES, ':'),
  root: braces(GEMMA_NAMES, ':'),
  isSorted: true,
};

/** Notations of arguments besides JSON. */
export const CALL_NOTATIONS = [PYTHON, GEMMA];

/** @param {string} name */
export const notationNamed = (name) =>
  /** @type {Notation} */ ([JSON_NOTATION, ...CALL_NOTATIONS].find((one) => one.name === name));

/** Marks of quotes that are a token of their own in a vocabulary, where they may be the only spelling that a model knows. */
export const QUOTE_MARKS = CALL_NOTATIONS.flatMap(({ quotes }) => quotes.map(({ open }) => open)).filter(
  (mark) => mark.length > 1,
);

/** A text with its marks; null: it can't be written so. @param {string} text @param {Quote} quote */
export function quoted(text, { open, close, escaped, pattern }) {
  if (pattern !== null && !new RegExp(`^(?:${pattern})$`, 'u').test(text)) return null;
  let inside = text;
  if (escaped) {
    inside = JSON.stringify(text).slice(1, -1);
    if (escaped === "'") inside = inside.replace(/\\(.)|'/g, (all, c) => (c === '"' ? '"' : c ? all : "\\'"));
  }
  return open + inside + close;
}

/** A name as it is written; GRAMMAR: it can't be. @param {string} text @param {Quote[]} quotes @param {string} what */
function requireQuoted(text, quotes, what) {
  const found = quotes.flatMap((quote) => quoted(text, quote) ?? []);
  if (!found.length)
    throw refused(`${what} ${shown(text)} can't be written in the calls of this model`, 'use other characters in it');
  return found;
}

/** The ways to write a name. GRAMMAR. @param {string} text @param {Members} members */
export const nameTexts = (text, { names }) => requireQuoted(text, names, 'the name');

/** @param {string} a @param {string} b */
const order = (a, b) => (a < b ? -1 : Number(a > b));

/** Names in the order of a notation. Templates sort regardless of case, as Jinja's `dictsort`. @param {string[]} names @param {Notation} notation */
export const ordered = (names, { isSorted }) =>
  isSorted ? [...names].sort((a, b) => order(a.toLowerCase(), b.toLowerCase())) : names;

/** A value on one line. GRAMMAR: a text in it can't be written. @param {any} value @param {Notation} notation @param {Members} [members] @returns {string} */
export function writeValue(value, notation, members = notation.object) {
  const { comma } = notation;
  if (Array.isArray(value)) return `[${value.map((item) => writeValue(item, notation)).join(comma)}]`;
  if (typeof value === 'object' && value)
    return (
      members.open +
      ordered(Object.keys(value), notation)
        .map((name) => nameTexts(name, members)[0] + members.colon + writeValue(value[name], notation))
        .join(comma) +
      members.close
    );
  return scalarTexts(value, notation)[0];
}

/** The ways to write a value that isn't a list or an object. GRAMMAR. @param {any} value @param {Notation} notation */
function scalarTexts(value, { quotes, words: spellings }) {
  if (typeof value === 'string') return requireQuoted(value, quotes, 'the text');
  return spellings.get(value) ?? [typeof value === 'bigint' ? String(value) : JSON.stringify(value)];
}

/** The ways to write a listed value: one for lists and objects. GRAMMAR. @param {any} value @param {Notation} notation */
export const valueTexts = (value, notation) =>
  typeof value === 'object' && value ? [writeValue(value, notation)] : scalarTexts(value, notation);
