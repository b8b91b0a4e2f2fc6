/**
 * Errors of the package: the cause, the place in a file, and a hint for the user.
 *
 * An abort does not throw a BqError. It throws the signal's reason, which is an AbortError unless the caller chose
 * another.
 */

import { ERRORS } from './error-codes.js';

/** @import { ErrorRow } from './error-codes.js' */
/** @import { ErrorCode } from './types.js' */

/** Largest number of characters of a word (an address, a path, a name) and of a text that are quoted unshortened. */
const MAX_WORD = 400;
const MAX_TEXT = 4000;

/**
 * Replaces the middle of a text that is longer than `max` by an ellipsis.
 * @param {string} text
 * @param {number} max
 * @returns {string}
 */
const middleCut = (text, max) => (text.length > max ? `${text.slice(0, max / 2)}…${text.slice(-max / 8)}` : text);

/**
 * Shortens the words and the whole of a message. A quoted `data:` address can contain a whole model. (For such lengths,
 * regular expressions that match words run out of stack.)
 * @param {unknown} text
 */
export const shortened = (text) =>
  middleCut(
    String(text)
      .split(/(\s)/)
      .map((word) => middleCut(word, MAX_WORD))
      .join(''),
    MAX_TEXT,
  );

/** An error with a `code` for programs, and with a `message` and a `hint` for people. */
export class BqError extends Error {
  /** Node prints it with the message. Bundles shorten the name of the class. @override */
  static name = 'BqError';

  /**
   * Compares names, because parts of the package that are loaded on demand have their own copy of the class.
   * @override @param {any} value
   */
  static [Symbol.hasInstance](value) {
    return value instanceof Error && value.name === 'BqError';
  }

  /**
   * @param {ErrorCode} code
   * @param {string} message
   * @param {{ offset?: number | null, hint?: string, details?: Record<string, any>, cause?: unknown }} [fields]
   */
  constructor(code, message, fields = {}) {
    super(shortened(message), fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = 'BqError';
    this.code = code;
    /** @type {ErrorRow} */
    const row = ERRORS[code] ?? { group: 'environment' };
    this.group = row.group;
    /** Byte offset in the file, or null. */
    this.offset = fields.offset ?? null;
    /** Advice for the user. */
    this.hint = shortened(fields.hint ?? row.hint ?? '');
    /** Facts for programs: `{ status }`, `{ tokens, context }`, `{ bytes }`, … @type {Record<string, any>} */
    this.details = { ...fields.details };
    // `text` is the text of a reply and is not shortened, because it is available nowhere else.
    for (const name in this.details)
      if (typeof this.details[name] === 'string' && name !== 'text') this.details[name] = shortened(this.details[name]);
  }
}

/**
 * Waits for a module that is loaded on demand: `await onDemand(import('./x.js'))`. The literal address is visible to
 * bundlers. Throws NETWORK in place of the browser's TypeError. After such a failure, Firefox does not request the
 * module again until the page is reloaded. Other browsers request it again.
 * @template T @param {Promise<T>} module @returns {Promise<T>}
 */
export const onDemand = (module) =>
  module.catch((cause) => {
    throw new BqError('NETWORK', `a module of bq4 can't be loaded: ${cause.message}`, {
      cause,
      hint: 'check the connection, and reload the page',
    });
  });

/**
 * Returns the text of a thrown value, which may be any value, including objects that can't be converted to a string.
 * @param {unknown} thrown
 * @returns {string}
 */
export function thrownText(thrown) {
  try {
    return String(/** @type {any} */ (thrown)?.message || thrown);
  } catch {
    return 'an object';
  }
}

/**
 * Converts an error to an object that can be posted to another thread. (Structured cloning loses DOMExceptions and
 * class identities in some environments.)
 * @param {unknown} error
 * @param {number} [depth]  number of levels of causes to include
 * @returns {object}
 */
export function packError(error, depth = 3) {
  const isError = error instanceof Error || error instanceof DOMException;
  const e = /** @type {any} */ (isError ? error : new Error(thrownText(error)));
  const { name, message, code, offset, hint, details } = e;
  const cause = e.cause === undefined || !depth ? undefined : packError(e.cause, depth - 1);
  return { name, message, cause, ...(e instanceof BqError && { code, offset, hint, details }) };
}

/**
 * Creates an error from the result of `packError`.
 * @param {any} packed
 * @returns {Error}
 */
export function unpackError(packed) {
  const { name, message } = packed;
  const cause = packed.cause && unpackError(packed.cause);
  if (name === 'BqError') return new BqError(packed.code, message, { ...packed, cause });
  if (name === 'AbortError') return new DOMException(message, 'AbortError');
  return Object.assign(new Error(message, cause && { cause }), { name });
}
