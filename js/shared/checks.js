/** Checks of option values. */

/** @import { Adapter, Model } from './types.js' */

/**
 * Returns '' if a value is a valid T, otherwise a description of the expected value. It may be called with any value.
 * @template [T=any]
 * @typedef {(value: T) => string} Check
 */
/** @typedef {Record<string, Check>} Options */

/** Creates a check. @param {string} expected @param {(value: any) => boolean} isValid @returns {Check} */
export const kind = (expected, isValid) => (value) => (isValid(value) ? '' : expected);

/** @param {number} minimum @param {number} [maximum] @returns {Check<number>} */
export const number = (minimum, maximum = Infinity) =>
  kind(
    maximum < Infinity ? `a number from ${minimum} to ${maximum}` : `a number of at least ${minimum}`,
    (v) => Number.isFinite(v) && v >= minimum && v <= maximum,
  );
/** @param {number} minimum @param {number} [maximum] @returns {Check<number>} */
export const integer = (minimum, maximum = 2 ** 32 - 1) =>
  kind(`an integer from ${minimum} to ${maximum}`, (v) => Number.isInteger(v) && v >= minimum && v <= maximum);
/** @template {string} T @param {T[]} names @returns {Check<T>} */
export const oneOf = (...names) => kind(`one of ${names.join(', ')}`, (v) => names.includes(v));

export const anyValue = () => '';
/** @type {Check<boolean>} */
export const flag = kind('true or false', (v) => typeof v === 'boolean');
export const text = kind('a string', (v) => typeof v === 'string');
/** @type {Check<AbortSignal>} */
export const signal = kind(
  'an AbortSignal',
  (v) => [v?.throwIfAborted, v?.addEventListener].every((method) => typeof method === 'function') && !flag(v.aborted),
);
/** Whether a value is a port or a Worker. */
export const isPort = (/** @type {any} */ v) =>
  [v?.postMessage, v?.terminate ?? v?.close].every((method) => typeof method === 'function');
export const worker = kind(
  'a Worker, or a function that creates one',
  (v) => !v || typeof v === 'function' || isPort(v),
);
export const callback = kind('a function', (v) => typeof v === 'function');
export const bytes = kind('a number of bytes', (v) => typeof v === 'number' && v > 0);
/** @type {Check<number>} */
export const tokenCount = kind(
  'an integer of at least 0, or Infinity',
  (v) => v === Infinity || !integer(0, Number.MAX_SAFE_INTEGER)(v),
);
/** Infinity means no limit. */
export const milliseconds = kind('a number of milliseconds', (v) => typeof v === 'number' && v >= 0);
export const address = kind('an address', (v) => !text(v) || v instanceof URL);
export const addresses = kind('a list of addresses', (v) => Array.isArray(v) && v.every((item) => !address(item)));
export const texts = kind('a string or a list of strings', (v) => [v].flat().every((t) => !text(t)));
/**
 * A reply never contains half of a surrogate pair (\p{Cs}), so such a stop string would have no effect.
 * @type {Check<string | string[]>}
 */
export const stopTexts = kind('a non-empty well-formed string or a list of them', (v) =>
  [v].flat().every((t) => !text(t) && /^\P{Cs}+$/u.test(t)),
);
/** @type {Check<number[]>} */
export const tokenList = kind('a list of token ids', (v) => Array.isArray(v) && v.every((id) => !integer(0)(id)));
/** @type {Check<number>} */
export const rate = kind('a number above 0', (v) => typeof v === 'number' && v > 0);
/** @type {Check<number | Date>} */
export const deadline = kind('a number of milliseconds or a Date', (v) =>
  v instanceof Date ? !Number.isNaN(v.getTime()) : !milliseconds(v),
);
export const threads = kind('"auto" or an integer from 1 to 32', (v) => v === 'auto' || !integer(1, 32)(v));
/** Lists, Maps and Promises are refused: their own properties are not their contents, which would be ignored. */
export const object = kind('an object', (v) => typeof v === 'object' && v && !v[Symbol.iterator] && !v.then?.call);

export const objects = kind('a list of objects', (v) => Array.isArray(v) && v.every((item) => !object(item)));
export const chatFormat = kind('a name or an object', (v) => !text(v) || !object(v));

/** @type {Check<{ token: number, bias: number }[]>} */
export const biases = kind(
  'a list of { token, bias }',
  (v) =>
    Array.isArray(v) &&
    v.every((item) =>
      isObjectOf(
        { token: -1, bias: NaN, ...item },
        { token: integer(0), bias: (n) => (typeof n === 'number' && n < Infinity ? '' : 'a number') },
      ),
    ),
);

export const fileOrFlag = kind(
  'true, false or the source of a file',
  (v) => typeof v === 'boolean' || (v && !address(v)) || v?.kind || v?.byteLength >= 0 || v instanceof Blob,
);

/** A loaded adapter, its id, or null for none. @type {Check<Adapter | null>} */
export const adapter = kind('an adapter', (v) => v === null || !text(v?.info?.id ?? v));

/**
 * Whether a value is an object with valid values and without unknown properties.
 * @param {any} v
 * @param {Options} checks
 */
export const isObjectOf = (v, checks) =>
  !object(v) && Object.keys(v).every((name) => Object.hasOwn(checks, name) && checks[name](v[name]) === '');

/**
 * Options of speculative decoding. `model` is checked like an adapter: a loaded model, its id, or null.
 * @type {Options}
 */
export const SPECULATE = { tokens: integer(1, 31), model: adapter };
/** @type {Check<'auto' | boolean | { tokens?: number, model?: Model | null }>} */
export const speculation = kind(
  '"auto", true, false, or { tokens: 1 to 31, model }',
  (v) => v === 'auto' || !flag(v) || (isObjectOf(v, SPECULATE) && Object.keys(v).length > 0),
);

/** Parts of a model that a session skips for more speed. @type {Options} */
export const QUALITY = { skipLayers: tokenList, exitLayer: integer(1), lmHeadFraction: rate };
export const quality = kind('{ skipLayers, exitLayer, lmHeadFraction }', (v) => isObjectOf(v, QUALITY));

export const contextPolicy = oneOf('error', 'shift', 'summarize');
