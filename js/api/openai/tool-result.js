/** What a tool's function returned or threw, as the content of a message. What JSON would pass over becomes what it can hold, or is refused. */
import { thrownText } from '../../shared/errors.js';

/** @param {string} found @param {string} hint */
const refuse = (found, hint) => new TypeError(`expected a result that JSON can hold, found ${found}: ${hint}`);

/** Whether it is an error, also one of another realm. @param {any} value */
const isError = (value) => value instanceof Error || Object.prototype.toString.call(value) === '[object Error]';

/** Whether an object of a class has no members that JSON would write, as a Response. @param {any} value */
function isOpaque(value) {
  if (Array.isArray(value) || typeof value.valueOf?.() !== 'object') return false; // JSON writes `new Number(5)` as 5
  const prototype = Object.getPrototypeOf(value);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return !isPlain && Object.keys(value).length === 0;
}

/** Replacer of JSON.stringify, which has called `toJSON`. Functions among the members of an object are left out as its methods. @param {string} _ @param {any} value */
function toPlain(_, value) {
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
    throw refuse(`an object of the class ${tag === 'Object' ? value.constructor?.name : tag}`, 'return what it holds');
  }
  return value;
}

/** The content of a message. Throws an error that was returned, and a TypeError for what JSON can't hold. @param {any} value @returns {string} */
export function contentOf(value) {
  if (typeof value === 'string') return value;
  if (value === undefined) return ''; // a function that returns nothing
  if (isError(value)) throw value;
  if (typeof value === 'function' || typeof value === 'symbol')
    throw refuse(`a ${typeof value}`, 'return a text, or an object of data');
  const json = JSON.stringify(value, toPlain);
  // A number that is a text in JSON needs no quotes by itself.
  return typeof value === 'bigint' || typeof value === 'number' ? String(value) : (json ?? '');
}

/** What was thrown, as a text: of an object of data its JSON. @param {any} thrown @returns {string} */
export function failureOf(thrown) {
  const isData = typeof thrown === 'object' && thrown !== null && !isError(thrown) && !thrown.message;
  try {
    return isData ? JSON.stringify(thrown) : thrownText(thrown);
  } catch {
    return thrownText(thrown);
  }
}
