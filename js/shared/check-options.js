/** Checks the options of a call. An error for an unknown name suggests the most similar known name. */
import { anyValue, object } from './checks.js';
import { BqError } from './errors.js';

/** @import { Options } from './checks.js' */

/** Largest number of characters of a name for which a suggestion is searched. */
const LONGEST_NAME = 100;

/** Returns the edit distance (Levenshtein) of two strings. @param {string} a @param {string} b */
function distance(a, b) {
  let row = [...b, ''].map((_, i) => i);
  [...a].forEach((x, i) => {
    let last = i + 1;
    row = row.map((cellAbove, j) =>
      j ? (last = Math.min(cellAbove + 1, last + 1, row[j - 1] + Number(x !== b[j - 1]))) : last,
    );
  });
  return row[b.length];
}

/**
 * Returns the known name that is most similar to a misspelled one: by edit distance, or because it has a similar
 * beginning (or else end). Case and punctuation are ignored.
 * @param {string} name
 * @param {string[]} names
 * @returns {string | undefined}  undefined if no name is similar
 */
export function nearest(name, names) {
  if (name.length > LONGEST_NAME) return undefined; // the time of a comparison grows with the length
  const plain = (/** @type {string} */ text) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const sorted = (/** @type {string} */ text) => [...text].sort().join('');
  const target = plain(name);
  /** Returns Infinity if the candidate is not similar. @param {string} candidate */
  const distanceTo = (candidate) => {
    const candidateText = plain(candidate);
    const [shorter, longer] = [target, candidateText].sort((a, b) => a.length - b.length);
    const { length } = shorter;
    const [end, ...beginnings] = [longer.slice(-length), longer.slice(0, length), longer.slice(0, length + 1)].map(
      (part) => distance(shorter, part),
    );
    const beginning = Math.min(...beginnings);
    const letters = Math.min(beginning, end);
    const isPermutation = sorted(target) === sorted(candidateText);
    const editDistance = isPermutation ? 1 : distance(target, candidateText);
    return Math.min(
      editDistance < target.length / 2 ? editDistance : Infinity,
      length > 1 && letters <= length / 4
        ? letters + 0.4 * (longer.length - length) + 0.1 * Number(end < beginning)
        : Infinity,
    );
  };
  const near = names.filter((candidate) => distanceTo(candidate) < Infinity);
  return near.sort((a, b) => distanceTo(a) - distanceTo(b))[0];
}

/** Returns a value as text for an error message. @param {unknown} value */
function shown(value) {
  if (value === undefined) return 'undefined';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value); // NaN is null as JSON
  if (typeof value === 'function') return 'a function';
  try {
    const json = ArrayBuffer.isView(value) ? '{}' : (JSON.stringify(value) ?? String(value));
    // Objects without JSON content, such as a Response, are named by their class.
    return json === '{}' ? Object.prototype.toString.call(value).replace('[object Object]', json) : json.slice(0, 60);
  } catch {
    return typeof value;
  }
}

/**
 * Creates the error ARGUMENT for a value of the wrong type.
 * @param {string} name
 * @param {unknown} value
 * @param {string} expected
 */
export const wrong = (name, value, expected) =>
  new BqError('ARGUMENT', `${name}: expected ${expected}, found ${shown(value)}`, { details: { param: name } });

/**
 * Checks the options of a call. Returns a copy without undefined values. Throws ARGUMENT, with the option's name in
 * `details.param`.
 * @template {object} T
 * @param {Options} checks  checks by the names of all known options
 * @param {string} call  name of the call, for messages
 * @param {T | undefined} options
 * @returns {T}
 */
export function checkBy(checks, call, options) {
  if (options !== undefined && object(options))
    throw wrong(`the last argument of ${call}`, options, 'an options object');
  const entries = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
  for (const [name, value] of entries) {
    const names = Object.keys(checks);
    if (!Object.hasOwn(checks, name)) {
      const suggestion = nearest(name, names);
      const question = suggestion ? `; did you mean "${suggestion}"?` : '';
      throw new BqError('ARGUMENT', `${call}: unknown option "${name}"${question}`, {
        hint: `options of ${call}: ${names.join(', ')}`,
        details: { param: name },
      });
    }
    const expected = checks[name](value);
    if (expected) throw wrong(name, value, expected);
  }
  return /** @type {T} */ (Object.fromEntries(entries));
}

/**
 * Checks the names of options, but not their values. Returns a copy without undefined values. Throws ARGUMENT.
 * @template {object} T
 * @param {string} call  name of the call, for messages
 * @param {readonly string[]} names
 * @param {T | undefined} options
 * @returns {T}
 */
export const checkNames = (call, names, options) =>
  checkBy(Object.fromEntries(names.map((name) => [name, anyValue])), call, options);
