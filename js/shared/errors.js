/**
 * Errors that say what happened, where, and what to do.
 *
 * Aborts are no BqError: they throw the signal's own reason, an AbortError unless the caller chose another.
 */

import { ERRORS } from './error-codes.js';

/** @import { ErrorRow } from './error-codes.js' */
/** @import { ErrorCode } from './types.js' */

/** Characters of a word (an address, a path, a name) and of a text that are quoted whole. */
const MAX_WORD = 400;
const MAX_TEXT = 4000;

/** @param {string} text @param {number} max @returns {string} the beginning and the end of a text that is longer */
const middleCut = (text, max) => (text.length > max ? `${text.slice(0, max / 2)}…${text.slice(-max / 8)}` : text);

/**
 * A text of an error. What it quotes may be long: a `data:` address can be a whole model, for which regular expressions of words run
 * out of stack. @param {unknown} text
 */
export const shortened = (text) =>
  middleCut(
    String(text)
      .split(/(\s)/)
      .map((word) => middleCut(word, MAX_WORD))
      .join(''),
    MAX_TEXT,
  );

/** What went wrong, in a form that programs (`code`) and people (`message`, `hint`) can use. */
export class BqError extends Error {
  /** By its name: parts of the package that are loaded on demand have a class of their own. @override @param {any} value */
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
    /** What to do about it. */
    this.hint = shortened(fields.hint ?? row.hint ?? '');
    /** Numbers behind the message: `{ status }`, `{ tokens, context }`, `{ bytes }`, … @type {Record<string, any>} */
    this.details = { ...fields.details };
    // `text` is that of a reply, which stands nowhere else.
    for (const name in this.details)
      if (typeof this.details[name] === 'string' && name !== 'text') this.details[name] = shortened(this.details[name]);
  }
}

/**
 * A module that not every page needs: `await onDemand(import('./x.js'))`, whose address bundlers can read. NETWORK where the
 * browser says only TypeError. Firefox asks for such a module never again until the page is reloaded; others do.
 * @template T @param {Promise<T>} module @returns {Promise<T>}
 */
export const onDemand = (module) =>
  module.catch((cause) => {
    throw new BqError('NETWORK', `a part of bq4 could not be loaded: ${cause.message}`, {
      cause,
      hint: 'check the connection and try again, or reload the page',
    });
  });

/** What was thrown, as a text: anything can be, also an object that has none. @param {unknown} thrown @returns {string} */
export function thrownText(thrown) {
  try {
    return String(/** @type {any} */ (thrown)?.message || thrown);
  } catch {
    return 'an object';
  }
}

/**
 * Errors as messages between threads: DOMExceptions and class identities don't survive everywhere.
 * @param {unknown} error
 * @param {number} [depth]  causes of causes that are told
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
