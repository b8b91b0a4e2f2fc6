/**
 * Texts of a rendering that know where they come from: what a caller wrote is never taken for the template's own, whatever
 * the template does with it. A text that is the template's alone is a string.
 */

/** Stand for BOS and EOS whose texts are not read as the tokens: private characters of Unicode. */
export const [BOS, EOS] = ['\u{f0001}', '\u{f0002}'];

/** @type {number[]} */
const NONE = [];

export class Text {
  /**
   * @param {string} value
   * @param {number[]} given  begins and ends, rising, of what a caller wrote
   * @param {boolean} safe  marked as safe: what is added to it is escaped for HTML, as Jinja does
   */
  constructor(value, given = NONE, safe = false) {
    this.value = value;
    this.given = given;
    this.safe = safe;
  }
}

/** @param {any} value */
export const isText = (value) => typeof value === 'string' || value instanceof Text;
/** A text without its marks. @param {any} value */
export const plain = (value) => (value instanceof Text ? value.value : value);
/** @param {any} value */
export const isSafe = (value) => value instanceof Text && value.safe;
/** Whether any of it is a caller's. @param {any} value */
export const isGiven = (value) => value instanceof Text && value.given.length > 0;

/** @param {string} value @param {number[]} given @param {boolean} [safe] @returns {string | Text} */
const textOf = (value, given, safe = false) => (given.length || safe ? new Text(value, given, safe) : value);

/** A text that a caller wrote. @param {string} value @returns {string | Text} */
export const given = (value) => (value ? new Text(value, [0, value.length]) : value);
/** @param {string | Text} value @param {boolean} [safe] */
export const marked = (value, safe = true) => textOf(plain(value), value instanceof Text ? value.given : NONE, safe);

/** @param {readonly (string | Text)[]} parts @returns {string | Text} */
export function concat(parts) {
  if (parts.length === 1) return marked(parts[0], false);
  /** @type {number[]} */
  const all = [];
  let at = 0;
  for (const part of parts) {
    if (part instanceof Text) {
      for (let i = 0; i < part.given.length; i += 2) {
        const begin = at + part.given[i];
        if (all.at(-1) === begin) all.pop();
        else all.push(begin);
        all.push(at + part.given[i + 1]);
      }
    }
    at += plain(part).length;
  }
  return textOf(parts.map(plain).join(''), all);
}

/** A part of a text. @param {string | Text} text @param {number} begin @param {number} [end] @returns {string | Text} */
export function cut(text, begin, end = plain(text).length) {
  if (typeof text === 'string') return text.slice(begin, end);
  /** @type {number[]} */
  const kept = [];
  for (let i = 0; i < text.given.length; i += 2) {
    const [from, to] = [Math.max(text.given[i], begin), Math.min(text.given[i + 1], end)];
    if (from < to) kept.push(from - begin, to - begin);
  }
  return textOf(text.value.slice(begin, end), kept);
}

/** Marks as many as a text has: work of its own beside its length. @param {any} text */
export const marksOf = (text) => (text instanceof Text ? text.given.length : 0);
