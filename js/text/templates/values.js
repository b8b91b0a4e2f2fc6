/**
 * Python's values as a template sees them. Text, whole numbers, True/False and None are JavaScript's string, number,
 * boolean and null; a list is an array, a dict a Map with texts for keys, a function takes (positional, named).
 */
import { BqError } from '../../shared/errors.js';
import { concat, given, isGiven, isText, marksOf, plain, Text } from './template-texts.js';

/** What a template does wrong, or does without end. @param {string} message @param {unknown} [cause] */
export const templateError = (message, cause) =>
  new BqError('TEMPLATE', `the chat template failed: ${message}`, {
    cause,
    hint: 'pass a format by name ("chatml", …) or by its parts instead',
  });

/** A number with a point. */
export class Float {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

/** Its names, where it has some, are those of its elements. */
export class Tuple extends Array {
  /** @type {Map<string, any> | undefined} */
  names;
}

/** What filters such as `map` give, Python's generator: it can be gone through once, and little else. */
export class Lazy extends Array {}

/** What a dict's `keys`, `values` and `items` give, and `range`: it can be gone through. */
export class View extends Array {
  /** As Python prints it: `range(0, 3)`; '': as `dict_keys([…])`. */
  shown = '';
  kind = '';

  /** @param {any[]} items @param {string} kind @param {string} [shown] */
  static make(items, kind, shown = '') {
    const view = /** @type {View} */ (View.from(items));
    view.kind = kind;
    view.shown = shown;
    return view;
  }
}

/** A dict. `given`: its keys are a caller's. */
export class Dict extends Map {
  given = false;
}

/** `namespace()`: the one thing that an inner block may change. */
export class Namespace {
  /** @param {Map<string, any>} entries */
  constructor(entries) {
    this.entries = entries;
  }
}

/** What isn't there. It prints as nothing and is false; most other uses are an error that names it. */
export class Undefined {
  /** @param {string} what */
  constructor(what) {
    this.what = what;
  }
}

/** What can be called: a function or a macro, and `loop` of a recursive loop. */
export class Callable {
  /** @param {string} name @param {(args: import('./methods.js').Args) => any} call @param {Map<string, any>} [members] */
  constructor(name, call, members = new Map()) {
    this.name = name;
    this.call = call;
    this.members = members;
  }
}

/** Steps that one rendering may take: many times what a long conversation needs. */
const STEPS = 2_000_000;
/** Longest text, and most elements, that there may be. */
const LONGEST = 2 ** 23;

/**
 * Counts the work of a rendering, so that one without end, or with work out of measure, stops at the same place
 * everywhere. A step is about what it takes to read 64 characters, or to make 8 elements.
 */
export class Meter {
  #left = STEPS;
  /** A caller's text went into what is being made. */
  given = false;

  /** @param {number} [steps] */
  spend(steps = 1) {
    this.#left -= steps;
    if (!(this.#left >= 0)) throw templateError(`it goes on without end (${STEPS.toLocaleString('en')} steps)`);
  }

  /** Before so many characters are read. @param {number} characters */
  scan(characters) {
    this.spend(1 + characters / 64);
  }

  /** Before so many characters are made, or when they are. @param {number} characters */
  room(characters) {
    if (!(characters <= LONGEST)) throw templateError(`a text of ${characters.toLocaleString('en')} characters`);
    this.scan(characters);
  }

  /** Before so many elements are made, or single characters looked at. @param {number} count */
  items(count) {
    if (!(count <= LONGEST)) throw templateError(`${count.toLocaleString('en')} elements at once`);
    this.spend(1 + count / 8);
  }

  /** A text that was made. @template {string | Text} T @param {T} text @returns {T} */
  text(text) {
    this.room(plain(text).length);
    this.spend(marksOf(text) / 16);
    return text;
  }
}

/** @param {any} value @returns {string} its type, as Python names it */
export function typeOf(value) {
  if (value === null) return 'NoneType';
  if (isText(value)) return 'str';
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Float) return 'float';
  if (value instanceof Tuple) return 'tuple';
  if (value instanceof Lazy) return 'generator';
  if (value instanceof View) return value.kind;
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  if (value instanceof Callable) return 'function';
  return { number: 'int', boolean: 'bool' }[/** @type {string} */ (typeof value)] ?? 'object';
}

/** For an operation that an undefined value doesn't have. @param {any} value @returns {any} */
export function defined(value) {
  if (value instanceof Undefined) throw templateError(`${value.what} is undefined`);
  return value;
}

/** @param {any} value @returns {boolean} */
export function truth(value) {
  if (value instanceof Undefined) return false;
  if (value instanceof Float || value instanceof Text) return Boolean(value.value);
  if (Array.isArray(value)) return value.length > 0 || value instanceof Lazy;
  return value instanceof Map ? value.size > 0 : Boolean(value);
}

/** @param {any} value */
export const isNumber = (value) => typeof value === 'number' || typeof value === 'boolean' || value instanceof Float;
/** @param {any} value @returns {number} */
export const numberOf = (value) => (value instanceof Float ? value.value : Number(value));
/** A number where one belongs. @param {any} value @returns {number} */
export function needNumber(value) {
  if (isNumber(value)) return numberOf(value);
  throw templateError(`a ${typeOf(defined(value))} where a number belongs`);
}
/** A whole number where one belongs. @param {any} value @returns {number} */
export function needWhole(value) {
  if (typeof value === 'number' || typeof value === 'boolean') return Number(value);
  throw templateError(`a ${typeOf(defined(value))} where a whole number belongs`);
}
/** A whole number that a calculation gave. @param {number} value */
export function whole(value) {
  if (Number.isSafeInteger(value)) return value + 0;
  throw templateError('a whole number beyond 2^53, which is not supported');
}

/** A list or tuple as it is in Python; generators, views and undefined ones are of other types. @param {any} value */
const isList = (value) => Array.isArray(value) && !(value instanceof Lazy) && !(value instanceof View);

/** @param {any} a @param {any} b @param {Meter} meter @returns {boolean} */
export function equal(a, b, meter) {
  meter.spend();
  if (isNumber(a) && isNumber(b)) return numberOf(a) === numberOf(b);
  if (isText(a) && isText(b)) {
    const [x, y] = [plain(a), plain(b)];
    if (x.length !== y.length) return false;
    meter.scan(x.length);
    return x === y;
  }
  if (a instanceof Undefined) return b instanceof Undefined;
  if (a instanceof View || b instanceof View) {
    if (a === b || !(a instanceof View && b instanceof View)) return a === b;
    throw templateError(`comparing a ${typeOf(a)}, which is not supported`);
  }
  if (isList(a)) {
    return (
      isList(b) &&
      typeOf(a) === typeOf(b) &&
      a.length === b.length &&
      a.every((/** @type {any} */ x, /** @type {number} */ i) => equal(x, b[i], meter))
    );
  }
  if (a instanceof Map)
    return (
      b instanceof Map && a.size === b.size && [...a].every(([key, x]) => b.has(key) && equal(x, b.get(key), meter))
    );
  return a === b;
}

/** Order of two texts by their code points. @param {string} x @param {string} y */
function orderOf(x, y) {
  if (x === y) return 0;
  let i = 0;
  while (i < x.length && x[i] === y[i]) i++;
  if (i === x.length || i === y.length) return x.length - y.length;
  const [a, b] = [x.charCodeAt(i), y.charCodeAt(i)];
  // Surrogates stand for characters behind all others.
  const high = (/** @type {number} */ c) => c >= 0xd800 && c < 0xe000;
  return high(a) === high(b) ? a - b : high(a) ? 1 : -1;
}

/** Less than 0, 0 or more, as `a` is less than `b`, equal or more; NaN: neither. @param {any} a @param {any} b @param {Meter} meter @returns {number} */
export function compare(a, b, meter) {
  meter.spend();
  if (isNumber(a) && isNumber(b)) {
    const [x, y] = [numberOf(a), numberOf(b)];
    return x === y ? 0 : x < y ? -1 : x > y ? 1 : NaN;
  }
  if (isText(a) && isText(b)) {
    const [x, y] = [plain(a), plain(b)];
    meter.items(Math.min(x.length, y.length));
    return orderOf(x, y);
  }
  if (isList(a) && isList(b) && typeOf(a) === typeOf(b)) {
    for (let i = 0; i < a.length && i < b.length; i++) {
      if (!equal(a[i], b[i], meter)) return compare(a[i], b[i], meter);
    }
    return a.length - b.length;
  }
  throw templateError(`${typeOf(defined(a))} and ${typeOf(defined(b))} can't be compared`);
}

/** A dict's keys, those of a caller marked so. @param {Map<any, any>} dict */
export const keysOf = (dict) =>
  Array.from(dict.keys(), (key) => (typeof key === 'string' && dict instanceof Dict && dict.given ? given(key) : key));
/** @param {Map<any, any>} dict @returns {Tuple[]} */
export const entriesOf = (dict) => {
  const values = [...dict.values()];
  return keysOf(dict).map((key, i) => /** @type {Tuple} */ (Tuple.from([key, values[i]])));
};

/** What a dict has a value under. @param {any} value */
export function keyOf(value) {
  const key = plain(value);
  if (key instanceof Float) {
    if (Number.isSafeInteger(key.value)) return key.value;
    throw templateError('a float as a key of a dict, which is not supported');
  }
  if (Array.isArray(key) || key instanceof Map)
    throw templateError(`a ${typeOf(key)} as a key of a dict, which is not supported`);
  return defined(key);
}

/** What a dict has under a key: True and 1 are one key in Python. @param {Map<any, any>} dict @param {any} value @returns {any} undefined: nothing */
export function found(dict, value) {
  const key = keyOf(value);
  if (dict.has(key)) return dict.get(key);
  const other = typeof key === 'boolean' ? Number(key) : key === 0 ? false : key === 1 ? true : undefined;
  return other === undefined ? undefined : dict.get(other);
}

/** Characters of a text. @param {any} text @param {Meter} meter @returns {(string | Text)[]} */
export function charactersOf(text, meter) {
  const value = plain(text);
  meter.items(value.length);
  const all = Array.from(value);
  if (!isGiven(text)) return all;
  meter.items(2 * all.length); // each is an object then
  const { given: ranges } = /** @type {Text} */ (text);
  let [at, range] = [0, 0];
  return all.map((c) => {
    while (range < ranges.length && ranges[range + 1] <= at) range += 2;
    const own = range < ranges.length && ranges[range] <= at;
    at += c.length;
    return own ? given(c) : c;
  });
}

/** The elements of what can be gone through; a generator is empty then. @param {any} value @param {Meter} meter @returns {any[]} */
export function elements(value, meter) {
  if (value instanceof Lazy) return Array.from(value.splice(0));
  if (Array.isArray(value)) return value.constructor === Array ? value : Array.from(value);
  if (value instanceof Map) {
    meter.items(value.size);
    return keysOf(value);
  }
  if (isText(value)) return charactersOf(value, meter);
  if (value instanceof Undefined) return [];
  throw templateError(`a ${typeOf(value)} can't be gone through`);
}

/** As Python's `repr` of a float. @param {number} value */
export const floatText = (value) => {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
  }
  return Number.isInteger(value) ? `${Object.is(value, -0) ? '-0' : value}.0` : String(value);
};

const SHORT = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
/** What Python doesn't print as it is: all that is no letter, mark, number, sign or space. */
const UNPRINTABLE = /[\\'"]|[\p{C}\p{Z}]/gu;

/** @param {string} text */
function quoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = text.replace(UNPRINTABLE, (c) => {
    if (c === '"' || c === "'") return c === quote ? `\\${c}` : c;
    const code = /** @type {number} */ (c.codePointAt(0));
    const hex = code.toString(16);
    if (c === ' ') return c;
    if (Object.hasOwn(SHORT, c)) return SHORT[/** @type {keyof typeof SHORT} */ (c)];
    return code < 0x100
      ? `\\x${hex.padStart(2, '0')}`
      : code < 0x10000
        ? `\\u${hex.padStart(4, '0')}`
        : `\\U${hex.padStart(8, '0')}`;
  });
  return quote + body + quote;
}

/** As Python's `repr`. @param {any} value @param {Meter} meter @returns {string} */
export function repr(value, meter) {
  meter.spend();
  if (isText(value)) {
    meter.given ||= isGiven(value);
    meter.items(plain(value).length);
    if (value instanceof Text && value.safe)
      throw templateError('a list with a text marked as safe is not printed here');
    return meter.text(quoted(plain(value)));
  }
  if (value instanceof View && value.shown) return value.shown;
  if (isList(value) || value instanceof View) {
    const items = value.map((/** @type {any} */ item) => repr(item, meter));
    const all = meter.text(Array.from(items).join(', '));
    if (value instanceof View) return `${value.kind}([${all}])`;
    return value instanceof Tuple ? `(${all}${value.length === 1 ? ',' : ''})` : `[${all}]`;
  }
  if (value instanceof Map) {
    const entries = entriesOf(value).map(([key, item]) => `${repr(key, meter)}: ${repr(item, meter)}`);
    return meter.text(`{${entries.join(', ')}}`);
  }
  return value instanceof Undefined ? 'Undefined' : str(value, meter);
}

/** As it is printed; `meter.given` says whether a caller's text is in it. @param {any} value @param {Meter} meter @returns {string} */
export function str(value, meter) {
  if (isText(value)) {
    meter.given ||= isGiven(value);
    return plain(value);
  }
  if (value === null) return 'None';
  if (value === true || value === false) return value ? 'True' : 'False';
  if (typeof value === 'number') return String(BigInt(value));
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Undefined) return '';
  if (value instanceof Lazy) throw templateError('a generator as a text, which is not supported: use list or join');
  if (Array.isArray(value) || value instanceof Map) return repr(value, meter);
  throw templateError(`a ${typeOf(value)} is no text`);
}

/** What was made of other texts, marked as a caller's if one of them was. @param {Meter} meter @param {() => any} make */
export function fromTexts(meter, make) {
  const before = meter.given;
  meter.given = false;
  const made = make();
  const own = meter.given;
  meter.given = before || own;
  return own && typeof made === 'string' ? given(made) : made;
}

/** A value as a text, with what is a caller's in it. @param {any} value @param {Meter} meter @returns {string | Text} */
export const shown = (value, meter) => (isText(value) ? value : fromTexts(meter, () => str(value, meter)));

/** @param {any[]} values @param {Meter} meter */
export function joined(values, meter) {
  let length = 0;
  const texts = values.map((value) => {
    const text = shown(value, meter);
    length += plain(text).length;
    meter.room(length / 64);
    return text;
  });
  meter.room(length);
  return meter.text(concat(texts));
}

/** Names that a template compares, and that no person writes. */
const FIXED = new Set(['role', 'type']);

/** What a caller gave, as values of a template; its texts marked so unless it is the engine's own. @param {any} value @param {boolean} own @returns {any} */
export function fromJson(value, own) {
  if (value === undefined) return new Undefined('a value');
  if (typeof value === 'number') return Number.isInteger(value) && Math.abs(value) < 2 ** 64 ? value : new Float(value);
  if (typeof value === 'string') return own ? value : given(value);
  if (Array.isArray(value)) return value.map((item) => fromJson(item, own));
  if (value !== null && typeof value === 'object') {
    const dict = new Dict(
      Object.entries(value)
        .filter(([, v]) => v !== undefined)
        .map(([key, v]) => [key, fromJson(v, own || (FIXED.has(key) && typeof v === 'string' && /^\w+$/.test(v)))]),
    );
    dict.given = !own;
    return dict;
  }
  if (value === null || typeof value === 'boolean') return value;
  throw templateError(`a ${typeof value} among the values that the caller gave`);
}

/**
 * As Python's `json.dumps(value, ensure_ascii=False, …)`.
 * @param {any} value @param {{ indent: string | null, item: string, key: string, sort: boolean, ascii: boolean }} how @param {Meter} meter
 * @param {string} [margin] @returns {string}
 */
export function json(value, how, meter, margin = '') {
  meter.spend();
  if (isText(value)) {
    meter.given ||= isGiven(value);
    meter.items(plain(value).length);
    const text = JSON.stringify(plain(value)).replace(/\\u(d[89a-f]..)/g, (_, hex) =>
      String.fromCharCode(parseInt(hex, 16)),
    );
    return meter.text(
      how.ascii ? text.replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`) : text,
    );
  }
  if (value === null) return 'null';
  if (value instanceof Float)
    return { inf: 'Infinity', '-inf': '-Infinity', nan: 'NaN' }[floatText(value.value)] ?? floatText(value.value);
  if (typeof value === 'number') return str(value, meter);
  if (typeof value === 'boolean') return String(value);
  const list = isList(value);
  if (!list && !(value instanceof Map)) throw templateError(`a ${typeOf(defined(value))} is no JSON`);
  const inner = how.indent === null ? '' : `${margin}${how.indent}`;
  let parts;
  if (list) parts = Array.from(value, (item) => json(item, how, meter, inner));
  else {
    const entries = entriesOf(value);
    if (how.sort) entries.sort(([a], [b]) => compare(a, b, meter));
    parts = entries.map(([key, item]) => {
      const name = isText(key) ? key : json(key, how, meter);
      return json(name, how, meter) + how.key + json(item, how, meter, inner);
    });
  }
  const [open, close] = list ? '[]' : '{}';
  if (!parts.length) return open + close;
  meter.room(parts.length * (how.item.length + inner.length));
  if (how.indent === null) return meter.text(open + parts.join(how.item) + close);
  return meter.text(`${open}\n${inner}${parts.join(`${how.item}\n${inner}`)}\n${margin}${close}`);
}
