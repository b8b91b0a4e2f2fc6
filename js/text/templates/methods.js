/** Methods of texts, lists and dicts that a template may call: those of Python that change nothing. */
import { floatOf, written } from './numbers.js';
import { places, placeOf, placesFromRight } from './search.js';
import { concat, cut, given, isGiven, isSafe, isText, plain } from './template-texts.js';
import {
  compare,
  Dict,
  defined,
  elements,
  entriesOf,
  equal,
  Float,
  found,
  fromTexts,
  isNumber,
  joined,
  keyOf,
  keysOf,
  needWhole,
  numberOf,
  repr,
  shown,
  templateError,
  Tuple,
  typeOf,
  Undefined,
  View,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {string | import('./template-texts.js').Text} AnyText */
/** A call's arguments, the named ones by name. @typedef {{ at: any[], named: Map<string, any> }} Args */

/**
 * Arguments by a signature; what was not given is JavaScript's undefined.
 * @param {string} what @param {Args} args @param {string} signature  names; those with ? may be left out, and behind a / they may be named
 */
export function bound(what, { at, named }, signature) {
  const names = signature.split(' ').filter(Boolean);
  const open = names.indexOf('/');
  const all = names.filter((name) => name !== '/');
  if (at.length > all.length) throw templateError(`${what} takes at most ${all.length} arguments, found ${at.length}`);
  /** @type {any[]} */
  const values = all.map((_, i) => at[i]);
  for (const [name, value] of named) {
    const i = all.findIndex((one) => one.replace('?', '') === name);
    if (i < 0 || open < 0 || i < open) throw templateError(`${what} has no argument "${name}" that can be named`);
    if (i < at.length) throw templateError(`${what} was given its argument "${name}" twice`);
    values[i] = value;
  }
  all.forEach((name, i) => {
    if (values[i] === undefined && !name.endsWith('?')) throw templateError(`${what} misses its argument "${name}"`);
  });
  return values;
}

/** @param {any} value @returns {string} */
export function textOf(value) {
  if (isText(value)) return plain(value);
  throw templateError(`a ${typeOf(defined(value))} where a text belongs`);
}

// What Python calls white space, and JavaScript doesn't quite.
const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const [WHITE, WORDS] = [new RegExp(`[${SPACE}]`), new RegExp(`[^${SPACE}]+`, 'g')];
const ENDS = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
const LINES = new RegExp(`\\r\\n|[${ENDS}]`, 'g');
const ASCII = /^\p{ASCII}*$/u;
const WIDE = /[\ud800-\udfff]/;

/** What looking up a key costs, in characters. @param {any} key */
export const textLength = (key) => (isText(key) ? plain(key).length : 0);

/** Characters of a text, as Python counts them. @param {string} text @param {Meter} meter */
export function lengthOf(text, meter) {
  meter.scan(text.length);
  if (!WIDE.test(text)) return text.length;
  meter.items(text.length);
  let n = 0;
  for (const _ of text) n++;
  return n;
}

/** Where the n-th character begins, or the text ends. @param {string} text @param {number} n @param {Meter} meter */
export function placeIn(text, n, meter) {
  meter.scan(text.length);
  if (!WIDE.test(text)) return Math.min(n, text.length);
  meter.items(text.length);
  let at = 0;
  for (const c of text) {
    if (n-- <= 0) break;
    at += c.length;
  }
  return at;
}

/** A character, from the end if i < 0; undefined: there is none. @param {AnyText} text @param {number} i @param {Meter} meter */
export function characterOf(text, i, meter) {
  const value = plain(text);
  const at = i < 0 ? i + lengthOf(value, meter) : i;
  if (at < 0) return undefined;
  const begin = placeIn(value, at, meter);
  if (begin >= value.length) return undefined;
  return cut(text, begin, begin + /** @type {number} */ (value.codePointAt(begin) > 0xffff ? 2 : 1));
}

/** @param {AnyText} text @param {any} set  characters; None: white space @param {Meter} meter @param {'both' | 'left' | 'right'} [side] */
export function strip(text, set, meter, side = 'both') {
  const value = plain(text);
  const chars = set == null ? null : new Set(textOf(set));
  meter.items(chars?.size ?? 0);
  const goes = (/** @type {string} */ c) => (chars ? chars.has(c) : WHITE.test(c));
  let [start, end] = [0, value.length];
  const next = () => String.fromCodePoint(/** @type {number} */ (value.codePointAt(start)));
  const last = () => {
    const c = value.slice(Math.max(end - 2, start), end);
    return c.length === 2 && /^[\ud800-\udbff][\udc00-\udfff]$/.test(c) ? c : value[end - 1];
  };
  while (side !== 'right' && start < end && goes(next())) start += next().length;
  while (side !== 'left' && end > start && goes(last())) end -= last().length;
  meter.items(value.length - (end - start));
  meter.scan(value.length);
  return cut(text, start, end);
}

/** @param {AnyText} text @param {any} separator @param {any} most @param {Meter} meter @param {boolean} [fromRight] @returns {AnyText[]} */
function split(text, separator, most, meter, fromRight = false) {
  const value = plain(text);
  const limit = most === undefined ? -1 : needWhole(most);
  meter.scan(value.length);
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
    const part = textOf(separator);
    if (part === '') throw templateError('an empty separator');
    let at = 0;
    for (const place of (fromRight ? placesFromRight : places)(value, part, meter, limit < 0 ? -1 : limit)) {
      parts.push([at, place]);
      at = place + part.length;
    }
    parts.push([at, value.length]);
  }
  meter.items(8 * parts.length);
  return parts.map(([begin, end]) => cut(text, begin, end));
}

/** Lines, each with its end or without. @param {AnyText} text @param {boolean} ends @param {Meter} meter @returns {AnyText[]} */
export function linesOf(text, ends, meter) {
  const value = plain(text);
  meter.scan(value.length);
  /** @type {AnyText[]} */
  const lines = [];
  let at = 0;
  for (const { 0: end, index } of value.matchAll(LINES)) {
    lines.push(cut(text, at, ends ? index + end.length : index));
    at = index + end.length;
  }
  if (at < value.length) lines.push(cut(text, at));
  meter.items(8 * lines.length);
  return lines;
}

/** @param {AnyText} text @param {AnyText} from @param {AnyText} to @param {any} most @param {Meter} meter */
export function replaced(text, from, to, most, meter) {
  const [value, part] = [plain(text), plain(from)];
  const limit = most === undefined ? -1 : needWhole(most);
  /** @type {AnyText[]} */
  const parts = [];
  let at = 0;
  /** @type {number[]} */
  let all;
  if (part) all = places(value, part, meter, limit < 0 ? -1 : limit);
  else {
    all = [];
    meter.items(value.length);
    for (
      let i = 0;
      i <= value.length && all.length !== limit;
      i += i < value.length && /** @type {number} */ (value.codePointAt(i)) > 0xffff ? 2 : 1
    )
      all.push(i);
  }
  if (!all.length) return text;
  meter.room(value.length + all.length * plain(to).length);
  if (typeof text === 'string' && typeof to === 'string' && part && limit < 0) return text.replaceAll(part, () => to);
  meter.items(8 * all.length);
  for (const place of all) {
    parts.push(cut(text, at, place), to);
    at = place + part.length;
  }
  parts.push(cut(text, at));
  return concat(parts);
}

/** A text's part by Python's start and end. @param {string} text @param {any} start @param {any} end @param {Meter} meter @returns {{ begin: number, part: string | null }} null: behind its end */
function between(text, start, end, meter) {
  if (start == null && end == null) return { begin: 0, part: text };
  const length = lengthOf(text, meter);
  const place = (/** @type {any} */ n, /** @type {number} */ otherwise) => {
    if (n == null) return otherwise;
    const at = needWhole(n);
    return at < 0 ? Math.max(at + length, 0) : at;
  };
  const [from, to] = [place(start, 0), Math.min(place(end, length), length)];
  if (from > to) return { begin: 0, part: null };
  const begin = placeIn(text, from, meter);
  return { begin, part: text.slice(begin, placeIn(text, to, meter)) };
}

/** @param {(text: string, part: string) => boolean} test @returns {TextMethod} */
const beginsOrEnds = (test) => [
  'part start? end?',
  (text, [what, start, end], meter) => {
    const { part } = between(plain(text), start, end, meter);
    const all = what instanceof Tuple ? what : [what];
    return all.some((one) => {
      const wanted = textOf(one);
      meter.scan(wanted.length);
      return part !== null && test(part, wanted);
    });
  },
];

/** @param {boolean} last @param {boolean} must @returns {TextMethod} */
const finding = (last, must) => [
  'part start? end?',
  (text, [what, start, end], meter) => {
    const value = plain(text);
    const { begin, part } = between(value, start, end, meter);
    const wanted = textOf(what);
    let at = -1;
    if (part !== null)
      at = !wanted
        ? last
          ? part.length
          : 0
        : last
          ? (placesFromRight(part, wanted, meter, 1)[0] ?? -1)
          : placeOf(part, wanted, meter);
    if (at < 0 && must) throw templateError('a text that is not in the other one');
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

/** The first character as it begins a title. @param {string} c */
function titleOf(c) {
  if (Object.hasOwn(TITLES, c)) return TITLES[c];
  const upper = c.toUpperCase();
  if (Array.from(upper).length === 1 || c === upper) return upper;
  if (/[ßﬀ-ﬆﬓ-ﬗև]/.test(c)) return upper[0] + upper.slice(1).toLowerCase();
  throw templateError(`"${c}" at the beginning of a title is not supported`);
}

const capitalize = (/** @type {string} */ text) =>
  text.replace(/^./su, titleOf).replace(/^(.)([^]*)$/su, (_, first, rest) => first + rest.toLowerCase());
const title = (/** @type {string} */ text) =>
  text.toLowerCase().replace(/\p{Cased}+/gu, (word) => word.replace(/^./u, titleOf));

/** Of each part by itself, a caller's or the template's. @param {AnyText} text @param {(text: string) => string} change @returns {AnyText} */
function byParts(text, change) {
  if (typeof text === 'string') return change(text);
  /** @type {AnyText[]} */
  const parts = [];
  let at = 0;
  for (let i = 0; i < text.given.length; i += 2) {
    const [begin, end] = [text.given[i], text.given[i + 1]];
    parts.push(change(text.value.slice(at, begin)), given(change(text.value.slice(begin, end))));
    at = end;
  }
  parts.push(change(text.value.slice(at)));
  return concat(parts);
}

/** @param {(text: string) => string} change @returns {TextMethod} */
const changing = (change) => [
  '',
  (text, _, meter) => {
    meter.items(plain(text).length);
    return byParts(text, change);
  },
];

/** @param {(left: number, pad: number) => number} share  of the padding that comes first @returns {TextMethod} */
const padding = (share) => [
  'width fill?',
  (text, [width, fill = ' '], meter) => {
    const length = lengthOf(plain(text), meter);
    const pad = Math.max(needWhole(width) - length, 0);
    if (Array.from(textOf(fill)).length !== 1) throw templateError('what fills a text up is not one character');
    meter.room(pad * plain(fill).length);
    const before = share(length + pad, pad);
    return concat([plain(fill).repeat(before), text, plain(fill).repeat(pad - before)]);
  },
];

/** @param {RegExp} pattern @param {RegExp} [unlike]  characters that Python judges by tables of its own @returns {TextMethod} */
const all = (pattern, unlike) => [
  '',
  (text, _, meter) => {
    meter.items(plain(text).length);
    if (unlike?.test(plain(text))) throw templateError('a test of characters that is not supported for these');
    return pattern.test(plain(text));
  },
];

/** @param {(text: string) => boolean} test @returns {TextMethod} */
const cased = (test) => [
  '',
  (text, _, meter) => {
    meter.items(plain(text).length);
    return /\p{Cased}/u.test(plain(text)) && test(plain(text));
  },
];

/** @param {boolean} last @returns {TextMethod} */
const parting = (last) => [
  'part',
  (text, [separator], meter) => {
    const [value, part] = [plain(text), textOf(separator)];
    if (!part) throw templateError('an empty separator');
    const [at] = (last ? placesFromRight : places)(value, part, meter, 1);
    if (at === undefined) return Tuple.from(last ? ['', '', text] : [text, '', '']);
    return Tuple.from([cut(text, 0, at), cut(text, at, at + part.length), cut(text, at + part.length)]);
  },
];

/** @typedef {[signature: string, call: (text: AnyText, values: any[], meter: Meter) => any]} TextMethod */

/** @type {Record<string, TextMethod>} */
const TEXT = {
  upper: changing((text) => text.toUpperCase()),
  lower: changing((text) => text.toLowerCase()),
  title: ['', (text, _, meter) => (meter.items(plain(text).length), marking(text, title(plain(text))))],
  capitalize: ['', (text, _, meter) => (meter.items(plain(text).length), marking(text, capitalize(plain(text))))],
  casefold: changing((text) => {
    if (!ASCII.test(text)) throw templateError('casefold of letters beyond ASCII, which is not supported');
    return text.toLowerCase();
  }),
  swapcase: changing((text) =>
    Array.from(text, (c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase())).join(''),
  ),
  strip: ['chars?', (text, [chars], meter) => strip(text, chars, meter)],
  lstrip: ['chars?', (text, [chars], meter) => strip(text, chars, meter, 'left')],
  rstrip: ['chars?', (text, [chars], meter) => strip(text, chars, meter, 'right')],
  startswith: beginsOrEnds((text, part) => text.startsWith(part)),
  endswith: beginsOrEnds((text, part) => text.endsWith(part)),
  split: ['/ sep? maxsplit?', (text, [sep, most], meter) => split(text, sep, most, meter)],
  rsplit: ['/ sep? maxsplit?', (text, [sep, most], meter) => split(text, sep, most, meter, true)],
  splitlines: ['/ keepends?', (text, [ends = false], meter) => linesOf(text, Boolean(needWhole(ends)), meter)],
  partition: parting(false),
  rpartition: parting(true),
  replace: [
    'from to / count?',
    (text, [from, to, most], meter) => (textOf(from), textOf(to), replaced(text, from, to, most, meter)),
  ],
  removeprefix: [
    'part',
    (text, [part], meter) => (
      meter.scan(textOf(part).length),
      plain(text).startsWith(plain(part)) ? cut(text, plain(part).length) : text
    ),
  ],
  removesuffix: [
    'part',
    (text, [part], meter) => (
      meter.scan(textOf(part).length),
      plain(part) && plain(text).endsWith(plain(part)) ? cut(text, 0, plain(text).length - plain(part).length) : text
    ),
  ],
  join: [
    'items',
    (text, [items], meter) =>
      glued(
        elements(items, meter).map((item) => (textOf(item), item)),
        text,
        meter,
      ),
  ],
  find: finding(false, false),
  rfind: finding(true, false),
  index: finding(false, true),
  rindex: finding(true, true),
  count: [
    'part start? end?',
    (text, [what, start, end], meter) => {
      const { part } = between(plain(text), start, end, meter);
      const wanted = textOf(what);
      if (part === null) return 0;
      return wanted ? places(part, wanted, meter).length : lengthOf(part, meter) + 1;
    },
  ],
  center: padding((width, pad) => Math.floor(pad / 2) + (pad & width & 1)),
  ljust: padding(() => 0),
  rjust: padding((_, pad) => pad),
  zfill: [
    'width',
    (text, [width], meter) => {
      const pad = Math.max(needWhole(width) - lengthOf(plain(text), meter), 0);
      meter.room(pad);
      const sign = /^[+-]/.test(plain(text)) ? 1 : 0;
      return concat([cut(text, 0, sign), '0'.repeat(pad), cut(text, sign)]);
    },
  ],
  isascii: all(ASCII),
  isdecimal: all(/^\p{Nd}+$/u),
  isdigit: all(/^\p{Nd}+$/u, /\p{No}/u),
  isnumeric: all(/^\p{N}+$/u, /\p{Lo}/u),
  isalpha: all(/^\p{L}+$/u),
  isalnum: all(/^[\p{L}\p{N}]+$/u),
  isspace: all(new RegExp(`^[${SPACE}]+$`)),
  isupper: cased((text) => text === text.toUpperCase()),
  islower: cased((text) => text === text.toLowerCase()),
};

/** Made of a text as a whole: a caller's if any of it is. @param {AnyText} text @param {string} value */
const marking = (text, value) => (isGiven(text) ? given(value) : value);

/** @param {any[]} items  texts @param {AnyText} glue @param {Meter} meter */
export function glued(items, glue, meter) {
  meter.items(items.length);
  return joined(
    items.flatMap((item, i) => (i ? [glue, item] : [item])),
    meter,
  );
}

/** `'{} and {name}'.format(…)`, with no more than names and numbers in the braces. @param {AnyText} text @param {Args} args @param {Meter} meter */
function format(text, { at, named }, meter) {
  const value = plain(text);
  meter.items(value.length);
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
    if (name === undefined) throw templateError('a format with more than a name in its braces is not supported');
    const digits = /^\d+$/.test(name);
    if (name === '' || digits) {
      if (numbered !== null && numbered !== digits) throw templateError('a format that counts, and that is numbered');
      numbered = digits;
    }
    const found = name === '' ? at[next++] : digits ? at[Number(name)] : named.get(name);
    if (found === undefined) throw templateError(`a format without a value for {${name}}`);
    parts.push(shown(found, meter));
  }
  parts.push(cut(text, done));
  return joined(parts, meter);
}

/** One value as `%…` writes it. @param {any} value @param {string} flags @param {number} width @param {number} precision  -1: none @param {string} kind @param {Meter} meter @returns {AnyText} */
function converted(value, flags, width, precision, kind, meter) {
  meter.items(16 * Math.max(precision, 0));
  if (flags.includes('#') || kind === 'a') throw templateError(`"%${flags}${kind}" in a text, which is not supported`);
  /** @type {AnyText} */
  let body;
  let sign = '';
  if (kind === 's' || kind === 'r') {
    body = kind === 's' ? shown(value, meter) : fromTexts(meter, () => repr(value, meter));
    if (precision >= 0) body = cut(body, 0, placeIn(plain(body), precision, meter));
  } else if (kind === 'c') {
    if (isText(value) ? lengthOf(plain(value), meter) !== 1 : typeof value !== 'number')
      throw templateError('"%c" of what is no character');
    body = isText(value) ? value : String.fromCodePoint(value);
  } else {
    if (!isNumber(value)) throw templateError(`"%${kind}" of a ${typeOf(defined(value))}`);
    const number = numberOf(value);
    const float = 'eEfFgG'.includes(kind);
    if (!float && value instanceof Float && ('xXo'.includes(kind) || !Number.isFinite(number)))
      throw templateError(`"%${kind}" of the number ${number}`);
    const negative = float ? number < 0 || Object.is(number, -0) : Math.trunc(number) < 0;
    sign = negative ? '-' : flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';
    const size = Math.abs(number);
    if (!Number.isFinite(number)) {
      if (flags.includes('0')) throw templateError('an infinite number with zeros in front');
      body = Number.isNaN(number) ? 'nan' : 'inf';
    } else if (float) body = written(size, kind.toLowerCase(), precision < 0 ? 6 : precision);
    else
      body = BigInt(Math.trunc(size))
        .toString(kind === 'o' ? 8 : 'xX'.includes(kind) ? 16 : 10)
        .padStart(precision, '0');
    if ('EFGX'.includes(kind)) body = plain(body).toUpperCase();
  }
  const pad = Math.max(width - sign.length - lengthOf(plain(body), meter), 0);
  meter.room(pad);
  if (flags.includes('-')) return concat([sign, body, ' '.repeat(pad)]);
  const zeros = flags.includes('0') && !'src'.includes(kind);
  return zeros ? concat([sign, '0'.repeat(pad), body]) : concat([' '.repeat(pad), sign, body]);
}

/** `text % values`. @param {AnyText} text @param {any} values @param {Meter} meter */
export function percent(text, values, meter) {
  const value = plain(text);
  meter.items(value.length);
  const all = values instanceof Tuple ? values : [values];
  /** @type {AnyText[]} */
  const parts = [];
  let [next, done] = [0, 0];
  for (const match of value.matchAll(/%(?:\(([^()]*)\))?([#0 +-]*)(\d*)(?:\.(\d*))?[hlL]?([^])?/g)) {
    const [whole, name, flags, width, precision, kind] = match;
    parts.push(cut(text, done, match.index));
    done = match.index + whole.length;
    if (kind === '%') {
      if (whole !== '%%') throw templateError(`${JSON.stringify(whole)} in a text, which is not supported`);
      parts.push('%');
      continue;
    }
    if (!kind || !'sdiuxXocrafFeEgG'.includes(kind))
      throw templateError(`${JSON.stringify(whole)} in a text, which is not supported`);
    let one;
    if (name === undefined) one = next < all.length ? all[next++] : undefined;
    else if (values instanceof Map) one = found(values, name);
    else throw templateError(`"%(${name})" needs a dict`);
    if (one === undefined) throw templateError(`"${whole}" without a value`);
    meter.spend();
    parts.push(converted(one, flags, Number(width), precision === undefined ? -1 : Number(precision), kind, meter));
  }
  if (next < all.length && !(values instanceof Map) && (values instanceof Tuple || !Array.isArray(values)))
    throw templateError('more values than the text has places for');
  parts.push(cut(text, done));
  return joined(parts, meter);
}

/** @type {Record<string, [string, (dict: Map<any, any>, values: any[], meter: Meter) => any]>} */
const DICT = {
  get: [
    'key otherwise?',
    (dict, [key, otherwise = null], meter) =>
      (meter.scan(textLength(key)), found(dict, key)) ?? (has(dict, key) ? null : otherwise),
  ],
  items: ['', (dict, _, meter) => (meter.items(16 * dict.size), View.make(entriesOf(dict), 'dict_items'))],
  keys: ['', (dict) => View.make(keysOf(dict), 'dict_keys')],
  values: ['', (dict) => View.make([...dict.values()], 'dict_values')],
  copy: ['', (dict, _, meter) => (meter.items(8 * dict.size), copied(dict))],
};

/** @param {Map<any, any>} dict @param {any} key */
export const has = (dict, key) => dict.has(keyOf(key)) || found(dict, key) !== undefined;

/** @param {Map<any, any>} dict */
export function copied(dict) {
  const copy = new Dict(dict);
  copy.given = dict instanceof Dict && dict.given;
  return copy;
}

/** @type {Record<string, [string, (list: any[], values: any[], meter: Meter) => any]>} */
const LIST = {
  index: [
    'value',
    (list, [value], meter) => {
      const i = list.findIndex((item) => equal(item, value, meter));
      if (i < 0) throw templateError('a value that is not in the list');
      return i;
    },
  ],
  count: ['value', (list, [value], meter) => Array.from(list).filter((item) => equal(item, value, meter)).length],
  copy: ['', (list) => [...list]],
};

const names = (/** @type {string} */ text) => text.split(' ');
/** What else Python's values have, which a template may not call or isn't supported. @type {Record<string, string[]>} */
const OTHERS = {
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
OTHERS.bool = OTHERS.int;
/** Of these what is no method. */
const VALUES = names('denominator imag mapping numerator real start step stop gi_code gi_frame gi_running');

/** A method, bound to its value. @param {any} value @param {any} given  its name @returns {((args: Args, meter: Meter) => any) | undefined} */
export function method(value, given) {
  const name = plain(given);
  if (typeof name !== 'string') return undefined;
  const type = typeOf(value);
  if (Object.hasOwn(OTHERS, type) && OTHERS[type].includes(name)) {
    const refuse = () => {
      throw templateError(`${type}.${name} is not supported in a chat template`);
    };
    return VALUES.includes(name) ? refuse() : refuse;
  }
  const what = `${type}.${name}`;
  if (type === 'str') {
    if (name === 'format') return (args, meter) => (unsafe(value, what), meter.text(format(value, args, meter)));
    if (!Object.hasOwn(TEXT, name)) return undefined;
    const [signature, call] = TEXT[name];
    return (args, meter) => {
      unsafe(value, what);
      meter.spend();
      const made = call(value, bound(what, args, signature), meter);
      return isText(made) ? meter.text(made) : made;
    };
  }
  const table = /** @type {Record<string, [string, any]>} */ (
    value instanceof Map ? DICT : type === 'list' || type === 'tuple' ? LIST : {}
  );
  if (!Object.hasOwn(table, name) || (type === 'tuple' && name === 'copy')) return undefined;
  const [signature, call] = table[name];
  return (args, meter) => {
    meter.items(value.size ?? value.length);
    return call(value, bound(what, args, signature), meter);
  };
}

/** @param {any} value @param {string} what */
function unsafe(value, what) {
  if (isSafe(value)) throw templateError(`${what} of a text that is marked as safe, which is not supported`);
}

/** @param {any[]} list @param {Meter} meter @param {{ by?: (item: any) => any, sensitive?: boolean, reverse?: boolean }} how */
export function sorted(list, meter, { by = (item) => item, sensitive = false, reverse = false }) {
  meter.items(list.length);
  const lower = folding(sensitive, meter);
  const keyed = Array.from(list, (item) => ({ item, key: lower(by(item)) }));
  if (keyed.some(({ key }) => key instanceof Undefined))
    throw templateError('sorting by what is undefined, which is not supported');
  const order = keyed.sort((a, b) => {
    const sign = reverse ? compare(b.key, a.key, meter) : compare(a.key, b.key, meter);
    if (Number.isNaN(sign)) throw templateError('a list that holds NaN can not be sorted');
    return sign;
  });
  return order.map(({ item }) => item);
}

/** What texts are compared by. @param {boolean} sensitive  to case @param {Meter} meter */
export const folding = (sensitive, meter) => (/** @type {any} */ key) => {
  if (!isText(key) || sensitive) return key;
  meter.items(plain(key).length);
  return plain(key).toLowerCase();
};

/** Python's `int` as the filter has it; `otherwise` where the value is not a number. @param {any} value @param {any} otherwise @param {Meter} meter */
export function wholeOf(value, otherwise, meter) {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  defined(value);
  let number = NaN;
  if (value instanceof Float) {
    number = Math.trunc(value.value);
    if (Math.abs(number) === Infinity) throw templateError('an infinite number as a whole one');
  } else if (isText(value)) {
    const text = plain(strip(value, null, meter));
    if (/^[+-]?\d+(_\d+)*$/.test(text)) number = Number(text.replaceAll('_', ''));
    else number = Math.trunc(floatOf(text).value);
  }
  if (!Number.isFinite(number)) return otherwise;
  if (Number.isSafeInteger(number)) return number + 0;
  throw templateError('a whole number beyond 2^53, which is not supported');
}
