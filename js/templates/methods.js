/** Methods of texts, lists and dicts that a template may call: those of Python that change nothing. */
import {
  compare,
  defined,
  elements,
  equal,
  Float,
  isText,
  plain,
  repr,
  str,
  templateError,
  Tuple,
  typeOf,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** A call's arguments, the named ones by name. @typedef {{ at: any[], named: Map<string, any> }} Args */

/** @param {Args} args @param {number} i @param {string} name @param {any} otherwise @returns {any} */
export function argument({ at, named }, i, name, otherwise) {
  return i < at.length ? at[i] : named.has(name) ? named.get(name) : otherwise;
}

/** @param {any} value @returns {string} */
export function textOf(value) {
  if (isText(value)) return plain(value);
  throw templateError(`a ${typeOf(defined(value))} where a text belongs`);
}

// What Python calls white space, and JavaScript doesn't quite.
const SPACE = '[\\s\\x1c-\\x1f\\x85]';
const [LEADING, TRAILING] = [new RegExp(`^(?:(?!\\ufeff)${SPACE})+`), new RegExp(`(?:(?!\\ufeff)${SPACE})$`)];

/** @param {string} text @param {any} set  characters; None: white space @param {'both' | 'left' | 'right'} [side] */
export function strip(text, set, side = 'both') {
  const chars = set === null ? null : new Set(textOf(set));
  /** @param {string} c @param {RegExp} space */
  const goes = (c, space) => (chars ? chars.has(c) : space.test(c));
  const all = chars ? Array.from(text) : text;
  let [start, end] = [0, all.length];
  while (side !== 'right' && start < end && goes(all[start], LEADING)) start++;
  while (side !== 'left' && end > start && goes(all[end - 1], TRAILING)) end--;
  return typeof all === 'string' ? all.slice(start, end) : all.slice(start, end).join('');
}

/** @param {string} text @param {any} separator @param {number} most @param {boolean} [fromRight] @returns {string[]} */
function split(text, separator, most, fromRight = false) {
  const parts =
    separator === null ? text.split(new RegExp(`${SPACE}+`)).filter(Boolean) : text.split(textOf(separator));
  if (separator !== null && separator === '') throw templateError('an empty separator');
  if (most < 0 || parts.length <= most + 1) return parts;
  if (separator === null) {
    const ends = fromRight ? strip(text, null, 'right') : strip(text, null, 'left');
    const word = fromRight ? new RegExp(`^([^]*?)${SPACE}+(\\S+)$`) : new RegExp(`^(\\S+)${SPACE}+([^]*)$`);
    if (most === 0) return [ends];
    const [, a, b] = /** @type {RegExpExecArray} */ (word.exec(ends));
    return fromRight ? [...split(a, null, most - 1, true), b] : [a, ...split(b, null, most - 1)];
  }
  const glue = textOf(separator);
  return fromRight
    ? [parts.slice(0, -most || undefined).join(glue), ...(most ? parts.slice(-most) : [])]
    : [...parts.slice(0, most), parts.slice(most).join(glue)];
}

/** @param {string} text @param {string} from @param {string} to @param {number} most @param {Meter} meter */
export function replaced(text, from, to, most, meter) {
  if (from === '')
    return most < 0
      ? to +
          Array.from(text)
            .map((c) => c + to)
            .join('')
      : text;
  const parts = most < 0 ? text.split(from) : split(text, from, most);
  meter.room(text.length + (parts.length - 1) * to.length);
  return parts.join(to);
}

/** @param {string} text @param {any} what  a text or a tuple of them @param {(text: string, part: string) => boolean} test */
const anyOf = (text, what, test) => (Array.isArray(what) ? what : [what]).some((part) => test(text, textOf(part)));

/** @param {string} text */
const title = (text) => text.toLowerCase().replace(/\p{L}+/gu, (word) => word.replace(/^./u, (c) => c.toUpperCase()));
/** @param {string} text */
const capitalized = (text) => text.toLowerCase().replace(/^./u, (c) => c.toUpperCase());

/** `'{} and {name}'.format(…)`, with no more than names and numbers in the braces. @param {string} text @param {Args} args @param {Meter} meter */
function format(text, { at, named }, meter) {
  let next = 0;
  return text.replace(/\{\{|\}\}|\{(\w*)\}|[{}]/g, (all, name) => {
    if (all === '{{' || all === '}}') return all[0];
    if (name === undefined) throw templateError('a format that is not understood');
    const value = name === '' ? at[next++] : /^\d+$/.test(name) ? at[Number(name)] : named.get(name);
    if (value === undefined) throw templateError(`a format without a value for {${name}}`);
    return str(value, meter);
  });
}

/** `text % values`. @param {string} text @param {any} values @param {Meter} meter */
export function percent(text, values, meter) {
  const all = values instanceof Tuple ? values : [values];
  let next = 0;
  const made = text.replace(/%(?:\((\w+)\))?([a-z%])/g, (_, name, kind) => {
    if (kind === '%') return '%';
    const value = name ? values.get?.(name) : all[next++];
    if (value === undefined || !'sdr'.includes(kind))
      throw templateError(`"%${kind}" without a value, or of a kind that is not understood`);
    return kind === 'r' ? repr(value, meter) : str(value, meter);
  });
  return meter.text(made);
}

/** @param {RegExp} pattern @returns {(text: string) => boolean} */
const all = (pattern) => (text) => pattern.test(text);

/** @type {Record<string, (text: string, args: Args, meter: Meter) => any>} */
const TEXT = {
  upper: (text) => text.toUpperCase(),
  lower: (text) => text.toLowerCase(),
  casefold: (text) => text.toLowerCase(),
  title,
  capitalize: capitalized,
  swapcase: (text) => Array.from(text, (c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase())).join(''),
  strip: (text, args) => strip(text, argument(args, 0, 'chars', null)),
  lstrip: (text, args) => strip(text, argument(args, 0, 'chars', null), 'left'),
  rstrip: (text, args) => strip(text, argument(args, 0, 'chars', null), 'right'),
  startswith: (text, { at }) => anyOf(text, at[0], (a, b) => a.startsWith(b)),
  endswith: (text, { at }) => anyOf(text, at[0], (a, b) => a.endsWith(b)),
  split: (text, args) => split(text, argument(args, 0, 'sep', null), argument(args, 1, 'maxsplit', -1)),
  rsplit: (text, args) => split(text, argument(args, 0, 'sep', null), argument(args, 1, 'maxsplit', -1), true),
  splitlines: (text) =>
    text
      .replace(/\r\n|\n$|\r$/g, (end) => (end === '\r\n' ? '\n' : ''))
      .split(/[\n\r]/)
      .filter((line, i, { length }) => line || i < length - 1),
  partition: (text, { at }) => {
    const i = text.indexOf(textOf(at[0]));
    return Tuple.from(i < 0 ? [text, '', ''] : [text.slice(0, i), at[0], text.slice(i + at[0].length)]);
  },
  rpartition: (text, { at }) => {
    const i = text.lastIndexOf(textOf(at[0]));
    return Tuple.from(i < 0 ? ['', '', text] : [text.slice(0, i), at[0], text.slice(i + at[0].length)]);
  },
  replace: (text, args, meter) =>
    replaced(text, textOf(args.at[0]), textOf(args.at[1]), argument(args, 2, 'count', -1), meter),
  removeprefix: (text, { at }) => (text.startsWith(textOf(at[0])) ? text.slice(at[0].length) : text),
  removesuffix: (text, { at }) => (at[0] && text.endsWith(textOf(at[0])) ? text.slice(0, -at[0].length) : text),
  join: (text, { at }, meter) =>
    elements(at[0])
      .map((item) => meter.text(textOf(item)))
      .join(text),
  find: (text, { at }) =>
    Array.from(text.slice(0, text.indexOf(textOf(at[0])))).length * (text.includes(at[0]) ? 1 : 0) -
    (text.includes(at[0]) ? 0 : 1),
  count: (text, { at }) => text.split(textOf(at[0])).length - 1,
  format,
  isdigit: all(/^\p{Nd}+$/u),
  isnumeric: all(/^\p{N}+$/u),
  isalpha: all(/^\p{L}+$/u),
  isalnum: all(/^[\p{L}\p{N}]+$/u),
  isspace: all(new RegExp(`^${SPACE}+$`)),
  isupper: (text) => text !== text.toLowerCase() && text === text.toUpperCase(),
  islower: (text) => text !== text.toUpperCase() && text === text.toLowerCase(),
  zfill: (text, { at }, meter) => (meter.room(at[0]), text.padStart(at[0], '0')),
};

/** @type {Record<string, (dict: Map<any, any>, args: Args) => any>} */
const DICT = {
  get: (dict, { at, named }) =>
    dict.has(plain(at[0])) ? dict.get(plain(at[0])) : (at[1] ?? named.get('default') ?? null),
  items: (dict) => [...dict].map((entry) => Tuple.from(entry)),
  keys: (dict) => [...dict.keys()],
  values: (dict) => [...dict.values()],
  copy: (dict) => new Map(dict),
};

/** @type {Record<string, (list: any[], args: Args, meter: Meter) => any>} */
const LIST = {
  index: (list, { at }, meter) => {
    const i = list.findIndex((item) => equal(item, at[0], meter));
    if (i < 0) throw templateError('a value that is not in the list');
    return i;
  },
  count: (list, { at }, meter) => list.filter((item) => equal(item, at[0], meter)).length,
  copy: (list) => [...list],
};

/** Python has them; a template may not change what it was given. */
const CHANGING = [
  'append',
  'extend',
  'insert',
  'pop',
  'remove',
  'reverse',
  'sort',
  'clear',
  'update',
  'setdefault',
  'popitem',
];

/** @param {any} value @param {string} name @returns {((args: Args, meter: Meter) => any) | undefined} bound to the value */
export function method(value, name) {
  /** @type {Record<string, (value: any, args: Args, meter: Meter) => any>} */
  const table = isText(value) ? TEXT : value instanceof Map ? DICT : Array.isArray(value) ? LIST : {};
  if (Object.hasOwn(table, name)) {
    return (args, meter) => {
      if (isText(value)) meter.spend(1 + (plain(value).length >> 6));
      else meter.spend(1 + ((value.size ?? value.length) >> 6));
      const made = table[name](plain(value), args, meter);
      return typeof made === 'string' ? meter.text(made) : made;
    };
  }
  if (typeof value === 'object' && CHANGING.includes(name) && table !== TEXT) {
    return () => {
      throw templateError(`a template may not call ${typeOf(value)}.${name}`);
    };
  }
  return undefined;
}

/** @param {any[]} list @param {Meter} meter @param {{ by?: (item: any) => any, sensitive?: boolean, reverse?: boolean }} how */
export function sorted(list, meter, { by = (item) => item, sensitive = false, reverse = false }) {
  const lower = (/** @type {any} */ key) => (isText(key) && !sensitive ? plain(key).toLowerCase() : key);
  const order = list
    .map((item) => ({ item, key: lower(by(item)) }))
    .sort((a, b) => (reverse ? compare(b.key, a.key, meter) : compare(a.key, b.key, meter)));
  return order.map(({ item }) => item);
}

/** @param {any} value @param {number} otherwise */
export const wholeOf = (value, otherwise) => {
  const number =
    value instanceof Float
      ? value.value
      : isText(value)
        ? Number(plain(value).trim() || NaN)
        : typeof value === 'boolean' || typeof value === 'number'
          ? Number(value)
          : NaN;
  return Number.isFinite(number) ? Math.trunc(number) : otherwise;
};
