/**
 * Methods of texts, lists and dicts that a template can call (Python's, except those that change the value), and the
 * formatting of texts (`%` and `format`).
 */
import { floatOf, formatNumber } from './numbers.js';
import { findAll, findFirst, findAllFromRight } from './search.js';
import { concat, cut, callerText, hasCallerText, isSafe, isText, stringOf } from './template-texts.js';
import {
  compare,
  Dict,
  requireDefined,
  elements,
  entriesOf,
  equal,
  Float,
  lookUp,
  trackCallerText,
  isNumber,
  joinTexts,
  keyOf,
  keysOf,
  requireInteger,
  numberOf,
  repr,
  SPACE,
  toText,
  templateError,
  Tuple,
  typeOf,
  Undefined,
  View,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {string | import('./template-texts.js').Text} AnyText */
/**
 * Arguments of a call: positional ones in order, named ones by name.
 * @typedef {{ at: any[], named: Map<string, any> }} Args
 */

/**
 * Returns the arguments of a call in the order of a signature. Missing ones are JavaScript's undefined.
 * @param {string} subject  of error messages
 * @param {Args} args
 * @param {string} signature  names of the parameters. Those with ? are optional; those after a / can be passed by name
 */
export function bindArguments(subject, { at, named }, signature) {
  const names = signature.split(' ').filter(Boolean);
  /** Index of the first parameter that can be passed by name, or -1. */
  const firstNamed = names.indexOf('/');
  const all = names.filter((name) => name !== '/');
  if (at.length > all.length)
    throw templateError(`${subject} takes at most ${all.length} arguments, found ${at.length}`);
  /** @type {any[]} */
  const values = all.map((_, i) => at[i]);
  for (const [name, value] of named) {
    const i = all.findIndex((parameter) => parameter.replace('?', '') === name);
    if (i < 0 || firstNamed < 0 || i < firstNamed) throw templateError(`${subject} has no named argument "${name}"`);
    if (i < at.length) throw templateError(`${subject} got two values for its argument "${name}"`);
    values[i] = value;
  }
  all.forEach((name, i) => {
    if (values[i] === undefined && !name.endsWith('?')) throw templateError(`${subject} needs the argument "${name}"`);
  });
  return values;
}

/** Returns a text as a string. Throws TEMPLATE if the value is not a text. @param {any} value @returns {string} */
export function requireText(value) {
  if (isText(value)) return stringOf(value);
  throw templateError(`expected a text, found a value of type ${typeOf(requireDefined(value))}`);
}

const [WHITE, WORDS] = [new RegExp(`[${SPACE}]`), new RegExp(`[^${SPACE}]+`, 'g')];
const ENDS = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
const LINES = new RegExp(`\\r\\n|[${ENDS}]`, 'g');
const ASCII = /^\p{ASCII}*$/u;
const SURROGATE = /[\ud800-\udfff]/;

/** Returns the length of a key that is a text (the cost of looking it up), or 0 for other keys. @param {any} key */
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
function split(text, separator, maxSplits, meter, fromRight = false) {
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
function partBetween(text, start, end, meter) {
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
    if (at < 0 && required) throw templateError('index(): the text does not contain the part');
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
      throw templateError(`the fill of a text must be one character, found "${stringOf(fill)}"`);
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

/** @typedef {[signature: string, call: (text: AnyText, values: any[], meter: Meter) => any]} TextMethod */

/** @type {Record<string, TextMethod>} */
const TEXT = {
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

/** Joins values with a text between them. @param {any[]} items @param {AnyText} glue @param {Meter} meter */
export function joinWith(items, glue, meter) {
  meter.countItems(items.length);
  return joinTexts(
    items.flatMap((item, i) => (i ? [glue, item] : [item])),
    meter,
  );
}

/**
 * Evaluates `'{} and {name}'.format(…)`. Only names and numbers are supported in braces.
 * @param {AnyText} text @param {Args} args @param {Meter} meter
 */
function format(text, { at, named }, meter) {
  const value = stringOf(text);
  meter.countItems(value.length);
  /** @type {AnyText[]} */
  const parts = [];
  let [next, done, numbered] = [0, 0, /** @type {boolean | null} */ (null)];
  for (const { 0: whole, 1: name, index } of value.matchAll(/\{\{|\}\}|\{(\w*)\}|[{}]/g)) {
    parts.push(cut(text, done, index));
    done = index + whole.length;
    if (whole === '{{' || whole === '}}') {
      parts.push(whole[0]);
      continue;
    }
    if (name === undefined)
      throw templateError('format() with anything but a name or number in braces is not supported');
    const digits = /^\d+$/.test(name);
    if (name === '' || digits) {
      if (numbered !== null && numbered !== digits)
        throw templateError('format() must not mix {} with numbers in braces');
      numbered = digits;
    }
    const argument = name === '' ? at[next++] : digits ? at[Number(name)] : named.get(name);
    if (argument === undefined) throw templateError(`format() has no argument for {${name}}`);
    parts.push(toText(argument, meter));
  }
  parts.push(cut(text, done));
  return joinTexts(parts, meter);
}

/**
 * Formats one value for a conversion `%…`.
 * @param {any} value @param {string} flags @param {number} width @param {number} precision  -1: none
 * @param {string} kind @param {Meter} meter @returns {AnyText}
 */
function formatConversion(value, flags, width, precision, kind, meter) {
  meter.countItems(16 * Math.max(precision, 0));
  if (flags.includes('#') || kind === 'a') throw templateError(`"%${flags}${kind}" in a format is not supported`);
  /** @type {AnyText} */
  let body;
  let sign = '';
  if (kind === 's' || kind === 'r') {
    body = kind === 's' ? toText(value, meter) : trackCallerText(meter, () => repr(value, meter));
    if (precision >= 0) body = cut(body, 0, characterOffset(stringOf(body), precision, meter));
  } else if (kind === 'c') {
    if (isText(value) ? lengthOf(stringOf(value), meter) !== 1 : typeof value !== 'number')
      throw templateError('"%c" expects a character or its number');
    body = isText(value) ? value : String.fromCodePoint(value);
  } else {
    if (!isNumber(value))
      throw templateError(`"%${kind}" expects a number, found a value of type ${typeOf(requireDefined(value))}`);
    const number = numberOf(value);
    const float = 'eEfFgG'.includes(kind);
    if (!float && value instanceof Float && ('xXo'.includes(kind) || !Number.isFinite(number)))
      throw templateError(`"%${kind}" can't format the number ${number}`);
    const negative = float ? number < 0 || Object.is(number, -0) : Math.trunc(number) < 0;
    sign = negative ? '-' : flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';
    const size = Math.abs(number);
    if (!Number.isFinite(number)) {
      if (flags.includes('0')) throw templateError('infinite numbers with leading zeros are not supported');
      body = Number.isNaN(number) ? 'nan' : 'inf';
    } else if (float) body = formatNumber(size, kind.toLowerCase(), precision < 0 ? 6 : precision);
    else
      body = BigInt(Math.trunc(size))
        .toString(kind === 'o' ? 8 : 'xX'.includes(kind) ? 16 : 10)
        .padStart(precision, '0');
    if ('EFGX'.includes(kind)) body = stringOf(body).toUpperCase();
  }
  const pad = Math.max(width - sign.length - lengthOf(stringOf(body), meter), 0);
  meter.countOutput(pad);
  if (flags.includes('-')) return concat([sign, body, ' '.repeat(pad)]);
  const zeros = flags.includes('0') && !'src'.includes(kind);
  return zeros ? concat([sign, '0'.repeat(pad), body]) : concat([' '.repeat(pad), sign, body]);
}

/** Evaluates `text % values`. @param {AnyText} text @param {any} values @param {Meter} meter */
export function formatPercent(text, values, meter) {
  const value = stringOf(text);
  meter.countItems(value.length);
  const all = values instanceof Tuple ? values : [values];
  /** @type {AnyText[]} */
  const parts = [];
  let [next, done] = [0, 0];
  for (const match of value.matchAll(/%(?:\(([^()]*)\))?([#0 +-]*)(\d*)(?:\.(\d*))?[hlL]?([^])?/g)) {
    const [whole, name, flags, width, precision, kind] = match;
    parts.push(cut(text, done, match.index));
    done = match.index + whole.length;
    if (kind === '%') {
      if (whole !== '%%') throw templateError(`${JSON.stringify(whole)} in a format is not supported`);
      parts.push('%');
      continue;
    }
    if (!kind || !'sdiuxXocrafFeEgG'.includes(kind))
      throw templateError(`${JSON.stringify(whole)} in a format is not supported`);
    let argument;
    if (name === undefined) argument = next < all.length ? all[next++] : undefined;
    else if (values instanceof Map) argument = lookUp(values, name);
    else throw templateError(`"%(${name})" expects a dict after the operator %`);
    if (argument === undefined) throw templateError(`"${whole}" has no value`);
    meter.count();
    parts.push(
      formatConversion(argument, flags, Number(width), precision === undefined ? -1 : Number(precision), kind, meter),
    );
  }
  if (next < all.length && !(values instanceof Map) && (values instanceof Tuple || !Array.isArray(values)))
    throw templateError(`the format has ${next} conversions, but there are ${all.length} values`);
  parts.push(cut(text, done));
  return joinTexts(parts, meter);
}

/** @type {Record<string, [string, (dict: Map<any, any>, values: any[], meter: Meter) => any]>} */
const DICT = {
  get: [
    'key otherwise?',
    (dict, [key, otherwise = null], meter) =>
      (meter.countInput(textLength(key)), lookUp(dict, key)) ?? (hasKey(dict, key) ? null : otherwise),
  ],
  items: ['', (dict, _, meter) => (meter.countItems(16 * dict.size), View.make(entriesOf(dict), 'dict_items'))],
  keys: ['', (dict) => View.make(keysOf(dict), 'dict_keys')],
  values: ['', (dict) => View.make([...dict.values()], 'dict_values')],
  copy: ['', (dict, _, meter) => (meter.countItems(8 * dict.size), copyDict(dict))],
};

/** @param {Map<any, any>} dict @param {any} key */
const hasKey = (dict, key) => dict.has(keyOf(key)) || lookUp(dict, key) !== undefined;

/** @param {Map<any, any>} dict */
function copyDict(dict) {
  const copy = new Dict(dict);
  copy.hasCallerKeys = dict instanceof Dict && dict.hasCallerKeys;
  return copy;
}

/** @type {Record<string, [string, (list: any[], values: any[], meter: Meter) => any]>} */
const LIST = {
  index: [
    'value',
    (list, [value], meter) => {
      const i = list.findIndex((item) => equal(item, value, meter));
      if (i < 0) throw templateError('index(): the list does not contain the value');
      return i;
    },
  ],
  count: ['value', (list, [value], meter) => Array.from(list).filter((item) => equal(item, value, meter)).length],
  copy: ['', (list) => [...list]],
};

const names = (/** @type {string} */ text) => text.split(' ');
/**
 * Members of Python's types that are not supported, some of them because they change the value.
 * @type {Record<string, string[]>}
 */
const UNSUPPORTED_MEMBERS = {
  str: names('encode expandtabs format_map isidentifier isprintable istitle maketrans translate'),
  dict: names('clear fromkeys pop popitem setdefault update'),
  list: names('append clear extend insert pop remove reverse sort'),
  tuple: [],
  int: names(
    'as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real to_bytes',
  ),
  float: names('as_integer_ratio conjugate fromhex hex imag is_integer real'),
  generator: names('close gi_code gi_frame gi_running send throw'),
  range: names('count index start step stop'),
  dict_keys: names('isdisjoint mapping'),
  dict_items: names('isdisjoint mapping'),
  dict_values: ['mapping'],
};
UNSUPPORTED_MEMBERS.bool = UNSUPPORTED_MEMBERS.int;
/** Unsupported members that are not methods. */
const UNSUPPORTED_ATTRIBUTES = names(
  'denominator imag mapping numerator real start step stop gi_code gi_frame gi_running',
);

/**
 * Returns a method of a value as a function, or undefined for an unknown name.
 * @param {any} value @param {any} key @returns {((args: Args, meter: Meter) => any) | undefined}
 */
export function method(value, key) {
  const name = stringOf(key);
  if (typeof name !== 'string') return undefined;
  const type = typeOf(value);
  if (Object.hasOwn(UNSUPPORTED_MEMBERS, type) && UNSUPPORTED_MEMBERS[type].includes(name)) {
    const refuse = () => {
      throw templateError(`${type}.${name} is not supported in a chat template`);
    };
    return UNSUPPORTED_ATTRIBUTES.includes(name) ? refuse() : refuse;
  }
  const subject = `${type}.${name}`;
  if (type === 'str') {
    if (name === 'format')
      return (args, meter) => (refuseSafe(value, subject), meter.countText(format(value, args, meter)));
    if (!Object.hasOwn(TEXT, name)) return undefined;
    const [signature, call] = TEXT[name];
    return (args, meter) => {
      refuseSafe(value, subject);
      meter.count();
      const result = call(value, bindArguments(subject, args, signature), meter);
      return isText(result) ? meter.countText(result) : result;
    };
  }
  const table = /** @type {Record<string, [string, any]>} */ (
    value instanceof Map ? DICT : type === 'list' || type === 'tuple' ? LIST : {}
  );
  if (!Object.hasOwn(table, name) || (type === 'tuple' && name === 'copy')) return undefined;
  const [signature, call] = table[name];
  return (args, meter) => {
    meter.countItems(value.size ?? value.length);
    return call(value, bindArguments(subject, args, signature), meter);
  };
}

/** Throws TEMPLATE for a safe text. @param {any} value @param {string} subject  of the message */
function refuseSafe(value, subject) {
  if (isSafe(value)) throw templateError(`${subject} is not supported for safe texts`);
}

/**
 * Returns a sorted copy of a list.
 * @param {any[]} list @param {Meter} meter
 * @param {{ by?: (item: any) => any, sensitive?: boolean, reverse?: boolean }} how  by: returns the sort key of an
 *   item; sensitive: whether case matters
 */
export function sortItems(list, meter, { by = (item) => item, sensitive = false, reverse = false }) {
  meter.countItems(list.length);
  const lower = caseFolder(sensitive, meter);
  const keyed = Array.from(list, (item) => ({ item, key: lower(by(item)) }));
  if (keyed.some(({ key }) => key instanceof Undefined))
    throw templateError('sorting by undefined values is not supported');
  const order = keyed.sort((a, b) => {
    const sign = reverse ? compare(b.key, a.key, meter) : compare(a.key, b.key, meter);
    if (Number.isNaN(sign)) throw templateError("can't sort a list that contains NaN");
    return sign;
  });
  return order.map(({ item }) => item);
}

/**
 * Returns a function that converts texts to lower case for comparisons, unless `sensitive`.
 * @param {boolean} sensitive @param {Meter} meter
 */
export const caseFolder = (sensitive, meter) => (/** @type {any} */ key) => {
  if (!isText(key) || sensitive) return key;
  meter.countItems(stringOf(key).length);
  return stringOf(key).toLowerCase();
};

/**
 * The filter int: converts a value to an integer, or returns `otherwise` if it is not a number.
 * @param {any} value @param {any} otherwise @param {Meter} meter
 */
export function toInteger(value, otherwise, meter) {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  requireDefined(value);
  let number = NaN;
  if (value instanceof Float) {
    number = Math.trunc(value.value);
    if (Math.abs(number) === Infinity) throw templateError("can't convert an infinite number to an integer");
  } else if (isText(value)) {
    const text = stringOf(strip(value, null, meter));
    if (/^[+-]?\d+(_\d+)*$/.test(text)) number = Number(text.replaceAll('_', ''));
    else number = Math.trunc(floatOf(text).value);
  }
  if (!Number.isFinite(number)) return otherwise;
  if (Number.isSafeInteger(number)) return number + 0;
  throw templateError('integers beyond 2^53 are not supported');
}
