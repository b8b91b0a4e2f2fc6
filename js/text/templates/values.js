/**
 * The values of a template (values of Python's types) and their basic operations. Python's str, int, bool and None are
 * string (or Text), number (beyond 2^53 bigint), boolean and null here; a list is an array, a dict is a Map. All other
 * types have the classes below. "Text" stands for string or Text: Text marks the parts that a caller wrote
 * (template-texts.js).
 */
import { BqError } from '../../shared/errors.js';
import { concat, callerText, hasCallerText, isText, marksOf, stringOf, Text } from './template-texts.js';

/** Python's white space, as part of a set in a regular expression. It differs from JavaScript's. */
export const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';

/**
 * Creates the error for a failure in a template, or in a value that it uses.
 * @param {string} message @param {unknown} [cause]
 */
export const templateError = (message, cause) =>
  new BqError('TEMPLATE', `the chat template failed: ${message}`, {
    cause,
    hint: 'pass a format by name ("chatml", …) or by its parts instead',
  });

/** Python's float: a number that is printed with a decimal point. */
export class Float {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

/** Python's tuple. */
export class Tuple extends Array {
  /** The elements by name, for a named tuple. @type {Map<string, any> | undefined} */
  names;
}

/** Python's generator, the result of filters such as `map`. It can be iterated over only once. */
export class Lazy extends Array {}

/** Python's range and the views of a dict (`keys`, `values`, `items`). */
export class View extends Array {
  /** Text that Python prints, such as `range(0, 3)`; '': `kind([…])`, such as `dict_keys([…])`. */
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

/** Python's dict. `hasCallerKeys`: whether a caller wrote its keys. */
export class Dict extends Map {
  hasCallerKeys = false;
}

/** The result of `namespace()`: the only object whose members a template can set, also from inner blocks. */
export class Namespace {
  /** @param {Map<string, any>} entries */
  constructor(entries) {
    this.entries = entries;
  }
}

/**
 * The value of an unknown name or member. It is printed as an empty text and is false. Most other uses are an error.
 */
export class Undefined {
  /** @param {string} subject  of the error message */
  constructor(subject) {
    this.subject = subject;
  }
}

/** A function, a macro, or the `loop` of a recursive loop. */
export class Callable {
  /**
   * @param {string} name @param {(args: import('./arguments.js').Args) => any} call @param {Map<string, any>} [members]
   */
  constructor(name, call, members = new Map()) {
    this.name = name;
    this.call = call;
    this.members = members;
  }
}

/** Maximum number of steps of one rendering; a long conversation needs far fewer. */
const MAX_STEPS = 2_000_000;
/** Maximum length of a text, and maximum number of elements of a list. */
const MAX_LENGTH = 2 ** 23;

/**
 * Counts the work of a rendering, so that an endless or excessive one stops after the same number of steps on every
 * machine. A step is about the time that is needed to read 64 characters or to create 8 elements.
 */
export class Meter {
  #remaining = MAX_STEPS;
  /** Whether a caller's text was used to compute the current value (see trackCallerText). */
  usesCallerText = false;

  /** Counts steps. Throws TEMPLATE beyond the limit. @param {number} [steps] */
  count(steps = 1) {
    this.#remaining -= steps;
    if (!(this.#remaining >= 0))
      throw templateError(`it took more than ${MAX_STEPS.toLocaleString('en')} steps: it may loop without end`);
  }

  /** Counts the reading of characters. Must be called before it. @param {number} characters */
  countInput(characters) {
    this.count(1 + characters / 64);
  }

  /** Counts the creation of a text. Throws TEMPLATE if the text is too long. @param {number} characters */
  countOutput(characters) {
    if (!(characters <= MAX_LENGTH))
      throw templateError(
        `a string has ${characters.toLocaleString('en')} characters; at most ${MAX_LENGTH.toLocaleString('en')} are allowed`,
      );
    this.countInput(characters);
  }

  /** Counts the creation of elements, or work on single characters. Must be called before it. @param {number} count */
  countItems(count) {
    if (!(count <= MAX_LENGTH))
      throw templateError(
        `a list has ${count.toLocaleString('en')} elements; at most ${MAX_LENGTH.toLocaleString('en')} are allowed`,
      );
    this.count(1 + count / 8);
  }

  /** Counts the creation of a text and returns it. @template {string | Text} T @param {T} text @returns {T} */
  countText(text) {
    this.countOutput(stringOf(text).length);
    this.count(marksOf(text) / 16);
    return text;
  }
}

/** Returns Python's name of a value's type. @param {any} value @returns {string} */
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
  return { number: 'int', bigint: 'int', boolean: 'bool' }[/** @type {string} */ (typeof value)] ?? 'object';
}

/** Returns a value. Throws TEMPLATE if it is undefined. @param {any} value @returns {any} */
export function requireDefined(value) {
  if (value instanceof Undefined) throw templateError(`${value.subject} is undefined`);
  return value;
}

/** Whether a value is true in a condition, by Python's rules. @param {any} value @returns {boolean} */
export function isTrue(value) {
  if (value instanceof Undefined) return false;
  if (value instanceof Float || value instanceof Text) return Boolean(value.value);
  if (Array.isArray(value)) return value.length > 0 || value instanceof Lazy;
  return value instanceof Map ? value.size > 0 : Boolean(value);
}

/** @param {any} value */
export const isNumber = (value) =>
  typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint' || value instanceof Float;
/** @param {any} value @returns {number} */
export const numberOf = (value) => (value instanceof Float ? value.value : Number(value));
/** Returns a text as a string. Throws TEMPLATE if the value is not a text. @param {any} value @returns {string} */
export function requireText(value) {
  if (isText(value)) return stringOf(value);
  throw templateError(`expected a string, found a value of type ${typeOf(requireDefined(value))}`);
}

/** Returns a value as a number. Throws TEMPLATE if it is not a number. @param {any} value @returns {number} */
export function requireNumber(value) {
  if (isNumber(value)) return numberOf(value);
  throw templateError(`expected a number, found a value of type ${typeOf(requireDefined(value))}`);
}
/** Returns a value as an integer. Throws TEMPLATE if it is not an integer. @param {any} value @returns {number} */
export function requireInteger(value) {
  if (typeof value === 'number' || typeof value === 'boolean') return Number(value);
  throw templateError(`expected an integer, found a value of type ${typeOf(requireDefined(value))}`);
}
/** Returns the integer result of a calculation. Throws TEMPLATE if it may be inexact. @param {number} value */
export function checkInteger(value) {
  if (Number.isSafeInteger(value)) return value + 0;
  throw templateError('integers beyond 2^53 are not supported');
}

/** Whether a value is a list or a tuple. Generators and views are also arrays in JavaScript. @param {any} value */
const isList = (value) => Array.isArray(value) && !(value instanceof Lazy) && !(value instanceof View);

/** Python's `a == b`. @param {any} a @param {any} b @param {Meter} meter @returns {boolean} */
export function equal(a, b, meter) {
  meter.count();
  if (isNumber(a) && isNumber(b)) return numberOf(a) === numberOf(b);
  if (isText(a) && isText(b)) {
    const [x, y] = [stringOf(a), stringOf(b)];
    if (x.length !== y.length) return false;
    meter.countInput(x.length);
    return x === y;
  }
  if (a instanceof Undefined) return b instanceof Undefined;
  if (a instanceof View || b instanceof View) {
    if (a === b || !(a instanceof View && b instanceof View)) return a === b;
    throw templateError(`comparing values of type ${typeOf(a)} is not supported`);
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

/**
 * Compares two strings by their code points.
 * @param {string} x @param {string} y @returns {number}  negative, 0 or positive
 */
function compareStrings(x, y) {
  if (x === y) return 0;
  let i = 0;
  while (i < x.length && x[i] === y[i]) i++;
  if (i === x.length || i === y.length) return x.length - y.length;
  const [a, b] = [x.charCodeAt(i), y.charCodeAt(i)];
  // A surrogate belongs to a code point above all those of one code unit.
  const isSurrogate = (/** @type {number} */ c) => c >= 0xd800 && c < 0xe000;
  return isSurrogate(a) === isSurrogate(b) ? a - b : isSurrogate(a) ? 1 : -1;
}

/**
 * Compares two values. Returns a negative number, 0 or a positive number, or NaN if one of them is NaN.
 * @param {any} a @param {any} b @param {Meter} meter @returns {number}
 */
export function compare(a, b, meter) {
  meter.count();
  if (isNumber(a) && isNumber(b)) {
    const [x, y] = [numberOf(a), numberOf(b)];
    return x === y ? 0 : x < y ? -1 : x > y ? 1 : NaN;
  }
  if (isText(a) && isText(b)) {
    const [x, y] = [stringOf(a), stringOf(b)];
    meter.countItems(Math.min(x.length, y.length));
    return compareStrings(x, y);
  }
  if (isList(a) && isList(b) && typeOf(a) === typeOf(b)) {
    for (let i = 0; i < a.length && i < b.length; i++) {
      if (!equal(a[i], b[i], meter)) return compare(a[i], b[i], meter);
    }
    return a.length - b.length;
  }
  throw templateError(`can't compare values of types ${typeOf(requireDefined(a))} and ${typeOf(requireDefined(b))}`);
}

/** Returns the keys of a dict; those that a caller wrote are marked. @param {Map<any, any>} dict */
export const keysOf = (dict) =>
  Array.from(dict.keys(), (key) =>
    typeof key === 'string' && dict instanceof Dict && dict.hasCallerKeys ? callerText(key) : key,
  );
/** Returns the entries of a dict as tuples. @param {Map<any, any>} dict @returns {Tuple[]} */
export const entriesOf = (dict) => {
  const values = [...dict.values()];
  return keysOf(dict).map((key, i) => /** @type {Tuple} */ (Tuple.from([key, values[i]])));
};

/** Returns the key of a Map for a value. Throws TEMPLATE if the value cannot be a key. @param {any} value */
export function keyOf(value) {
  const key = stringOf(value);
  if (key instanceof Float) {
    if (Number.isSafeInteger(key.value)) return key.value;
    throw templateError('floats as keys of a dict are not supported');
  }
  if (Array.isArray(key) || key instanceof Map)
    throw templateError(`values of type ${typeOf(key)} as keys of a dict are not supported`);
  return requireDefined(key);
}

/**
 * Returns the value of a dict for a key, or undefined. As in Python, True and 1 are the same key.
 * @param {Map<any, any>} dict @param {any} value @returns {any}
 */
export function lookUp(dict, value) {
  const key = keyOf(value);
  if (dict.has(key)) return dict.get(key);
  const other = typeof key === 'boolean' ? Number(key) : key === 0 ? false : key === 1 ? true : undefined;
  return other === undefined ? undefined : dict.get(other);
}

/**
 * Returns the characters (code points) of a text, with its marks.
 * @param {any} text @param {Meter} meter @returns {(string | Text)[]}
 */
export function charactersOf(text, meter) {
  const value = stringOf(text);
  meter.countItems(value.length);
  const all = Array.from(value);
  if (!hasCallerText(text)) return all;
  meter.countItems(2 * all.length); // each character of a caller becomes an object
  const { callerRanges: ranges } = /** @type {Text} */ (text);
  let [at, range] = [0, 0];
  return all.map((c) => {
    while (range < ranges.length && ranges[range + 1] <= at) range += 2;
    const isCallers = range < ranges.length && ranges[range] <= at;
    at += c.length;
    return isCallers ? callerText(c) : c;
  });
}

/**
 * Returns the elements of an iterable value. A generator is empty afterwards.
 * @param {any} value @param {Meter} meter @returns {any[]}
 */
export function elements(value, meter) {
  if (value instanceof Lazy) return Array.from(value.splice(0));
  if (Array.isArray(value)) return value.constructor === Array ? value : Array.from(value);
  if (value instanceof Map) {
    meter.countItems(value.size);
    return keysOf(value);
  }
  if (isText(value)) return charactersOf(value, meter);
  if (value instanceof Undefined) return [];
  throw templateError(`a value of type ${typeOf(value)} is not iterable`);
}

/** Python's `repr` of a float. @param {number} value */
export const floatText = (value) => {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
  }
  return Number.isInteger(value) ? `${Object.is(value, -0) ? '-0' : value}.0` : String(value);
};

const SHORT = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
/**
 * Characters that Python's `repr` may escape: all except letters, marks, numbers, punctuation, symbols and the space.
 */
const UNPRINTABLE = /[\\'"]|[\p{C}\p{Z}]/gu;

/** Python's `repr` of a string. @param {string} text */
function quoteString(text) {
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

/** Python's `repr`. @param {any} value @param {Meter} meter @returns {string} */
export function repr(value, meter) {
  meter.count();
  if (isText(value)) {
    meter.usesCallerText ||= hasCallerText(value);
    meter.countItems(stringOf(value).length);
    if (value instanceof Text && value.safe)
      throw templateError('printing a list that contains a safe string is not supported');
    return meter.countText(quoteString(stringOf(value)));
  }
  if (value instanceof View && value.shown) return value.shown;
  if (isList(value) || value instanceof View) {
    const items = value.map((/** @type {any} */ item) => repr(item, meter));
    const all = meter.countText(Array.from(items).join(', '));
    if (value instanceof View) return `${value.kind}([${all}])`;
    return value instanceof Tuple ? `(${all}${value.length === 1 ? ',' : ''})` : `[${all}]`;
  }
  if (value instanceof Map) {
    const entries = entriesOf(value).map(([key, item]) => `${repr(key, meter)}: ${repr(item, meter)}`);
    return meter.countText(`{${entries.join(', ')}}`);
  }
  return value instanceof Undefined ? 'Undefined' : str(value, meter);
}

/**
 * Python's `str`. Sets `meter.usesCallerText` if the result contains a caller's text.
 * @param {any} value @param {Meter} meter @returns {string}
 */
export function str(value, meter) {
  if (isText(value)) {
    meter.usesCallerText ||= hasCallerText(value);
    return stringOf(value);
  }
  if (value === null) return 'None';
  if (value === true || value === false) return value ? 'True' : 'False';
  if (typeof value === 'number' || typeof value === 'bigint') return String(BigInt(value));
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Undefined) return '';
  if (value instanceof Lazy) throw templateError('printing a generator is not supported: use the filter list or join');
  if (Array.isArray(value) || value instanceof Map) return repr(value, meter);
  throw templateError(`can't print a value of type ${typeOf(value)}`);
}

/**
 * Returns the result of a function. A string is marked as a caller's if a caller's text was used to compute it.
 * @param {Meter} meter @param {() => any} compute
 */
export function trackCallerText(meter, compute) {
  const before = meter.usesCallerText;
  meter.usesCallerText = false;
  const result = compute();
  const isCallers = meter.usesCallerText;
  meter.usesCallerText = before || isCallers;
  return isCallers && typeof result === 'string' ? callerText(result) : result;
}

/**
 * Converts a value to a text in which the parts that callers wrote are marked.
 * @param {any} value @param {Meter} meter @returns {string | Text}
 */
export const toText = (value, meter) => (isText(value) ? value : trackCallerText(meter, () => str(value, meter)));

/** Joins values as texts. @param {any[]} values @param {Meter} meter */
export function joinTexts(values, meter) {
  let length = 0;
  const texts = values.map((value) => {
    const text = toText(value, meter);
    length += stringOf(text).length;
    meter.countOutput(length / 64);
    return text;
  });
  meter.countOutput(length);
  return meter.countText(concat(texts));
}

/** Members of messages whose values are keywords of the API instead of user text. They are not marked. */
const KEYWORD_MEMBERS = new Set(['role', 'type']);

/**
 * Converts JSON to values of a template. Strings are marked as a caller's unless they are `trusted`. Instances of Text
 * keep their own marks.
 * @param {any} value @param {boolean} trusted @returns {any}
 */
export function fromJson(value, trusted) {
  if (value === undefined) return new Undefined('a value');
  if (typeof value === 'number') return Number.isInteger(value) && Math.abs(value) < 2 ** 64 ? value : new Float(value);
  if (typeof value === 'string') return trusted ? value : callerText(value);
  if (value instanceof Text) return value;
  if (Array.isArray(value)) return value.map((item) => fromJson(item, trusted));
  if (value !== null && typeof value === 'object') {
    const dict = new Dict(
      Object.entries(value)
        .filter(([, v]) => v !== undefined)
        .map(([key, v]) => [
          key,
          fromJson(v, trusted || (KEYWORD_MEMBERS.has(key) && typeof v === 'string' && /^\w+$/.test(v))),
        ]),
    );
    dict.hasCallerKeys = !trusted;
    return dict;
  }
  if (value === null || typeof value === 'boolean' || typeof value === 'bigint') return value;
  throw templateError(`expected JSON in the template's values, found a ${typeof value}`);
}

/**
 * Python's `json.dumps(value, ensure_ascii=False, …)`.
 * @param {any} value @param {{ indent: string | null, item: string, key: string, sort: boolean, ascii: boolean }} how
 * @param {Meter} meter @param {string} [margin] @returns {string}
 */
export function json(value, how, meter, margin = '') {
  meter.count();
  if (isText(value)) {
    meter.usesCallerText ||= hasCallerText(value);
    meter.countItems(stringOf(value).length);
    const text = JSON.stringify(stringOf(value)).replace(/\\u(d[89a-f]..)/g, (_, hex) =>
      String.fromCharCode(parseInt(hex, 16)),
    );
    return meter.countText(
      how.ascii ? text.replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`) : text,
    );
  }
  if (value === null) return 'null';
  if (value instanceof Float)
    return { inf: 'Infinity', '-inf': '-Infinity', nan: 'NaN' }[floatText(value.value)] ?? floatText(value.value);
  if (typeof value === 'number' || typeof value === 'bigint') return str(value, meter);
  if (typeof value === 'boolean') return String(value);
  const list = isList(value);
  if (!list && !(value instanceof Map))
    throw templateError(`can't write a value of type ${typeOf(requireDefined(value))} as JSON`);
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
  meter.countOutput(parts.length * (how.item.length + inner.length));
  if (how.indent === null) return meter.countText(open + parts.join(how.item) + close);
  return meter.countText(`${open}\n${inner}${parts.join(`${how.item}\n${inner}`)}\n${margin}${close}`);
}
