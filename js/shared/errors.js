/**
 * Errors that say what happened, where, and what to do.
 *
 * Aborts are no BqError: they throw the signal's own reason, an AbortError unless the caller chose another.
 */

/** @import { ErrorCode } from './types.js' */

/** Hints for the codes that come from JavaScript; C brings its own with each status, as does storage. */
const HINTS = {
  NETWORK: 'check the connection, and that the server allows this page to read the file (CORS)',
  HTTP_STATUS: 'check the address of the file',
  EXPIRED: 'get a new address for the file and load it again: what the cache has is not fetched twice',
  NOT_A_MODEL: 'the address or file is no .bq4 or .gguf model: convert one with "npx bq4 convert"',
  FORMAT: 'the file is malformed: fetch it again or convert it anew',
  TRUNCATED: 'the file ends too early: fetch it again',
  CHANGED: 'the file is being replaced: load it again',
  READ: 'the file was moved, changed or its permission withdrawn: choose it again',
  NOMEM: 'plan again with a smaller context, fewer sessions or a smaller model',
  NO_SIMD: 'needs WebAssembly SIMD: Chrome or Edge 91, Firefox 89, Safari 16.4, Node 16.4, or newer',
  NO_ENGINE: 'serve build/wasm/*.wasm of the same bq4 version beside its js/ folder, or pass wasmUrl',
  NO_WORKER: 'serve worker.js from the origin of the page, or pass { worker } (docs/guides/bundlers.md)',
  NO_SESSION: 'close a session, wait for a reply to end, or load the model with more sessions or forks',
  NO_CHAT: 'the model has no chat format: use createSession(), or pass { format: "chatml" } or another to createChat()',
  TRAP: 'the engine met a bug or damaged memory: close the model and load it again',
  CLOSED: 'it was closed: create a new one',
  STATE: 'wait for the running call to end, or abort it',
  GRAMMAR: 'see docs/reference/generation.md',
  ARGUMENT: 'see docs/reference',
  CONTEXT_FULL: 'start a new chat, or load the model with a larger context',
};

/** What went wrong, in a form that programs (`code`) and people (`message`, `hint`) can use. */
export class BqError extends Error {
  /** By its name: parts of the package that are loaded on demand have a class of their own. @override @param {any} value */
  static [Symbol.hasInstance](value) {
    return value instanceof Error && value.name === 'BqError';
  }

  /**
   * @param {ErrorCode} code
   * @param {string} message
   * @param {{ offset?: number | null, hint?: string, details?: Record<string, any>, cause?: unknown }} [more]
   */
  constructor(code, message, more = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'BqError';
    this.code = code;
    /** Byte offset in the file, or null. */
    this.offset = more.offset ?? null;
    /** What to do about it. */
    this.hint = more.hint ?? HINTS[/** @type {keyof typeof HINTS} */ (code)] ?? '';
    /** Numbers behind the message: `{ status }`, `{ tokens, context }`, `{ bytes }`, … @type {Record<string, any>} */
    this.details = more.details ?? {};
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

/**
 * Errors as messages between threads: DOMExceptions and class identities don't survive everywhere.
 * @param {unknown} error
 * @param {number} [depth]  causes of causes that are told
 * @returns {object}
 */
export function packError(error, depth = 3) {
  const known = error instanceof Error || error instanceof DOMException;
  const e = /** @type {any} */ (known ? error : new Error(String(error)));
  const { name, message, code, offset, hint, details } = e;
  const cause = e.cause === undefined || !depth ? undefined : packError(e.cause, depth - 1);
  return e instanceof BqError ? { name, message, cause, code, offset, hint, details } : { name, message, cause };
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
