/** Jinja's filters and tests, as its documentation has them. */
import {
  bound,
  characterOf,
  folding,
  glued,
  lengthOf,
  linesOf,
  method,
  percent,
  replaced,
  sorted,
  strip,
  textLength,
  textOf,
  wholeOf,
} from './methods.js';
import { floatOf, rounded } from './numbers.js';
import { placeOf } from './search.js';
import { concat, given, isGiven, isSafe, isText, marked, plain } from './template-texts.js';
import {
  Callable,
  compare,
  defined,
  elements,
  entriesOf,
  equal,
  Float,
  found,
  fromTexts,
  isNumber,
  json,
  keyOf,
  Lazy,
  needNumber,
  needWhole,
  numberOf,
  shown,
  str,
  templateError,
  truth,
  Tuple,
  typeOf,
  Undefined,
  View,
  whole,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {import('./methods.js').Args} Args */
/** What a filter may ask of the evaluator. @typedef {{ meter: Meter, member: (value: any, name: any) => any }} Host */
/** @typedef {(value: any, values: any[], host: Host) => any} Filter */

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

/** By an attribute, or itself. @param {any} name @param {Host} host @returns {(item: any) => any} */
const picker = (name, host) => (name == null ? (item) => item : attribute(name, host));

/** @param {boolean} keep @param {boolean} byAttribute @returns {(value: any, args: Args, host: Host) => any} */
const selecting =
  (keep, byAttribute) =>
  (value, { at, named }, host) => {
    if (named.size) throw templateError('a filter that selects has no named arguments');
    if (!truth(value)) return [];
    if (byAttribute && !at.length) throw templateError('an attribute is missing');
    const get = byAttribute ? attribute(at[0], host) : (/** @type {any} */ item) => item;
    const [name, ...rest] = byAttribute ? at.slice(1) : at;
    const passes = (/** @type {any} */ item) =>
      name === undefined ? truth(item) : test(textOf(name), item, { at: rest, named }, host.meter);
    return elements(value, host.meter).filter((item) => passes(get(item)) === keep);
  };

/** The method of a text; a text marked as safe stays so. @param {string} name @returns {Filter} */
const textMethod =
  (name) =>
  (value, _, { meter }) => {
    const text = shown(value, meter);
    const call = /** @type {Function} */ (method(isSafe(text) ? marked(text, false) : text, name));
    const made = call({ at: [], named: new Map() }, meter);
    return isSafe(text) ? marked(made) : made;
  };

/** @param {(a: number) => boolean} wins @returns {Filter} */
const extreme =
  (wins) =>
  (value, [sensitive = false, by], host) => {
    const get = picker(by, host);
    const fold = folding(truth(sensitive), host.meter);
    const all = elements(value, host.meter).map((item) => ({ item, key: fold(get(item)) }));
    if (!all.length) return new Undefined('no element');
    return all.reduce((a, b) => (wins(compare(b.key, a.key, host.meter)) ? b : a)).item;
  };

/** @param {any} value @param {Args} args @param {Host} host */
function map(value, { at, named }, host) {
  if (!at.length && named.has('attribute')) {
    const otherwise = named.get('default');
    for (const name of named.keys())
      if (name !== 'attribute' && name !== 'default') throw templateError(`map has no argument "${name}"`);
    const get = attribute(named.get('attribute'), host);
    return elements(value, host.meter).map((item) => {
      const got = get(item);
      return got instanceof Undefined && otherwise !== undefined && otherwise !== null ? otherwise : got;
    });
  }
  const [name, ...rest] = at;
  return elements(value, host.meter).map((item) => applyFilter(textOf(name), item, { at: rest, named }, host));
}

/** @type {Filter} */
function indent(value, [width = 4, first = false, blank = false], { meter }) {
  if (isSafe(value)) throw templateError('indent of a text that is marked as safe, which is not supported');
  const space = isText(width) ? width : (meter.room(needWhole(width)), ' '.repeat(Math.max(width, 0)));
  // A line's end at the text's end begins another line.
  const lines = linesOf(concat([textOf(value) && value, '\n']), false, meter);
  meter.room(lines.length * plain(space).length);
  const parts = lines.flatMap((line, i) => {
    const indented = i > 0 && (truth(blank) || plain(line) !== '');
    return [...(i ? ['\n'] : []), ...(indented || (!i && truth(first)) ? [space] : []), line];
  });
  return concat(parts);
}

/** @type {Filter} */
function tojson(value, [ascii = false, wide = null, separators = null, sort = false], { meter }) {
  let space = null;
  if (isText(wide)) space = plain(wide);
  else if (wide !== null) {
    meter.room(needWhole(wide));
    if (wide < 0) throw templateError('a negative indent');
    space = ' '.repeat(Number(wide));
  }
  const [item, key] =
    separators === null ? [space === null ? ', ' : ',', ': '] : elements(separators, meter).map(textOf);
  return json(value, { indent: space, item, key: textOf(key), sort: truth(sort), ascii: truth(ascii) }, meter);
}

/** @type {Filter} */
function groupby(value, [name, otherwise, sensitive = false], host) {
  const attributeOf = attribute(name, host);
  const get = (/** @type {any} */ item) => {
    const got = attributeOf(item);
    return got instanceof Undefined && otherwise != null ? otherwise : got;
  };
  const fold = folding(truth(sensitive), host.meter);
  /** @type {[any, any[]][]} */
  const groups = [];
  for (const item of sorted(elements(value, host.meter), host.meter, { by: get, sensitive: truth(sensitive) })) {
    const last = groups.at(-1);
    if (last && equal(fold(last[0]), fold(get(item)), host.meter)) last[1].push(item);
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
function unique(value, [sensitive = false, by], host) {
  const get = picker(by, host);
  const fold = folding(truth(sensitive), host.meter);
  const seen = new Set();
  return elements(value, host.meter).filter((item) => {
    const picked = plain(fold(get(item)));
    host.meter.scan(textLength(picked));
    const key = isNumber(picked) ? numberOf(picked) : keyOf(picked);
    return !seen.has(key) && seen.add(key);
  });
}

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };
/** @param {string} text */
const entities = (text) => text.replace(/[&<>"']/g, (c) => ENTITIES[/** @type {keyof typeof ENTITIES} */ (c)]);

/** With entities for what HTML takes for its own; a caller's text is one still. @param {string | import('./template-texts.js').Text} text @param {Meter} meter */
export function escaped(text, meter) {
  meter.items(plain(text).length);
  const made = entities(plain(text));
  return meter.text(isGiven(text) ? given(made) : made);
}

/** @type {Filter} */
const escape = (value, _, { meter }) => (isSafe(value) ? value : marked(escaped(shown(value, meter), meter)));
/** @type {Filter} */
const otherwise = (value, [other = '', boolean = false]) =>
  value instanceof Undefined || (truth(boolean) && !truth(value)) ? other : value;
/** @type {Filter} */
const length = (value, _, { meter }) => {
  if (value instanceof Undefined) return 0;
  if (isText(value)) return lengthOf(plain(value), meter);
  if (value instanceof Map) return value.size;
  if (Array.isArray(value) && !(value instanceof Lazy)) return value.length;
  throw templateError(`a ${typeOf(value)} has no length`);
};

/** Filters whose arguments are of their own. @type {Record<string, (value: any, args: Args, host: Host) => any>} */
const OPEN = {
  format: (value, { at, named }, { meter }) => {
    if (at.length && named.size) throw templateError('a format with values by place and by name');
    return percent(shown(value, meter), named.size ? named : Tuple.from(at), meter);
  },
  map,
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  select: selecting(true, false),
  selectattr: selecting(true, true),
};

/** @type {Record<string, [signature: string, filter: Filter]>} */
const FILTERS = {
  abs: ['/', (value) => (value instanceof Float ? new Float(Math.abs(value.value)) : Math.abs(needNumber(value)))],
  attr: [
    '/ name',
    (value, [name], { member }) => {
      if (value instanceof Map) throw templateError('attr of a dict, which is not supported');
      return member(value, name);
    },
  ],
  batch: [
    '/ linecount fill_with?',
    (value, [count, fill = null], { meter }) => {
      const size = needWhole(count);
      if (size < 1) throw templateError('a batch of less than one');
      const rows = [];
      const all = elements(value, meter);
      meter.items(all.length + (8 * all.length) / size);
      for (let i = 0; i < all.length; i += size) rows.push(all.slice(i, i + size));
      const last = rows.at(-1);
      meter.items(fill !== null && last ? size : 0);
      if (fill !== null && last) while (last.length < size) last.push(fill);
      return rows;
    },
  ],
  capitalize: ['', textMethod('capitalize')],
  count: ['', length],
  d: ['/ default_value? boolean?', otherwise],
  default: ['/ default_value? boolean?', otherwise],
  dictsort: [
    '/ case_sensitive? by? reverse?',
    (value, [sensitive = false, by = 'key', reverse = false], { meter }) => {
      if (!(value instanceof Map)) throw templateError(`a ${typeOf(defined(value))} is no dict to be sorted`);
      meter.items(16 * value.size);
      const i = ['key', 'value'].indexOf(textOf(by));
      if (i < 0) throw templateError(`dictsort by "${by}"`);
      return sorted(entriesOf(value), meter, {
        by: (/** @type {any} */ pair) => pair[i],
        sensitive: truth(sensitive),
        reverse: truth(reverse),
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
      if (!isText(defined(value))) return other;
      meter.items(plain(value).length);
      const { known, value: number } = floatOf(plain(value));
      return known ? new Float(number) : other;
    },
  ],
  forceescape: ['', (value, _, { meter }) => marked(escaped(marked(shown(value, meter), false), meter))],
  groupby: ['/ attribute default? case_sensitive?', groupby],
  indent: ['/ width? first? blank?', indent],
  int: [
    '/ default? base?',
    (value, [other = 0, base = 10], { meter }) => {
      if (needWhole(base) !== 10) throw templateError('numbers of another base than 10 are not supported');
      return wholeOf(value, other, meter);
    },
  ],
  items: [
    '',
    (value, _, { meter }) => {
      if (value instanceof Undefined) return [];
      if (!(value instanceof Map)) throw templateError(`a ${typeOf(value)} has no items`);
      meter.items(16 * value.size);
      return entriesOf(value);
    },
  ],
  join: [
    '/ d? attribute?',
    (value, [glue = '', by], host) =>
      glued(elements(value, host.meter).map(picker(by, host)), marked(shown(glue, host.meter), false), host.meter),
  ],
  last: [
    '',
    (value, _, { meter }) => {
      if (value instanceof Lazy) throw templateError('a generator has no last element');
      if (isText(value)) return characterOf(value, -1, meter) ?? new Undefined('no last element');
      const all = elements(value, meter);
      return all.length ? all.at(-1) : new Undefined('no last element');
    },
  ],
  length: ['', length],
  list: ['', (value, _, { meter }) => [...elements(value, meter)]],
  lower: ['', textMethod('lower')],
  max: ['/ case_sensitive? attribute?', extreme((order) => order > 0)],
  min: ['/ case_sensitive? attribute?', extreme((order) => order < 0)],
  replace: [
    '/ old new count?',
    (value, [from, to, most], { meter }) =>
      replaced(shown(value, meter), shown(from, meter), marked(shown(to, meter), false), most ?? undefined, meter),
  ],
  reverse: [
    '',
    (value, _, { meter }) => {
      if (isText(value)) return concat(['', ...elements(value, meter).reverse()]);
      if (value instanceof Lazy || value instanceof Undefined)
        throw templateError(`a ${typeOf(value)} can not be reversed`);
      return [...elements(value, meter)].reverse();
    },
  ],
  round: [
    '/ precision? method?',
    (value, [precision = 0, how = 'common'], { meter }) => {
      meter.spend(10);
      const [x, digits, kind] = [needNumber(value), needWhole(precision), textOf(how)];
      if (kind === 'common')
        return value instanceof Float ? new Float(rounded(x, digits)) : whole(rounded(x, Math.min(digits, 0)));
      if (kind !== 'ceil' && kind !== 'floor') throw templateError(`rounding by "${kind}"`);
      if (Math.abs(digits) > 22) throw templateError(`rounding to ${digits} digits, which is not supported`);
      // As Python has it, in floats; 10 ** -2 is one, too.
      const scale = digits < 0 ? 1 / 10 ** -digits : 10 ** digits;
      const made = Math[kind](x * scale);
      return new Float((made + 0) / scale);
    },
  ],
  safe: ['', (value, _, { meter }) => marked(shown(value, meter))],
  sort: [
    '/ reverse? case_sensitive? attribute?',
    (value, [reverse = false, sensitive = false, by], host) => {
      if (isText(by) && plain(by).includes(','))
        throw templateError('sorting by several attributes, which is not supported');
      return sorted(elements(value, host.meter), host.meter, {
        by: picker(by, host),
        sensitive: truth(sensitive),
        reverse: truth(reverse),
      });
    },
  ],
  string: ['', (value, _, { meter }) => shown(value, meter)],
  sum: [
    '/ attribute? start?',
    (value, [by, start = 0], host) => {
      const all = [start, ...elements(value, host.meter).map(picker(by, host))];
      const sum = all.reduce((a, b) => a + needNumber(b), 0);
      return all.some((item) => item instanceof Float) ? new Float(sum) : whole(sum);
    },
  ],
  title: [
    '',
    (value, _, { meter }) => {
      if (isSafe(value)) throw templateError('title of a text that is marked as safe, which is not supported');
      const text = shown(value, meter);
      meter.items(plain(text).length);
      const made = plain(text).replace(/[^-\s({[<]+/g, (/** @type {string} */ word) => {
        const first = String.fromCodePoint(/** @type {number} */ (word.codePointAt(0)));
        return first.toUpperCase() + word.slice(first.length).toLowerCase();
      });
      return isGiven(text) ? given(made) : made;
    },
  ],
  tojson: ['/ ensure_ascii? indent? separators? sort_keys?', tojson],
  trim: [
    '/ chars?',
    (value, [chars], { meter }) => {
      const text = shown(value, meter);
      return marked(strip(text, chars, meter), isSafe(text));
    },
  ],
  unique: ['/ case_sensitive? attribute?', unique],
  upper: ['', textMethod('upper')],
  urlencode: [
    '',
    (value, _, { meter }) => {
      if (!isText(value) && !isNumber(value) && !(value instanceof Undefined))
        throw templateError(`urlencode of a ${typeOf(value)}, which is not supported`);
      const text = str(value, meter);
      meter.items(text.length);
      return encodeURIComponent(text)
        .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
        .replaceAll('%2F', '/');
    },
  ],
  wordcount: [
    '',
    (value, _, { meter }) => {
      const text = str(value, meter);
      meter.items(text.length);
      return (text.match(/[\p{L}\p{N}_]+/gu) ?? []).length;
    },
  ],
};

/** @param {any} value */
const firstOf = (value) =>
  (Array.isArray(value) && value.length) || (value instanceof Map && value.size)
    ? null
    : new Undefined('no first element');

/** Of these Python gives a generator. */
const LAZY = new Set(['batch', 'items', 'map', 'reject', 'rejectattr', 'reverse', 'select', 'selectattr', 'unique']);
/** Of texts marked as safe these give others; what else does isn't supported. */
const OF_SAFE = new Set(
  'capitalize count d default e escape first forceescape length list lower safe string tojson trim upper int float wordcount urlencode reverse'.split(
    ' ',
  ),
);

const KNOWN = [
  'center filesizeformat pprint random slice striptags truncate urlize wordwrap xmlattr',
  'filter test',
].map((names) => names.split(' '));
/** Whether jinja2 has such a filter: what isn't supported is refused where it is used. @param {string} name */
export const isFilter = (name) => Object.hasOwn(FILTERS, name) || Object.hasOwn(OPEN, name) || KNOWN[0].includes(name);
/** @param {string} name */
export const isTest = (name) =>
  Object.hasOwn(TESTS, name) || Object.hasOwn(OTHER_NAMES, name) || KNOWN[1].includes(name);

/** @param {string} name @param {any} value @param {Args} args @param {Host} host @returns {any} */
export function applyFilter(name, value, args, host) {
  const { meter } = host;
  meter.spend();
  if (isSafe(value) && !OF_SAFE.has(name))
    throw templateError(`the filter "${name}" of a text that is marked as safe is not supported`);
  /** @type {() => any} */
  let work;
  if (Object.hasOwn(OPEN, name)) work = () => OPEN[name](value, args, host);
  else {
    if (!Object.hasOwn(FILTERS, name)) throw templateError(`a filter "${name}" that is not known`);
    const [signature, filter] = FILTERS[name];
    const values = bound(`the filter "${name}"`, args, signature);
    work = () => filter(value, values, host);
  }
  const made = fromTexts(meter, work);
  if (isText(made)) return meter.text(made);
  if (!Array.isArray(made)) return made;
  meter.items(made.length);
  return LAZY.has(name) ? Lazy.from(made) : made;
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
      if (needNumber(by) === 0) throw templateError('a division by zero');
      return needNumber(value) % numberOf(by) === 0;
    },
  ],
  eq: ['other', (value, [other], meter) => equal(value, other, meter)],
  escaped: ['', (value) => isSafe(value)],
  even: ['', (value) => needNumber(value) % 2 === 0],
  false: ['', (value) => value === false],
  filter: [
    '',
    (value) => {
      const name = textOf(value);
      if (Object.hasOwn(FILTERS, name) || Object.hasOwn(OPEN, name)) return true;
      throw templateError(`whether there is a filter "${name}" is not known`);
    },
  ],
  float: ['', (value) => value instanceof Float],
  ge: ['other', (value, [other], meter) => compare(value, other, meter) >= 0],
  gt: ['other', (value, [other], meter) => compare(value, other, meter) > 0],
  in: ['/ seq', (value, [all], meter) => contains(all, value, meter)],
  integer: ['', (value) => typeof value === 'number'],
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
  odd: ['', (value) => Math.abs(needNumber(value) % 2) === 1],
  sameas: [
    '/ other',
    (value, [other]) => {
      if (value === null || other === null || typeof value === 'boolean' || typeof other === 'boolean')
        return value === other;
      throw templateError('sameas of other values than booleans and none is not supported');
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

/** @param {string} name @param {any} value @param {Args} args @param {Meter} meter @returns {boolean} */
export function test(name, value, args, meter) {
  const own = Object.hasOwn(OTHER_NAMES, name) ? OTHER_NAMES[name] : name;
  if (!Object.hasOwn(TESTS, own)) throw templateError(`a test "${name}" that is not known`);
  meter.spend();
  const [signature, passes] = TESTS[own];
  return passes(value, bound(`the test "${name}"`, args, signature), meter);
}

/** `value in all`. @param {any} all @param {any} value @param {Meter} meter @returns {boolean} */
export function contains(all, value, meter) {
  if (isText(all)) return placeOf(plain(all), textOf(value), meter) >= 0;
  meter.scan(textLength(value));
  if (all instanceof Map) return all.has(keyOf(value)) || found(all, value) !== undefined;
  if (all instanceof Lazy) {
    while (all.length) if (equal(all.shift(), value, meter)) return true;
    return false;
  }
  if (all instanceof View && all.kind === 'dict_keys') keyOf(value);
  return elements(all, meter).some((item) => equal(item, value, meter));
}
