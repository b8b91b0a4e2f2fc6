/**
 * Converts the return value or the error of a tool's function to the content of a message. Values that JSON would
 * ignore are converted to values that it can represent, or refused.
 */
import { thrownText } from '../../shared/errors.js';

/** @param {string} found @param {string} hint */
const refuse = (found, hint) => new TypeError(`expected a result that JSON can represent, found ${found}: ${hint}`);

/** Whether a value is an error, including errors from another realm. @param {any} value */
const isError = (value) => value instanceof Error || Object.prototype.toString.call(value) === '[object Error]';

/** Whether a value is a class instance without members that JSON would write, such as a Response. @param {any} value */
function isOpaque(value) {
  if (Array.isArray(value) || typeof value.valueOf?.() !== 'object') return false; // JSON writes `new Number(5)` as 5
  const prototype = Object.getPrototypeOf(value);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return !isPlain && Object.keys(value).length === 0;
}

/**
 * Converts a value to one that JSON can represent. Functions in an object are ignored as its methods.
 * @param {any} value
 */
function toPlain(value) {
  if (typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value))) return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (isError(value)) return { name: value.name, message: value.message, ...value };
  if (value instanceof Set) return [...value];
  if (value instanceof Map) {
    const entries = [...value];
    return entries.every(([key]) => typeof key === 'string') ? Object.fromEntries(entries) : entries;
  }
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return Array.from(/** @type {any} */ (value));
  if (isOpaque(value)) {
    const tag = Object.prototype.toString.call(value).slice('[object '.length, -1);
    throw refuse(`an object of the class ${tag === 'Object' ? value.constructor?.name : tag}`, 'return its content');
  }
  return value;
}

/**
 * Returns a value as JSON. Throws a TypeError for a value that contains itself or is nested too deeply, also through
 * maps and sets, whose copies JSON.stringify would follow without end.
 * @param {any} value
 * @returns {string | undefined}
 */
function jsonOf(value) {
  /** The objects from the root to the holder of the current value, each with its copy. @type {[any, any][]} */
  const path = [];
  try {
    // JSON.stringify calls `toJSON` before this replacer, and passes the copy that holds the member as `this`.
    return JSON.stringify(
      value,
      /** @this {any} */ function (_, member) {
        while (path.length && path[path.length - 1][1] !== this) path.pop();
        if (path.some(([original]) => original === member))
          throw refuse('an object that contains itself', 'return an object without references to its parents');
        const plain = toPlain(member);
        if (typeof plain === 'object' && plain) path.push([member, plain]);
        return plain;
      },
    );
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw refuse('an object that is nested too deeply', 'return a flatter object');
  }
}

/**
 * Converts a return value to the content of a message. An error that was returned is thrown. Throws a TypeError for
 * values that JSON can't represent.
 * @param {any} value
 * @returns {string}
 */
export function contentOf(value) {
  if (typeof value === 'string') return value;
  if (value === undefined) return ''; // a function that returns nothing
  if (isError(value)) throw value;
  if (typeof value === 'function' || typeof value === 'symbol')
    throw refuse(`a ${typeof value}`, 'return a string or a plain object');
  const json = jsonOf(value);
  // `toPlain` writes some numbers as strings. On their own they need no quotes.
  return typeof value === 'bigint' || typeof value === 'number' ? String(value) : (json ?? '');
}

/**
 * Returns the message of a thrown value; for an object of plain data, its JSON.
 * @param {any} thrown
 * @returns {string}
 */
export function failureOf(thrown) {
  const isData = typeof thrown === 'object' && thrown !== null && !isError(thrown) && !thrown.message;
  try {
    return isData ? JSON.stringify(thrown) : thrownText(thrown);
  } catch {
    return thrownText(thrown);
  }
}
