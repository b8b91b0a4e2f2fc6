/**
 * Operations on the texts of a template that methods, filters and operators share. The arguments and results of a
 * template are in code points, as in Python; offsets in a string and the costs of a Meter are in UTF-16 code units.
 */
import { findAll, findAllFromRight } from './search.js';
import { concat, cut, callerText, hasCallerText, isText, stringOf } from './template-texts.js';
import { joinTexts, requireInteger, requireText, SPACE, templateError } from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {string | import('./template-texts.js').Text} AnyText */

const [WHITE, WORDS] = [new RegExp(`[${SPACE}]`), new RegExp(`[^${SPACE}]+`, 'g')];
const LINE_BREAKS = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
const LINES = new RegExp(`\\r\\n|[${LINE_BREAKS}]`, 'g');
const SURROGATE = /[\ud800-\udfff]/;

/**
 * Returns the length of a key that is a text, in UTF-16 code units, or 0 for other keys: the cost of looking it up.
 * @param {any} key
 */
export const textLength = (key) => (isText(key) ? stringOf(key).length : 0);

/** Returns the length of a text in code points, Python's characters. @param {string} text @param {Meter} meter */
export function lengthOf(text, meter) {
  meter.countInput(text.length);
  if (!SURROGATE.test(text)) return text.length;
  meter.countItems(text.length);
  let n = 0;
  for (const _ of text) n++;
  return n;
}

/**
 * Returns the offset of the n-th character (code point), at most the length of the text.
 * @param {string} text @param {number} n @param {Meter} meter
 */
export function characterOffset(text, n, meter) {
  meter.countInput(text.length);
  if (!SURROGATE.test(text)) return Math.min(n, text.length);
  meter.countItems(text.length);
  let at = 0;
  for (const c of text) {
    if (n-- <= 0) break;
    at += c.length;
  }
  return at;
}

/**
 * Returns the character at an index, counted from the end if i < 0, or undefined if it is outside the text.
 * @param {AnyText} text @param {number} i @param {Meter} meter
 */
export function characterOf(text, i, meter) {
  const value = stringOf(text);
  const at = i < 0 ? i + lengthOf(value, meter) : i;
  if (at < 0) return undefined;
  const begin = characterOffset(value, at, meter);
  if (begin >= value.length) return undefined;
  return cut(text, begin, begin + /** @type {number} */ (value.codePointAt(begin) > 0xffff ? 2 : 1));
}

/**
 * Removes characters at the ends of a text.
 * @param {AnyText} text @param {any} set  the characters; None: white space
 * @param {Meter} meter @param {'both' | 'left' | 'right'} [side]
 */
export function strip(text, set, meter, side = 'both') {
  const value = stringOf(text);
  const chars = set == null ? null : new Set(requireText(set));
  meter.countItems(chars?.size ?? 0);
  const isStripped = (/** @type {string} */ c) => (chars ? chars.has(c) : WHITE.test(c));
  let [start, end] = [0, value.length];
  const next = () => String.fromCodePoint(/** @type {number} */ (value.codePointAt(start)));
  const last = () => {
    const c = value.slice(Math.max(end - 2, start), end);
    return c.length === 2 && /^[\ud800-\udbff][\udc00-\udfff]$/.test(c) ? c : value[end - 1];
  };
  while (side !== 'right' && start < end && isStripped(next())) start += next().length;
  while (side !== 'left' && end > start && isStripped(last())) end -= last().length;
  meter.countItems(value.length - (end - start));
  meter.countInput(value.length);
  return cut(text, start, end);
}

/**
 * Python's split and rsplit.
 * @param {AnyText} text @param {any} separator @param {any} maxSplits @param {Meter} meter @param {boolean} [fromRight]
 * @returns {AnyText[]}
 */
export function split(text, separator, maxSplits, meter, fromRight = false) {
  const value = stringOf(text);
  const limit = maxSplits === undefined ? -1 : requireInteger(maxSplits);
  meter.countInput(value.length);
  /** @type {[number, number][]} */
  let parts = [];
  if (separator == null) {
    for (const { 0: word, index } of value.matchAll(WORDS)) parts.push([index, index + word.length]);
    if (limit >= 0 && parts.length > limit) {
      const at = fromRight ? parts.length - limit : limit;
      if (fromRight) parts = [[0, parts[at - 1][1]], ...parts.slice(at)];
      else parts = [...parts.slice(0, at), [parts[at][0], value.length]];
    }
  } else {
    const part = requireText(separator);
    if (part === '') throw templateError('the separator must not be empty');
    let at = 0;
    for (const place of (fromRight ? findAllFromRight : findAll)(value, part, meter, limit < 0 ? -1 : limit)) {
      parts.push([at, place]);
      at = place + part.length;
    }
    parts.push([at, value.length]);
  }
  meter.countItems(8 * parts.length);
  return parts.map(([begin, end]) => cut(text, begin, end));
}

/**
 * Returns the lines of a text.
 * @param {AnyText} text @param {boolean} ends  whether lines keep their line breaks
 * @param {Meter} meter @returns {AnyText[]}
 */
export function linesOf(text, ends, meter) {
  const value = stringOf(text);
  meter.countInput(value.length);
  /** @type {AnyText[]} */
  const lines = [];
  let at = 0;
  for (const { 0: end, index } of value.matchAll(LINES)) {
    lines.push(cut(text, at, ends ? index + end.length : index));
    at = index + end.length;
  }
  if (at < value.length) lines.push(cut(text, at));
  meter.countItems(8 * lines.length);
  return lines;
}

/**
 * Python's replace.
 * @param {AnyText} text @param {AnyText} from @param {AnyText} to @param {any} max  maximum number of replacements
 * @param {Meter} meter
 */
export function replaceText(text, from, to, max, meter) {
  const [value, part] = [stringOf(text), stringOf(from)];
  const limit = max === undefined ? -1 : requireInteger(max);
  /** @type {AnyText[]} */
  const parts = [];
  let at = 0;
  /** @type {number[]} */
  let all;
  if (part) all = findAll(value, part, meter, limit < 0 ? -1 : limit);
  else {
    all = [];
    meter.countItems(value.length);
    for (
      let i = 0;
      i <= value.length && all.length !== limit;
      i += i < value.length && /** @type {number} */ (value.codePointAt(i)) > 0xffff ? 2 : 1
    )
      all.push(i);
  }
  if (!all.length) return text;
  meter.countOutput(value.length + all.length * stringOf(to).length);
  if (typeof text === 'string' && typeof to === 'string' && part && limit < 0) return text.replaceAll(part, () => to);
  meter.countItems(8 * all.length);
  for (const place of all) {
    parts.push(cut(text, at, place), to);
    at = place + part.length;
  }
  parts.push(cut(text, at));
  return concat(parts);
}

/**
 * Returns the part of a text between Python's arguments start and end, and its offset.
 * @param {string} text @param {any} start @param {any} end @param {Meter} meter
 * @returns {{ begin: number, part: string | null }}  part: null if start is after end
 */
export function partBetween(text, start, end, meter) {
  if (start == null && end == null) return { begin: 0, part: text };
  const length = lengthOf(text, meter);
  const place = (/** @type {any} */ n, /** @type {number} */ otherwise) => {
    if (n == null) return otherwise;
    const at = requireInteger(n);
    return at < 0 ? Math.max(at + length, 0) : at;
  };
  const [from, to] = [place(start, 0), Math.min(place(end, length), length)];
  if (from > to) return { begin: 0, part: null };
  const begin = characterOffset(text, from, meter);
  return { begin, part: text.slice(begin, characterOffset(text, to, meter)) };
}

/** Joins values with a text between them. @param {any[]} items @param {AnyText} glue @param {Meter} meter */
export function joinWith(items, glue, meter) {
  meter.countItems(items.length);
  return joinTexts(
    items.flatMap((item, i) => (i ? [glue, item] : [item])),
    meter,
  );
}

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };
/** @param {string} text */
const entities = (text) => text.replace(/[&<>"']/g, (c) => ENTITIES[/** @type {keyof typeof ENTITIES} */ (c)]);

/**
 * Replaces HTML's special characters by entities. If a caller wrote any part of the text, the complete result is
 * marked.
 * @param {string | import('./template-texts.js').Text} text @param {Meter} meter
 */
export function escapeHtml(text, meter) {
  meter.countItems(stringOf(text).length);
  const result = entities(stringOf(text));
  return meter.countText(hasCallerText(text) ? callerText(result) : result);
}
