/**
 * Python's values as a template sees them. Text, whole numbers, True/False and None are JavaScript's string, number,
 * boolean and null; a list is an array, a dict a Map with texts for keys, a function takes (positional, named).
 */
import { BqError } from '../shared/errors.js';

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

export class Tuple extends Array {
  /** Of its elements, where they have names. @type {Map<string, any> | undefined} */
  names;
}

/** What filters such as `map` give: it can be gone through, and little else. */
export class Lazy extends Array {}

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

/** Text marked as safe: what is added to it is escaped for HTML, as Jinja does. */
export class Safe {
  /** @param {string} value */
  constructor(value) {
    this.value = value;
  }
}

/** Steps that one rendering may take: many times what a long conversation needs. */
const STEPS = 2_000_000;
/** Longest text that may come of it. */
const LONGEST = 2 ** 23;

/** Counts what a rendering does, so that one without end stops at the same place everywhere. */
export class Meter {
  #left = STEPS;

  /** @param {number} [steps] */
  spend(steps = 1) {
    this.#left -= steps;
    if (this.#left < 0) throw templateError(`it goes on without end (${STEPS.toLocaleString('en')} steps)`);
  }

  /** A text that was made. @param {string} text */
  text(text) {
    if (text.length > LONGEST) throw templateError(`a text of ${text.length.toLocaleString('en')} characters`);
    this.spend(1 + (text.length >> 6));
    return text;
  }

  /** Before `count` elements, or characters, are made. @param {number} count */
  room(count) {
    if (!(count <= LONGEST)) throw templateError(`${count.toLocaleString('en')} elements at once`);
    this.spend(1 + (count >> 6));
  }
}

/** @param {any} value @returns {string} its type, as Python names it */
export function typeOf(value) {
  if (value === null) return 'NoneType';
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Float) return 'float';
  if (value instanceof Tuple) return 'tuple';
  if (value instanceof Lazy) return 'generator';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  return (
    { string: 'str', number: 'int', boolean: 'bool', function: 'function' }[/** @type {string} */ (typeof value)] ??
    'object'
  );
}

/** For an operation that an undefined value doesn't have. @param {any} value @returns {any} */
export function defined(value) {
  if (value instanceof Undefined) throw templateError(`${value.what} is undefined`);
  return value;
}

/** @param {any} value @returns {boolean} */
export function truth(value) {
  if (value instanceof Undefined) return false;
  if (value instanceof Float || value instanceof Safe) return Boolean(value.value);
  if (Array.isArray(value)) return value.length > 0 || value instanceof Lazy;
  return value instanceof Map ? value.size > 0 : Boolean(value);
}

/** @param {any} value */
export const isNumber = (value) => typeof value === 'number' || typeof value === 'boolean' || value instanceof Float;
/** @param {any} value @returns {number} */
export const numberOf = (value) => (value instanceof Float ? value.value : Number(value));
/** @param {any} value */
export const isText = (value) => typeof value === 'string' || value instanceof Safe;

/** @param {any} a @param {any} b @param {Meter} meter @returns {boolean} */
export function equal(a, b, meter) {
  meter.spend();
  if (isNumber(a) && isNumber(b)) return numberOf(a) === numberOf(b);
  if (isText(a) && isText(b)) return plain(a) === plain(b);
  if (a instanceof Undefined) return b instanceof Undefined;
  if (Array.isArray(a)) {
    return (
      Array.isArray(b) && typeOf(a) === typeOf(b) && a.length === b.length && a.every((x, i) => equal(x, b[i], meter))
    );
  }
  if (a instanceof Map)
    return (
      b instanceof Map && a.size === b.size && [...a].every(([key, x]) => b.has(key) && equal(x, b.get(key), meter))
    );
  return a === b;
}

/** Less than 0, 0 or more, as `a` is less than `b`, equal or more. @param {any} a @param {any} b @param {Meter} meter @returns {number} */
export function compare(a, b, meter) {
  meter.spend();
  if (isNumber(a) && isNumber(b)) return numberOf(a) - numberOf(b);
  if (isText(a) && isText(b)) {
    const [x, y] = [plain(a), plain(b)];
    return x < y ? -1 : Number(x > y);
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let i = 0; i < a.length && i < b.length; i++) {
      const order = compare(a[i], b[i], meter);
      if (order) return order;
    }
    return a.length - b.length;
  }
  throw templateError(`${typeOf(defined(a))} and ${typeOf(defined(b))} can't be compared`);
}

/** The elements of what can be gone through. @param {any} value @returns {any[]} */
export function elements(value) {
  if (Array.isArray(value)) return value;
  if (value instanceof Map) return [...value.keys()];
  if (isText(value)) return Array.from(plain(value));
  if (value instanceof Undefined) return [];
  throw templateError(`a ${typeOf(value)} can't be gone through`);
}

/** @param {number} value */
const floatText = (value) => {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
  }
  return Number.isInteger(value) ? `${Object.is(value, -0) ? '-0' : value}.0` : String(value);
};

const SHORT = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** @param {string} text */
function quoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = text.replace(/[\\\p{Cc}\xa0\xad'"]/gu, (c) => {
    if (c === '"' || c === "'") return c === quote ? `\\${c}` : c;
    return SHORT[/** @type {keyof typeof SHORT} */ (c)] ?? `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
  return quote + body + quote;
}

/** A text without its mark. @param {any} value */
export const plain = (value) => (value instanceof Safe ? value.value : value);

/** As Python's `repr`. @param {any} value @param {Meter} meter @returns {string} */
export function repr(value, meter) {
  if (isText(value)) return meter.text(quoted(plain(value)));
  if (Array.isArray(value)) {
    const items = value.map((item) => repr(item, meter)).join(', ');
    return meter.text(value instanceof Tuple ? `(${items}${value.length === 1 ? ',' : ''})` : `[${items}]`);
  }
  if (value instanceof Map) {
    return meter.text(`{${[...value].map(([key, item]) => `${repr(key, meter)}: ${repr(item, meter)}`).join(', ')}}`);
  }
  return value instanceof Undefined ? 'Undefined' : str(value, meter);
}

/** As it is printed. @param {any} value @param {Meter} meter @returns {string} */
export function str(value, meter) {
  if (isText(value)) return plain(value);
  if (value === null) return 'None';
  if (value === true || value === false) return value ? 'True' : 'False';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : String(BigInt(value));
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Undefined) return '';
  if (value instanceof Lazy) return '<generator object>';
  if (Array.isArray(value) || value instanceof Map) return repr(value, meter);
  return value instanceof Namespace ? '<Namespace>' : '<function>';
}

/** What a caller gave, as values of a template. @param {any} value @returns {any} */
export function fromJson(value) {
  if (value === undefined) return new Undefined('a value');
  if (typeof value === 'number') return Number.isInteger(value) ? value : new Float(value);
  if (Array.isArray(value)) return value.map(fromJson);
  if (value !== null && typeof value === 'object') {
    return new Map(
      Object.entries(value)
        .filter(([, v]) => v !== undefined)
        .map(([key, v]) => [key, fromJson(v)]),
    );
  }
  return value;
}

/**
 * As Python's `json.dumps(value, ensure_ascii=False, …)`.
 * @param {any} value @param {{ indent: string, item: string, key: string, sort: boolean, ascii: boolean }} how @param {Meter} meter
 * @param {string} [margin] @returns {string}
 */
export function json(value, how, meter, margin = '') {
  meter.spend();
  if (isText(value)) {
    const text = JSON.stringify(plain(value)).replace(/\\u(d[89a-f]..)/g, (_, hex) =>
      String.fromCharCode(parseInt(hex, 16)),
    );
    return how.ascii
      ? text.replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : text;
  }
  if (value === null) return 'null';
  if (value instanceof Float)
    return { inf: 'Infinity', '-inf': '-Infinity', nan: 'NaN' }[floatText(value.value)] ?? floatText(value.value);
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const list = Array.isArray(value) && !(value instanceof Lazy);
  if (!list && !(value instanceof Map)) throw templateError(`a ${typeOf(defined(value))} is no JSON`);
  const inner = how.indent ? `${margin}${how.indent}` : '';
  let parts;
  if (list) parts = value.map((item) => json(item, how, meter, inner));
  else {
    const entries = how.sort ? [...value].sort(([a], [b]) => compare(a, b, meter)) : [...value];
    parts = entries.map(([key, item]) => json(str(key, meter), how, meter) + how.key + json(item, how, meter, inner));
  }
  const [open, close] = list ? '[]' : '{}';
  if (!parts.length) return open + close;
  if (!how.indent) return meter.text(open + parts.join(how.item) + close);
  return meter.text(`${open}\n${inner}${parts.join(`${how.item}\n${inner}`)}\n${margin}${close}`);
}
