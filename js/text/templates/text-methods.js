/** Python's methods of texts that a template can call, except `format` (format-text.js). */
import { findAll, findFirst, findAllFromRight } from './search.js';
import { concat, cut, callerText, hasCallerText, stringOf } from './template-texts.js';
import { joinWith, lengthOf, linesOf, partBetween, replaceText, split, strip } from './text-operations.js';
import { elements, requireInteger, requireText, SPACE, templateError, Tuple } from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {string | import('./template-texts.js').Text} AnyText */
/** @typedef {[signature: string, call: (text: AnyText, values: any[], meter: Meter) => any]} TextMethod */

const ASCII = /^\p{ASCII}*$/u;

/**
 * Creates the methods startswith and endswith.
 * @param {(text: string, part: string) => boolean} test @returns {TextMethod}
 */
const affixMethod = (test) => [
  'part start? end?',
  (text, [parts, start, end], meter) => {
    const { part } = partBetween(stringOf(text), start, end, meter);
    const all = parts instanceof Tuple ? parts : [parts];
    return all.some((candidate) => {
      const wanted = requireText(candidate);
      meter.countInput(wanted.length);
      return part !== null && test(part, wanted);
    });
  },
];

/**
 * Creates the methods find, rfind, index and rindex.
 * @param {boolean} last  whether to find the last occurrence instead of the first
 * @param {boolean} required  whether a missing part is an error @returns {TextMethod}
 */
const findMethod = (last, required) => [
  'part start? end?',
  (text, [search, start, end], meter) => {
    const value = stringOf(text);
    const { begin, part } = partBetween(value, start, end, meter);
    const needle = requireText(search);
    let at = -1;
    if (part !== null)
      at = !needle
        ? last
          ? part.length
          : 0
        : last
          ? (findAllFromRight(part, needle, meter, 1)[0] ?? -1)
          : findFirst(part, needle, meter);
    if (at < 0 && required) throw templateError('index(): the string does not contain the part');
    return at < 0 ? -1 : lengthOf(value.slice(0, begin + at), meter);
  },
];

const TITLES = /** @type {Record<string, string>} */ ({
  Ǆ: 'ǅ',
  ǅ: 'ǅ',
  ǆ: 'ǅ',
  Ǉ: 'ǈ',
  ǈ: 'ǈ',
  ǉ: 'ǈ',
  Ǌ: 'ǋ',
  ǋ: 'ǋ',
  ǌ: 'ǋ',
  Ǳ: 'ǲ',
  ǲ: 'ǲ',
  ǳ: 'ǲ',
});

/** Returns a character in title case. @param {string} c */
function titleOf(c) {
  if (Object.hasOwn(TITLES, c)) return TITLES[c];
  const upper = c.toUpperCase();
  if (Array.from(upper).length === 1 || c === upper) return upper;
  if (/[ßﬀ-ﬆﬓ-ﬗև]/.test(c)) return upper[0] + upper.slice(1).toLowerCase();
  throw templateError(`the title case of "${c}" is not supported`);
}

const capitalize = (/** @type {string} */ text) =>
  text.replace(/^./su, titleOf).replace(/^(.)([^]*)$/su, (_, first, others) => first + others.toLowerCase());
const title = (/** @type {string} */ text) =>
  text.toLowerCase().replace(/\p{Cased}+/gu, (word) => word.replace(/^./u, titleOf));

/**
 * Changes the parts of a text that a caller wrote and the other parts separately, so that the marks stay correct.
 * @param {AnyText} text @param {(text: string) => string} change @returns {AnyText}
 */
function byParts(text, change) {
  if (typeof text === 'string') return change(text);
  /** @type {AnyText[]} */
  const parts = [];
  let at = 0;
  for (let i = 0; i < text.callerRanges.length; i += 2) {
    const [begin, end] = [text.callerRanges[i], text.callerRanges[i + 1]];
    parts.push(change(text.value.slice(at, begin)), callerText(change(text.value.slice(begin, end))));
    at = end;
  }
  parts.push(change(text.value.slice(at)));
  return concat(parts);
}

/**
 * Creates a method that changes each character independently.
 * @param {(text: string) => string} change @returns {TextMethod}
 */
const changeMethod = (change) => [
  '',
  (text, _, meter) => {
    meter.countItems(stringOf(text).length);
    return byParts(text, change);
  },
];

/**
 * Creates the methods center, ljust and rjust.
 * @param {(width: number, pad: number) => number} leftPad  returns the part of the padding that is on the left
 * @returns {TextMethod}
 */
const padMethod = (leftPad) => [
  'width fill?',
  (text, [width, fill = ' '], meter) => {
    const length = lengthOf(stringOf(text), meter);
    const pad = Math.max(requireInteger(width) - length, 0);
    if (Array.from(requireText(fill)).length !== 1)
      throw templateError(`the fill of a string must be one character, found "${stringOf(fill)}"`);
    meter.countOutput(pad * stringOf(fill).length);
    const before = leftPad(length + pad, pad);
    return concat([stringOf(fill).repeat(before), text, stringOf(fill).repeat(pad - before)]);
  },
];

/**
 * Creates a method that tests all characters.
 * @param {RegExp} pattern
 * @param {RegExp} [unsupported]  characters for which Python uses its own tables @returns {TextMethod}
 */
const patternMethod = (pattern, unsupported) => [
  '',
  (text, _, meter) => {
    meter.countItems(stringOf(text).length);
    if (unsupported?.test(stringOf(text)))
      throw templateError('isdigit and isnumeric are not supported for these characters');
    return pattern.test(stringOf(text));
  },
];

/** Creates the methods isupper and islower. @param {(text: string) => boolean} test @returns {TextMethod} */
const caseMethod = (test) => [
  '',
  (text, _, meter) => {
    meter.countItems(stringOf(text).length);
    return /\p{Cased}/u.test(stringOf(text)) && test(stringOf(text));
  },
];

/**
 * Creates the methods partition and rpartition.
 * @param {boolean} last  whether to split at the last separator
 * @returns {TextMethod}
 */
const partitionMethod = (last) => [
  'part',
  (text, [separator], meter) => {
    const [value, part] = [stringOf(text), requireText(separator)];
    if (!part) throw templateError('the separator must not be empty');
    const [at] = (last ? findAllFromRight : findAll)(value, part, meter, 1);
    if (at === undefined) return Tuple.from(last ? ['', '', text] : [text, '', '']);
    return Tuple.from([cut(text, 0, at), cut(text, at, at + part.length), cut(text, at + part.length)]);
  },
];

/** @type {Record<string, TextMethod>} */
export const TEXT_METHODS = {
  upper: changeMethod((text) => text.toUpperCase()),
  lower: changeMethod((text) => text.toLowerCase()),
  title: [
    '',
    (text, _, meter) => (meter.countItems(stringOf(text).length), withCallerMark(text, title(stringOf(text)))),
  ],
  capitalize: [
    '',
    (text, _, meter) => (meter.countItems(stringOf(text).length), withCallerMark(text, capitalize(stringOf(text)))),
  ],
  casefold: changeMethod((text) => {
    if (!ASCII.test(text)) throw templateError('casefold is supported for ASCII only');
    return text.toLowerCase();
  }),
  swapcase: changeMethod((text) =>
    Array.from(text, (c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase())).join(''),
  ),
  strip: ['chars?', (text, [chars], meter) => strip(text, chars, meter)],
  lstrip: ['chars?', (text, [chars], meter) => strip(text, chars, meter, 'left')],
  rstrip: ['chars?', (text, [chars], meter) => strip(text, chars, meter, 'right')],
  startswith: affixMethod((text, part) => text.startsWith(part)),
  endswith: affixMethod((text, part) => text.endsWith(part)),
  split: ['/ sep? maxsplit?', (text, [sep, most], meter) => split(text, sep, most, meter)],
  rsplit: ['/ sep? maxsplit?', (text, [sep, most], meter) => split(text, sep, most, meter, true)],
  splitlines: ['/ keepends?', (text, [ends = false], meter) => linesOf(text, Boolean(requireInteger(ends)), meter)],
  partition: partitionMethod(false),
  rpartition: partitionMethod(true),
  replace: [
    'from to / count?',
    (text, [from, to, most], meter) => (requireText(from), requireText(to), replaceText(text, from, to, most, meter)),
  ],
  removeprefix: [
    'part',
    (text, [part], meter) => (
      meter.countInput(requireText(part).length),
      stringOf(text).startsWith(stringOf(part)) ? cut(text, stringOf(part).length) : text
    ),
  ],
  removesuffix: [
    'part',
    (text, [part], meter) => (
      meter.countInput(requireText(part).length),
      stringOf(part) && stringOf(text).endsWith(stringOf(part))
        ? cut(text, 0, stringOf(text).length - stringOf(part).length)
        : text
    ),
  ],
  join: [
    'items',
    (text, [items], meter) =>
      joinWith(
        elements(items, meter).map((item) => (requireText(item), item)),
        text,
        meter,
      ),
  ],
  find: findMethod(false, false),
  rfind: findMethod(true, false),
  index: findMethod(false, true),
  rindex: findMethod(true, true),
  count: [
    'part start? end?',
    (text, [search, start, end], meter) => {
      const { part } = partBetween(stringOf(text), start, end, meter);
      const needle = requireText(search);
      if (part === null) return 0;
      return needle ? findAll(part, needle, meter).length : lengthOf(part, meter) + 1;
    },
  ],
  center: padMethod((width, pad) => Math.floor(pad / 2) + (pad & width & 1)),
  ljust: padMethod(() => 0),
  rjust: padMethod((_, pad) => pad),
  zfill: [
    'width',
    (text, [width], meter) => {
      const pad = Math.max(requireInteger(width) - lengthOf(stringOf(text), meter), 0);
      meter.countOutput(pad);
      const sign = /^[+-]/.test(stringOf(text)) ? 1 : 0;
      return concat([cut(text, 0, sign), '0'.repeat(pad), cut(text, sign)]);
    },
  ],
  isascii: patternMethod(ASCII),
  isdecimal: patternMethod(/^\p{Nd}+$/u),
  isdigit: patternMethod(/^\p{Nd}+$/u, /\p{No}/u),
  isnumeric: patternMethod(/^\p{N}+$/u, /\p{Lo}/u),
  isalpha: patternMethod(/^\p{L}+$/u),
  isalnum: patternMethod(/^[\p{L}\p{N}]+$/u),
  isspace: patternMethod(new RegExp(`^[${SPACE}]+$`)),
  isupper: caseMethod((text) => text === text.toUpperCase()),
  islower: caseMethod((text) => text === text.toLowerCase()),
};

/**
 * Marks a string that was computed from a text as a caller's, if a caller wrote any part of the text.
 * @param {AnyText} text @param {string} value
 */
const withCallerMark = (text, value) => (hasCallerText(text) ? callerText(value) : value);
