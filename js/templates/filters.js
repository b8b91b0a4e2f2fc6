/** Jinja's filters and tests, as its documentation has them. */
import { argument, percent, replaced, sorted, strip, textOf, wholeOf, method } from './methods.js';
import {
  compare,
  defined,
  elements,
  equal,
  Float,
  isNumber,
  isText,
  json,
  Lazy,
  numberOf,
  plain,
  Safe,
  str,
  templateError,
  truth,
  Tuple,
  typeOf,
  Undefined,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {import('./methods.js').Args} Args */
/** What a filter may ask of the evaluator. @typedef {{ meter: Meter, member: (value: any, name: any) => any }} Host */

/** @param {any} value  an attribute's name, or a path of them @param {Host} host @returns {(item: any) => any} */
function attribute(value, { member }) {
  const parts =
    typeof value === 'number'
      ? [value]
      : textOf(value)
          .split('.')
          .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return (item) => parts.reduce(member, item);
}

/** @param {any[]} at  a test's name and its arguments; none: whether it is true @returns {(value: any, meter: Meter) => boolean} */
function tester([name, ...rest]) {
  return name === undefined ? truth : (value, meter) => test(textOf(name), value, rest, meter);
}

/** @param {boolean} keep @param {boolean} byAttribute @returns {Filter} */
const selecting =
  (keep, byAttribute) =>
  (value, { at }, host) => {
    if (!truth(value)) return [];
    const get = byAttribute ? attribute(at[0], host) : (/** @type {any} */ item) => item;
    const passes = tester(byAttribute ? at.slice(1) : at);
    return elements(value).filter((item) => passes(get(item), host.meter) === keep);
  };

/** @param {string} name @returns {Filter} the method of a text */
const textMethod =
  (name) =>
  (value, args, { meter }) =>
    /** @type {Function} */ (method(str(value, meter), name))(args, meter);

/** @param {(a: number) => boolean} wins @returns {Filter} */
const extreme = (wins) => (value, args, host) => {
  const by = argument(args, 1, 'attribute', null);
  const get = by === null ? (/** @type {any} */ item) => item : attribute(by, host);
  const all = elements(value);
  return all.length
    ? all.reduce((a, b) => (wins(compare(get(b), get(a), host.meter)) ? b : a))
    : new Undefined('no element');
};

/** @type {Filter} */
function map(value, args, host) {
  const by = args.named.get('attribute');
  if (by !== undefined) {
    const otherwise = args.named.get('default');
    const get = attribute(by, host);
    return elements(value).map((item) => {
      const got = get(item);
      return got instanceof Undefined && otherwise !== undefined ? otherwise : got;
    });
  }
  const [name, ...rest] = args.at;
  return elements(value).map((item) => applyFilter(textOf(name), item, { at: rest, named: args.named }, host));
}

/** @type {Filter} */
function indent(value, args, { meter }) {
  const [width, first, blank] = [
    argument(args, 0, 'width', 4),
    argument(args, 1, 'first', false),
    argument(args, 2, 'blank', false),
  ];
  if (!isText(width)) meter.room(width);
  const space = isText(width) ? plain(width) : ' '.repeat(width);
  const lines = textOf(value).split(/\r\n|[\n\r]/);
  meter.room(lines.length * space.length);
  return lines.map((line, i) => ((i ? blank || line : first) ? space + line : line)).join('\n');
}

/** @type {Filter} */
function tojson(value, args, { meter }) {
  const wide = argument(args, 1, 'indent', null) ?? 0;
  const space = isText(wide) ? plain(wide) : (meter.room(wide), ' '.repeat(wide));
  const [item, key] = argument(args, 2, 'separators', null) ?? [space ? ',' : ', ', ': '];
  return json(
    value,
    {
      indent: space,
      item,
      key,
      sort: truth(argument(args, 3, 'sort_keys', false)),
      ascii: truth(argument(args, 0, 'ensure_ascii', false)),
    },
    meter,
  );
}

/** @type {Filter} */
function groupby(value, args, host) {
  const get = attribute(argument(args, 0, 'attribute', ''), host);
  /** @type {[any, any[]][]} */
  const groups = [];
  for (const item of sorted(elements(value), host.meter, { by: get })) {
    const last = groups.at(-1);
    if (last && equal(last[0], get(item), host.meter)) last[1].push(item);
    else groups.push([get(item), [item]]);
  }
  return groups.map(([grouper, list]) =>
    Object.assign(Tuple.from([grouper, list]), {
      names: new Map([
        ['grouper', grouper],
        ['list', list],
      ]),
    }),
  );
}

/** @type {Filter} */
function unique(value, args, { meter }) {
  /** @type {Set<any>} */
  const seen = new Set();
  return elements(value).filter((item) => {
    const key = isText(item)
      ? plain(item).toLowerCase()
      : isNumber(item)
        ? numberOf(item)
        : json(item, { indent: '', item: ',', key: ':', sort: true, ascii: false }, meter);
    return !seen.has(key) && seen.add(key);
  });
}

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };
/** @param {string} text */
export const escaped = (text) => text.replace(/[&<>"']/g, (c) => ENTITIES[/** @type {keyof typeof ENTITIES} */ (c)]);

/** @type {Filter} */
const escape = (value, args, { meter }) => (value instanceof Safe ? value : new Safe(escaped(str(value, meter))));
/** @type {Filter} */
const otherwise = (value, args) =>
  value instanceof Undefined || (truth(argument(args, 1, 'boolean', false)) && !truth(value))
    ? argument(args, 0, 'default_value', '')
    : value;
/** @type {Filter} */
const length = (value) => {
  if (value instanceof Undefined) return 0;
  if (value === null || isNumber(value) || value instanceof Lazy)
    throw templateError(`a ${typeOf(value)} has no length`);
  return value instanceof Map ? value.size : elements(value).length;
};

/** @typedef {(value: any, args: Args, host: Host) => any} Filter */
/** @type {Record<string, Filter>} */
const FILTERS = {
  abs: (value) => (value instanceof Float ? new Float(Math.abs(value.value)) : Math.abs(numberOf(value))),
  attr: (value, { at }, { member }) => member(value, at[0]),
  batch: (value, { at }) =>
    elements(value).reduce((rows, item, i) => (i % at[0] ? rows.at(-1).push(item) : rows.push([item]), rows), []),
  capitalize: textMethod('capitalize'),
  count: length,
  d: otherwise,
  default: otherwise,
  dictsort: (value, args, { meter }) => {
    const i = argument(args, 1, 'by', 'key') === 'value' ? 1 : 0;
    const how = {
      by: (/** @type {any} */ pair) => pair[i],
      sensitive: truth(argument(args, 0, 'case_sensitive', false)),
      reverse: truth(argument(args, 2, 'reverse', false)),
    };
    return sorted(
      [...value].map((entry) => Tuple.from(entry)),
      meter,
      how,
    );
  },
  e: escape,
  escape,
  first: (value) => elements(value)[0] ?? new Undefined('no first element'),
  float: (value, args) => {
    const number = isNumber(value)
      ? numberOf(value)
      : isText(value) && plain(value).trim()
        ? Number(plain(value))
        : NaN;
    const other = argument(args, 0, 'default', new Float(0));
    return Number.isNaN(number) ? other : new Float(number);
  },
  forceescape: (value, args, { meter }) => new Safe(escaped(str(value, meter))),
  format: (value, { at, named }, { meter }) => percent(textOf(value), named.size ? named : Tuple.from(at), meter),
  groupby,
  indent,
  int: (value, args) => wholeOf(value, argument(args, 0, 'default', 0)),
  items: (value) => (value instanceof Undefined ? [] : itemsOf(value)),
  join: (value, args, host) => {
    const by = argument(args, 1, 'attribute', null);
    const all = elements(value).map(by === null ? (item) => item : attribute(by, host));
    const glue = str(argument(args, 0, 'd', ''), host.meter);
    const texts = all.map((item) => str(item, host.meter));
    host.meter.room(texts.reduce((sum, text) => sum + text.length + glue.length, 0));
    return texts.join(glue);
  },
  last: (value) => elements(value).at(-1) ?? new Undefined('no last element'),
  length,
  list: (value) => [...elements(value)],
  lower: textMethod('lower'),
  map,
  max: extreme((order) => order > 0),
  min: extreme((order) => order < 0),
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  replace: (value, args, { meter }) =>
    replaced(str(value, meter), textOf(args.at[0]), textOf(args.at[1]), argument(args, 2, 'count', -1), meter),
  reverse: (value) => (isText(value) ? Array.from(plain(value)).reverse().join('') : [...elements(value)].reverse()),
  round: (value, args) => {
    const [digits, how] = [10 ** argument(args, 0, 'precision', 0), argument(args, 1, 'method', 'common')];
    const x = numberOf(value) * digits;
    const even = Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x);
    return new Float((how === 'ceil' ? Math.ceil(x) : how === 'floor' ? Math.floor(x) : even) / digits);
  },
  safe: (value, args, { meter }) => new Safe(str(value, meter)),
  select: selecting(true, false),
  selectattr: selecting(true, true),
  sort: (value, args, host) => {
    const by = argument(args, 2, 'attribute', null);
    const how = {
      sensitive: truth(argument(args, 1, 'case_sensitive', false)),
      reverse: truth(argument(args, 0, 'reverse', false)),
    };
    return sorted(elements(value), host.meter, by === null ? how : { ...how, by: attribute(by, host) });
  },
  string: (value, args, { meter }) => str(value, meter),
  sum: (value, args, host) => {
    const by = argument(args, 0, 'attribute', null);
    const all = elements(value).map(by === null ? (item) => item : attribute(by, host));
    const sum = all.reduce((a, b) => a + numberOf(b), numberOf(argument(args, 1, 'start', 0)));
    return all.some((item) => item instanceof Float) ? new Float(sum) : sum;
  },
  title: (value, args, { meter }) =>
    meter.text(
      str(value, meter)
        .toLowerCase()
        .replace(/[^-\s({[<]+/g, (word) => word.replace(/^./u, (c) => c.toUpperCase())),
    ),
  tojson,
  trim: (value, args, { meter }) => strip(str(value, meter), argument(args, 0, 'chars', null)),
  unique,
  upper: textMethod('upper'),
  urlencode: (value, args, { meter }) =>
    encodeURIComponent(str(value, meter))
      .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
      .replaceAll('%2F', '/'),
  wordcount: (value) => (textOf(value).match(/[\p{L}\p{N}_]+/gu) ?? []).length,
};

/** Of these Python gives a generator. */
const LAZY = new Set(['batch', 'items', 'map', 'reject', 'rejectattr', 'reverse', 'select', 'selectattr', 'unique']);

/** @param {any} value */
function itemsOf(value) {
  if (value instanceof Map) return [...value].map((entry) => Tuple.from(entry));
  throw templateError(`a ${typeOf(value)} has no items`);
}

/** @param {string} name @param {any} value @param {Args} args @param {Host} host @returns {any} */
export function applyFilter(name, value, args, host) {
  if (!Object.hasOwn(FILTERS, name)) throw templateError(`a filter "${name}" that is not known`);
  const { meter } = host;
  meter.spend(1 + (((isText(value) ? plain(value) : value)?.length ?? 0) >> 6));
  const got = FILTERS[name](value, args, host);
  const made = LAZY.has(name) && Array.isArray(got) ? Lazy.from(got) : got;
  if (typeof made === 'string') meter.text(made);
  else if (Array.isArray(made)) meter.room(made.length);
  return made;
}

/** @param {any} value */
const whole = (value) => typeof value === 'number';

/** @type {Record<string, (value: any, rest: any[], meter: Meter) => boolean>} */
const TESTS = {
  boolean: (value) => typeof value === 'boolean',
  callable: (value) => typeof value === 'function',
  defined: (value) => !(value instanceof Undefined),
  divisibleby: (value, [by]) => numberOf(value) % numberOf(by) === 0,
  eq: (value, [other], meter) => equal(value, other, meter),
  escaped: (value) => value instanceof Safe,
  even: (value) => numberOf(defined(value)) % 2 === 0,
  false: (value) => value === false,
  float: (value) => value instanceof Float,
  ge: (value, [other], meter) => compare(value, other, meter) >= 0,
  gt: (value, [other], meter) => compare(value, other, meter) > 0,
  in: (value, [all], meter) => contains(all, value, meter),
  integer: whole,
  iterable: (value) => isText(value) || Array.isArray(value) || value instanceof Map || value instanceof Undefined,
  le: (value, [other], meter) => compare(value, other, meter) <= 0,
  lower: (value, _, meter) =>
    str(value, meter) !== str(value, meter).toUpperCase() && str(value, meter) === str(value, meter).toLowerCase(),
  lt: (value, [other], meter) => compare(value, other, meter) < 0,
  mapping: (value) => value instanceof Map,
  ne: (value, [other], meter) => !equal(value, other, meter),
  none: (value) => value === null,
  number: isNumber,
  odd: (value) => Math.abs(numberOf(defined(value)) % 2) === 1,
  sameas: (value, [other]) => value === other,
  sequence: (value) => isText(value) || Array.isArray(value) || value instanceof Map || value instanceof Undefined,
  string: isText,
  true: (value) => value === true,
  undefined: (value) => value instanceof Undefined,
  upper: (value, _, meter) =>
    str(value, meter) !== str(value, meter).toLowerCase() && str(value, meter) === str(value, meter).toUpperCase(),
};
/** @type {Record<string, string>} */
const OTHER_NAMES = {
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

/** @param {string} given @param {any} value @param {any[]} rest @param {Meter} meter @returns {boolean} */
export function test(given, value, rest, meter) {
  const name = OTHER_NAMES[given] ?? given;
  if (!Object.hasOwn(TESTS, name)) throw templateError(`a test "${given}" that is not known`);
  meter.spend();
  return TESTS[name](value, rest, meter);
}

/** `value in all`. @param {any} all @param {any} value @param {Meter} meter @returns {boolean} */
export function contains(all, value, meter) {
  if (isText(all)) {
    meter.spend(1 + (plain(all).length >> 6));
    return plain(all).includes(textOf(value));
  }
  if (all instanceof Map) return all.has(plain(value));
  return elements(all).some((item) => equal(item, value, meter));
}
