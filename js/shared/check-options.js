/** Checks the options of a call: unknown names are refused with the nearest known one, values by what was expected. */
import { object } from './checks.js';
import { BqError } from './errors.js';

/** @import { Options } from './checks.js' */

/** Characters of a name that a suggestion is looked for. */
const LONGEST_NAME = 100;

/** Letters that must change to make `b` of `a`. @param {string} a @param {string} b */
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

/** @param {string} name @param {string[]} names @returns {string | undefined} the nearest, or the one that begins (else ends) most like it, if any is near; case and punctuation do not count */
export function nearest(name, names) {
  if (name.length > LONGEST_NAME) return undefined; // comparing takes as long as it is
  const plain = (/** @type {string} */ text) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const sorted = (/** @type {string} */ text) => [...text].sort().join('');
  const target = plain(name);
  /** Infinity: not near. @param {string} candidate */
  const distanceTo = (candidate) => {
    const candidateText = plain(candidate);
    const [shorter, longer] = [target, candidateText].sort((a, b) => a.length - b.length);
    const { length } = shorter;
    const [end, ...beginnings] = [longer.slice(-length), longer.slice(0, length), longer.slice(0, length + 1)].map(
      (part) => distance(shorter, part),
    );
    const beginning = Math.min(...beginnings);
    const letters = Math.min(beginning, end);
    const all = sorted(target) === sorted(candidateText) ? 1 : distance(target, candidateText); // letters changed places
    return Math.min(
      all < target.length / 2 ? all : Infinity,
      length > 1 && letters <= length / 4
        ? letters + 0.4 * (longer.length - length) + 0.1 * Number(end < beginning)
        : Infinity,
    );
  };
  const near = names.filter((candidate) => distanceTo(candidate) < Infinity);
  return near.sort((a, b) => distanceTo(a) - distanceTo(b))[0];
}

/** @param {unknown} value */
function shown(value) {
  if (value === undefined) return 'nothing';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value); // NaN is null as JSON
  if (typeof value === 'function') return 'a function';
  try {
    const json = ArrayBuffer.isView(value) ? '{}' : (JSON.stringify(value) ?? String(value));
    // Objects that JSON knows nothing of, as a Response.
    return json === '{}' ? Object.prototype.toString.call(value).replace('[object Object]', json) : json.slice(0, 60);
  } catch {
    return typeof value;
  }
}

/** ARGUMENT: a value of the wrong kind. @param {string} name @param {unknown} value @param {string} expected */
export const wrong = (name, value, expected) =>
  new BqError('ARGUMENT', `${name}: expected ${expected}, found ${shown(value)}`, { details: { param: name } });

/**
 * The options that were given, without those that are undefined. ARGUMENT, with the name as `details.param`.
 * @template {object} T
 * @param {Options} checks  what there is
 * @param {string} call  whose options they are
 * @param {T | undefined} options
 * @returns {T}
 */
export function checkBy(checks, call, options) {
  if (options !== undefined && object(options))
    throw wrong(`the last argument of ${call}`, options, 'an object of options');
  const entries = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
  for (const [name, value] of entries) {
    const names = Object.keys(checks);
    if (!Object.hasOwn(checks, name)) {
      const suggestion = nearest(name, names);
      const question = suggestion ? `; did you mean "${suggestion}"?` : '';
      throw new BqError('ARGUMENT', `${call}: unknown option "${name}"${question}`, {
        hint: `${call} takes ${names.join(', ')}`,
        details: { param: name },
      });
    }
    const expected = checks[name](value);
    if (expected) throw wrong(name, value, expected);
  }
  return /** @type {T} */ (Object.fromEntries(entries));
}
