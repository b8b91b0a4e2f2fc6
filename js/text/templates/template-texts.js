/**
 * Texts of a rendering that record which parts a caller wrote (a message, a tool's description), independent of what
 * the template does with them. The tokenizer does not recognize special tokens in those parts. A text without such
 * parts is a string.
 */

/** Placeholders for BOS and EOS in templates that print them: private-use characters of Unicode, which cannot be split. */
export const [BOS, EOS] = ['\u{f0001}', '\u{f0002}'];

/** @type {number[]} */
const NO_RANGES = [];

export class Text {
  /**
   * @param {string} value
   * @param {number[]} callerRanges  begin and end offsets of the parts that a caller wrote, in ascending order
   * @param {boolean} safe  whether Jinja's filter `safe` marked the text. Texts that are added to it are escaped for
   *   HTML
   */
  constructor(value, callerRanges = NO_RANGES, safe = false) {
    this.value = value;
    this.callerRanges = callerRanges;
    this.safe = safe;
  }
}

/** @param {any} value */
export const isText = (value) => typeof value === 'string' || value instanceof Text;
/** Returns a text as a string without marks, and any other value unchanged. @param {any} value */
export const stringOf = (value) => (value instanceof Text ? value.value : value);
/** Whether a value is a text that is marked as safe. @param {any} value */
export const isSafe = (value) => value instanceof Text && value.safe;
/** Whether a value is a text of which a caller wrote a part. @param {any} value */
export const hasCallerText = (value) => value instanceof Text && value.callerRanges.length > 0;

/** @param {string} value @param {number[]} callerRanges @param {boolean} [safe] @returns {string | Text} */
const makeText = (value, callerRanges, safe = false) =>
  callerRanges.length || safe ? new Text(value, callerRanges, safe) : value;

/** Marks a string as written by a caller. @param {string} value @returns {string | Text} */
export const callerText = (value) => (value ? new Text(value, [0, value.length]) : value);
/**
 * Returns a text with or without the mark of the filter `safe`.
 * @param {string | Text} value @param {boolean} [safe]
 */
export const withSafeMark = (value, safe = true) =>
  makeText(stringOf(value), value instanceof Text ? value.callerRanges : NO_RANGES, safe);

/**
 * Joins parts to one text, which is not marked as safe.
 * @param {readonly (string | Text)[]} parts @returns {string | Text}
 */
export function concat(parts) {
  if (parts.length === 1) return withSafeMark(parts[0], false);
  /** @type {number[]} */
  const ranges = [];
  let at = 0;
  for (const part of parts) {
    if (part instanceof Text) {
      for (let i = 0; i < part.callerRanges.length; i += 2) {
        const begin = at + part.callerRanges[i];
        if (ranges.at(-1) === begin) ranges.pop();
        else ranges.push(begin);
        ranges.push(at + part.callerRanges[i + 1]);
      }
    }
    at += stringOf(part).length;
  }
  return makeText(parts.map(stringOf).join(''), ranges);
}

/**
 * Returns a part of a text, not marked as safe.
 * @param {string | Text} text @param {number} begin @param {number} [end] @returns {string | Text}
 */
export function cut(text, begin, end = stringOf(text).length) {
  if (typeof text === 'string') return text.slice(begin, end);
  /** @type {number[]} */
  const ranges = [];
  for (let i = 0; i < text.callerRanges.length; i += 2) {
    const [from, to] = [Math.max(text.callerRanges[i], begin), Math.min(text.callerRanges[i + 1], end)];
    if (from < to) ranges.push(from - begin, to - begin);
  }
  return makeText(text.value.slice(begin, end), ranges);
}

/** Returns the number of marks of a text, which cost work in addition to its length. @param {any} text */
export const marksOf = (text) => (text instanceof Text ? text.callerRanges.length : 0);
