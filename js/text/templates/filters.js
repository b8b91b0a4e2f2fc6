/**
 * Jinja's filters (`value | name`) and tests (`value is name`), by its documentation. Each has a signature (see
 * bindArguments) and a function.
 */
import { bindArguments } from './arguments.js';
import { formatPercent } from './format-text.js';
import { attribute, picker, extremeFilter, groupby, unique, sortItems } from './list-filters.js';
import { method } from './methods.js';
import { floatOf, roundNumber } from './numbers.js';
import { findFirst } from './search.js';
import { concat, callerText, hasCallerText, isSafe, isText, stringOf, withSafeMark } from './template-texts.js';
import {
  characterOf,
  escapeHtml,
  joinWith,
  lengthOf,
  linesOf,
  replaceText,
  strip,
  textLength,
} from './text-operations.js';
import {
  Callable,
  compare,
  requireDefined,
  elements,
  entriesOf,
  equal,
  Float,
  lookUp,
  trackCallerText,
  isNumber,
  json,
  keyOf,
  Lazy,
  requireInteger,
  requireNumber,
  requireText,
  numberOf,
  str,
  toText,
  templateError,
  isTrue,
  Tuple,
  typeOf,
  Undefined,
  View,
  checkInteger,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {import('./arguments.js').Args} Args */
/**
 * Services of the evaluator for filters. `member` returns `value[name]`.
 * @typedef {{ meter: Meter, member: (value: any, name: any) => any }} Host
 */
/** @typedef {(value: any, values: any[], host: Host) => any} Filter */

/**
 * Creates the filters select, selectattr, reject and rejectattr.
 * @param {boolean} keep  whether to keep or to remove the items that pass the test
 * @param {boolean} byAttribute @returns {(value: any, args: Args, host: Host) => any}
 */
const selectFilter =
  (keep, byAttribute) =>
  (value, { at, named }, host) => {
    if (named.size) throw templateError('select and reject take no named arguments');
    if (!isTrue(value)) return [];
    if (byAttribute && !at.length) throw templateError('selectattr and rejectattr expect the name of an attribute');
    const get = byAttribute ? attribute(at[0], host) : (/** @type {any} */ item) => item;
    const [name, ...args] = byAttribute ? at.slice(1) : at;
    const passes = (/** @type {any} */ item) =>
      name === undefined ? isTrue(item) : test(requireText(name), item, { at: args, named }, host.meter);
    return elements(value, host.meter).filter((item) => passes(get(item)) === keep);
  };

/**
 * Creates a filter that calls a method of texts. The result for a safe text is safe.
 * @param {string} name @returns {Filter}
 */
const textFilter =
  (name) =>
  (value, _, { meter }) => {
    const text = toText(value, meter);
    const call = /** @type {Function} */ (method(isSafe(text) ? withSafeMark(text, false) : text, name));
    const result = call({ at: [], named: new Map() }, meter);
    return isSafe(text) ? withSafeMark(result) : result;
  };

/** @param {any} value @param {Args} args @param {Host} host */
function map(value, { at, named }, host) {
  if (!at.length && named.has('attribute')) {
    const otherwise = named.get('default');
    for (const name of named.keys())
      if (name !== 'attribute' && name !== 'default') throw templateError(`map has no argument "${name}"`);
    const get = attribute(named.get('attribute'), host);
    return elements(value, host.meter).map((item) => {
      const result = get(item);
      return result instanceof Undefined && otherwise !== undefined && otherwise !== null ? otherwise : result;
    });
  }
  const [name, ...args] = at;
  return elements(value, host.meter).map((item) => applyFilter(requireText(name), item, { at: args, named }, host));
}

/** @type {Filter} */
function indent(value, [width = 4, first = false, blank = false], { meter }) {
  if (isSafe(value)) throw templateError('indent of safe strings is not supported');
  const space = isText(width) ? width : (meter.countOutput(requireInteger(width)), ' '.repeat(Math.max(width, 0)));
  // A line break at the end of the text begins another line, which linesOf does not return. So one is appended.
  const lines = linesOf(concat([requireText(value) && value, '\n']), false, meter);
  meter.countOutput(lines.length * stringOf(space).length);
  const parts = lines.flatMap((line, i) => {
    const indented = i > 0 && (isTrue(blank) || stringOf(line) !== '');
    return [...(i ? ['\n'] : []), ...(indented || (!i && isTrue(first)) ? [space] : []), line];
  });
  return concat(parts);
}

/** @type {Filter} */
function tojson(value, [ascii = false, wide = null, separators = null, sort = false], { meter }) {
  let space = null;
  if (isText(wide)) space = stringOf(wide);
  else if (wide !== null) {
    meter.countOutput(requireInteger(wide));
    if (wide < 0) throw templateError(`the indent of tojson must not be negative, found ${wide}`);
    space = ' '.repeat(Number(wide));
  }
  const [item, key] =
    separators === null ? [space === null ? ', ' : ',', ': '] : elements(separators, meter).map(requireText);
  return json(value, { indent: space, item, key: requireText(key), sort: isTrue(sort), ascii: isTrue(ascii) }, meter);
}

/** @type {Filter} */
const escape = (value, _, { meter }) => (isSafe(value) ? value : withSafeMark(escapeHtml(toText(value, meter), meter)));
/** @type {Filter} */
const otherwise = (value, [other = '', boolean = false]) =>
  value instanceof Undefined || (isTrue(boolean) && !isTrue(value)) ? other : value;
/** @type {Filter} */
const length = (value, _, { meter }) => {
  if (value instanceof Undefined) return 0;
  if (isText(value)) return lengthOf(stringOf(value), meter);
  if (value instanceof Map) return value.size;
  if (Array.isArray(value) && !(value instanceof Lazy)) return value.length;
  throw templateError(`a value of type ${typeOf(value)} has no length`);
};

/** Filters without a fixed signature. @type {Record<string, (value: any, args: Args, host: Host) => any>} */
const VARIADIC_FILTERS = {
  format: (value, { at, named }, { meter }) => {
    if (at.length && named.size) throw templateError('format takes either positional or named arguments, not both');
    return formatPercent(toText(value, meter), named.size ? named : Tuple.from(at), meter);
  },
  map,
  reject: selectFilter(false, false),
  rejectattr: selectFilter(false, true),
  select: selectFilter(true, false),
  selectattr: selectFilter(true, true),
};

/** @type {Record<string, [signature: string, filter: Filter]>} */
const FILTERS = {
  abs: ['/', (value) => (value instanceof Float ? new Float(Math.abs(value.value)) : Math.abs(requireNumber(value)))],
  attr: [
    '/ name',
    (value, [name], { member }) => {
      if (value instanceof Map) throw templateError('attr of a dict is not supported');
      return member(value, name);
    },
  ],
  batch: [
    '/ linecount fill_with?',
    (value, [count, fill = null], { meter }) => {
      const size = requireInteger(count);
      if (size < 1) throw templateError(`batch expects a size of at least 1, found ${size}`);
      const rows = [];
      const all = elements(value, meter);
      meter.countItems(all.length + (8 * all.length) / size);
      for (let i = 0; i < all.length; i += size) rows.push(all.slice(i, i + size));
      const last = rows.at(-1);
      meter.countItems(fill !== null && last ? size : 0);
      if (fill !== null && last) while (last.length < size) last.push(fill);
      return rows;
    },
  ],
  capitalize: ['', textFilter('capitalize')],
  count: ['', length],
  d: ['/ default_value? boolean?', otherwise],
  default: ['/ default_value? boolean?', otherwise],
  dictsort: [
    '/ case_sensitive? by? reverse?',
    (value, [sensitive = false, by = 'key', reverse = false], { meter }) => {
      if (!(value instanceof Map))
        throw templateError(`dictsort expects a dict, found a value of type ${typeOf(requireDefined(value))}`);
      meter.countItems(16 * value.size);
      const i = ['key', 'value'].indexOf(requireText(by));
      if (i < 0) throw templateError(`dictsort expects by="key" or by="value", found "${by}"`);
      return sortItems(entriesOf(value), meter, {
        by: (/** @type {any} */ pair) => pair[i],
        sensitive: isTrue(sensitive),
        reverse: isTrue(reverse),
      });
    },
  ],
  e: ['', escape],
  escape: ['', escape],
  first: [
    '',
    (value, _, { meter }) => {
      if (value instanceof Lazy) return value.length ? value.shift() : new Undefined('no first element');
      if (isText(value)) return characterOf(value, 0, meter) ?? new Undefined('no first element');
      return elements(value, meter)[0] ?? firstOf(value);
    },
  ],
  float: [
    '/ default?',
    (value, [other = new Float(0)], { meter }) => {
      if (isNumber(value)) return new Float(numberOf(value));
      if (!isText(requireDefined(value))) return other;
      meter.countItems(stringOf(value).length);
      const parsed = floatOf(stringOf(value));
      return parsed.isNumber ? new Float(parsed.value) : other;
    },
  ],
  forceescape: [
    '',
    (value, _, { meter }) => withSafeMark(escapeHtml(withSafeMark(toText(value, meter), false), meter)),
  ],
  groupby: ['/ attribute default? case_sensitive?', groupby],
  indent: ['/ width? first? blank?', indent],
  int: [
    '/ default? base?',
    (value, [other = 0, base = 10], { meter }) => {
      if (requireInteger(base) !== 10) throw templateError(`int with the base ${base} is not supported: only 10 is`);
      return toInteger(value, other, meter);
    },
  ],
  items: [
    '',
    (value, _, { meter }) => {
      if (value instanceof Undefined) return [];
      if (!(value instanceof Map)) throw templateError(`items expects a dict, found a value of type ${typeOf(value)}`);
      meter.countItems(16 * value.size);
      return entriesOf(value);
    },
  ],
  join: [
    '/ d? attribute?',
    (value, [glue = '', by], host) =>
      joinWith(
        elements(value, host.meter).map(picker(by, host)),
        withSafeMark(toText(glue, host.meter), false),
        host.meter,
      ),
  ],
  last: [
    '',
    (value, _, { meter }) => {
      if (value instanceof Lazy)
        throw templateError('last expects a list or a string, found a generator: use the filter list first');
      if (isText(value)) return characterOf(value, -1, meter) ?? new Undefined('no last element');
      const all = elements(value, meter);
      return all.length ? all.at(-1) : new Undefined('no last element');
    },
  ],
  length: ['', length],
  list: ['', (value, _, { meter }) => [...elements(value, meter)]],
  lower: ['', textFilter('lower')],
  max: ['/ case_sensitive? attribute?', extremeFilter((order) => order > 0)],
  min: ['/ case_sensitive? attribute?', extremeFilter((order) => order < 0)],
  replace: [
    '/ old new count?',
    (value, [from, to, most], { meter }) =>
      replaceText(
        toText(value, meter),
        toText(from, meter),
        withSafeMark(toText(to, meter), false),
        most ?? undefined,
        meter,
      ),
  ],
  reverse: [
    '',
    (value, _, { meter }) => {
      if (isText(value)) return concat(['', ...elements(value, meter).reverse()]);
      if (value instanceof Lazy || value instanceof Undefined)
        throw templateError(`can't reverse a value of type ${typeOf(value)}`);
      return [...elements(value, meter)].reverse();
    },
  ],
  round: [
    '/ precision? method?',
    (value, [precision = 0, how = 'common'], { meter }) => {
      meter.count(10);
      const [x, digits, kind] = [requireNumber(value), requireInteger(precision), requireText(how)];
      if (kind === 'common')
        return value instanceof Float
          ? new Float(roundNumber(x, digits))
          : checkInteger(roundNumber(x, Math.min(digits, 0)));
      if (kind !== 'ceil' && kind !== 'floor')
        throw templateError(`round expects the method common, ceil or floor, found "${kind}"`);
      if (Math.abs(digits) > 22)
        throw templateError(`round with the precision ${digits} is not supported: at most 22 is`);
      // Computed in floats as in Python, where 10 ** -2 is also a float.
      const scale = digits < 0 ? 1 / 10 ** -digits : 10 ** digits;
      const result = Math[kind](x * scale);
      return new Float((result + 0) / scale);
    },
  ],
  safe: ['', (value, _, { meter }) => withSafeMark(toText(value, meter))],
  sort: [
    '/ reverse? case_sensitive? attribute?',
    (value, [reverse = false, sensitive = false, by], host) => {
      if (isText(by) && stringOf(by).includes(',')) throw templateError('sort by several attributes is not supported');
      return sortItems(elements(value, host.meter), host.meter, {
        by: picker(by, host),
        sensitive: isTrue(sensitive),
        reverse: isTrue(reverse),
      });
    },
  ],
  string: ['', (value, _, { meter }) => toText(value, meter)],
  sum: [
    '/ attribute? start?',
    (value, [by, start = 0], host) => {
      const all = [start, ...elements(value, host.meter).map(picker(by, host))];
      const sum = all.reduce((a, b) => a + requireNumber(b), 0);
      return all.some((item) => item instanceof Float) ? new Float(sum) : checkInteger(sum);
    },
  ],
  title: [
    '',
    (value, _, { meter }) => {
      if (isSafe(value)) throw templateError('title of safe strings is not supported');
      const text = toText(value, meter);
      meter.countItems(stringOf(text).length);
      const result = stringOf(text).replace(/[^-\s({[<]+/g, (/** @type {string} */ word) => {
        const first = String.fromCodePoint(/** @type {number} */ (word.codePointAt(0)));
        return first.toUpperCase() + word.slice(first.length).toLowerCase();
      });
      return hasCallerText(text) ? callerText(result) : result;
    },
  ],
  tojson: ['/ ensure_ascii? indent? separators? sort_keys?', tojson],
  trim: [
    '/ chars?',
    (value, [chars], { meter }) => {
      const text = toText(value, meter);
      return withSafeMark(strip(text, chars, meter), isSafe(text));
    },
  ],
  unique: ['/ case_sensitive? attribute?', unique],
  upper: ['', textFilter('upper')],
  urlencode: [
    '',
    (value, _, { meter }) => {
      if (!isText(value) && !isNumber(value) && !(value instanceof Undefined))
        throw templateError(`urlencode of a value of type ${typeOf(value)} is not supported`);
      const text = str(value, meter);
      meter.countItems(text.length);
      return encodeURIComponent(text)
        .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
        .replaceAll('%2F', '/');
    },
  ],
  wordcount: [
    '',
    (value, _, { meter }) => {
      const text = str(value, meter);
      meter.countItems(text.length);
      return (text.match(/[\p{L}\p{N}_]+/gu) ?? []).length;
    },
  ],
};

/**
 * The filter int: converts a value to an integer, or returns `otherwise` if it is not a number.
 * @param {any} value @param {any} otherwise @param {Meter} meter
 */
function toInteger(value, otherwise, meter) {
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

/** @param {any} value */
const firstOf = (value) =>
  (Array.isArray(value) && value.length) || (value instanceof Map && value.size)
    ? null
    : new Undefined('no first element');

/** Filters whose result is a generator in Python. */
const LAZY = new Set(['batch', 'items', 'map', 'reject', 'rejectattr', 'reverse', 'select', 'selectattr', 'unique']);
/** Filters that are supported for safe texts. */
const FOR_SAFE_TEXTS = new Set(
  'capitalize count d default e escape first forceescape length list lower safe string tojson trim upper int float wordcount urlencode reverse'.split(
    ' ',
  ),
);

/** Filters and tests of jinja2 that are not supported. Using them is an error. */
const [UNSUPPORTED_FILTERS, UNSUPPORTED_TESTS] = [
  'center filesizeformat pprint random slice striptags truncate urlize wordwrap xmlattr',
  'filter test',
].map((names) => names.split(' '));
/** Whether jinja2 has a filter of this name. @param {string} name */
export const isFilter = (name) =>
  Object.hasOwn(FILTERS, name) || Object.hasOwn(VARIADIC_FILTERS, name) || UNSUPPORTED_FILTERS.includes(name);
/** Whether jinja2 has a test of this name. @param {string} name */
export const isTest = (name) =>
  Object.hasOwn(TESTS, name) || Object.hasOwn(TEST_ALIASES, name) || UNSUPPORTED_TESTS.includes(name);

/** Applies a filter. @param {string} name @param {any} value @param {Args} args @param {Host} host @returns {any} */
export function applyFilter(name, value, args, host) {
  const { meter } = host;
  meter.count();
  if (isSafe(value) && !FOR_SAFE_TEXTS.has(name))
    throw templateError(`the filter "${name}" is not supported for safe strings`);
  /** @type {() => any} */
  let run;
  if (Object.hasOwn(VARIADIC_FILTERS, name)) run = () => VARIADIC_FILTERS[name](value, args, host);
  else {
    if (!Object.hasOwn(FILTERS, name))
      throw templateError(isFilter(name) ? `the filter "${name}" is not supported` : `unknown filter "${name}"`);
    const [signature, filter] = FILTERS[name];
    const values = bindArguments(`the filter "${name}"`, args, signature);
    run = () => filter(value, values, host);
  }
  const result = trackCallerText(meter, run);
  if (isText(result)) return meter.countText(result);
  if (!Array.isArray(result)) return result;
  meter.countItems(result.length);
  return LAZY.has(name) ? Lazy.from(result) : result;
}

/** @param {any} value */
const isList = (value) =>
  isText(value) ||
  (Array.isArray(value) && !(value instanceof Lazy) && value.constructor !== Undefined) ||
  value instanceof Map;

/** @type {Record<string, [string, (value: any, values: any[], meter: Meter) => boolean]>} */
const TESTS = {
  boolean: ['', (value) => typeof value === 'boolean'],
  callable: ['', (value) => value instanceof Callable || value instanceof Undefined],
  defined: ['', (value) => !(value instanceof Undefined)],
  divisibleby: [
    '/ num',
    (value, [by]) => {
      if (requireNumber(by) === 0) throw templateError('division by zero');
      return requireNumber(value) % numberOf(by) === 0;
    },
  ],
  eq: ['other', (value, [other], meter) => equal(value, other, meter)],
  escaped: ['', (value) => isSafe(value)],
  even: ['', (value) => requireNumber(value) % 2 === 0],
  false: ['', (value) => value === false],
  filter: [
    '',
    (value) => {
      const name = requireText(value);
      if (Object.hasOwn(FILTERS, name) || Object.hasOwn(VARIADIC_FILTERS, name)) return true;
      throw templateError(`the test "filter" is not supported for "${name}"`);
    },
  ],
  float: ['', (value) => value instanceof Float],
  ge: ['other', (value, [other], meter) => compare(value, other, meter) >= 0],
  gt: ['other', (value, [other], meter) => compare(value, other, meter) > 0],
  in: ['/ seq', (value, [all], meter) => contains(all, value, meter)],
  integer: ['', (value) => ['number', 'bigint'].includes(typeof value)],
  iterable: ['', (value) => isList(value) || value instanceof Lazy || value instanceof Undefined],
  le: ['other', (value, [other], meter) => compare(value, other, meter) <= 0],
  lower: [
    '',
    (value, _, meter) => Boolean(/** @type {Function} */ (method(str(value, meter), 'islower'))(NO_ARGS, meter)),
  ],
  lt: ['other', (value, [other], meter) => compare(value, other, meter) < 0],
  mapping: ['', (value) => value instanceof Map],
  ne: ['other', (value, [other], meter) => !equal(value, other, meter)],
  none: ['', (value) => value === null],
  number: ['', isNumber],
  odd: ['', (value) => Math.abs(requireNumber(value) % 2) === 1],
  sameas: [
    '/ other',
    (value, [other]) => {
      if (value === null || other === null || typeof value === 'boolean' || typeof other === 'boolean')
        return value === other;
      throw templateError('the test "sameas" is supported for booleans and none only');
    },
  ],
  sequence: [
    '',
    (value) => (isList(value) && !(value instanceof View && value.kind !== 'range')) || value instanceof Undefined,
  ],
  string: ['', isText],
  true: ['', (value) => value === true],
  undefined: ['', (value) => value instanceof Undefined],
  upper: [
    '',
    (value, _, meter) => Boolean(/** @type {Function} */ (method(str(value, meter), 'isupper'))(NO_ARGS, meter)),
  ],
};
/** @type {Args} */
const NO_ARGS = { at: [], named: new Map() };
/** @type {Record<string, string>} */
const TEST_ALIASES = {
  '==': 'eq',
  equalto: 'eq',
  '!=': 'ne',
  '<': 'lt',
  lessthan: 'lt',
  '<=': 'le',
  '>': 'gt',
  greaterthan: 'gt',
  '>=': 'ge',
};

/**
 * Whether a value passes a test.
 * @param {string} name @param {any} value @param {Args} args @param {Meter} meter @returns {boolean}
 */
export function test(name, value, args, meter) {
  const key = Object.hasOwn(TEST_ALIASES, name) ? TEST_ALIASES[name] : name;
  if (!Object.hasOwn(TESTS, key))
    throw templateError(isTest(name) ? `the test "${name}" is not supported` : `unknown test "${name}"`);
  meter.count();
  const [signature, passes] = TESTS[key];
  return passes(value, bindArguments(`the test "${name}"`, args, signature), meter);
}

/** Evaluates `value in all`. @param {any} all @param {any} value @param {Meter} meter @returns {boolean} */
export function contains(all, value, meter) {
  if (isText(all)) return findFirst(stringOf(all), requireText(value), meter) >= 0;
  meter.countInput(textLength(value));
  if (all instanceof Map) return all.has(keyOf(value)) || lookUp(all, value) !== undefined;
  if (all instanceof Lazy) {
    while (all.length) if (equal(all.shift(), value, meter)) return true;
    return false;
  }
  if (all instanceof View && all.kind === 'dict_keys') keyOf(value);
  return elements(all, meter).some((item) => equal(item, value, meter));
}
