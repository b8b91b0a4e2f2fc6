/** Errors of storage, with what to do about each. */
import { BqError } from '../../shared/errors.js';

const HINTS = {
  QUOTA: 'free some storage, delete models that are not needed, or go on without a cache',
  STORAGE: 'the model works without it, but will be fetched again next time',
  IN_USE: 'close the model, also in other tabs, and try again',
};

/** @param {keyof typeof HINTS} code @param {string} message @param {{ details?: Record<string, any>, cause?: unknown }} [more] */
export const storageError = (code, message, more) => new BqError(code, message, { hint: HINTS[code], ...more });
