/** Checks the members of objects in a request. */
import { BqError } from '../../shared/errors.js';
import { object } from '../../shared/checks.js';
import { checkBy, wrong } from '../../shared/options.js';

/** @import { Options } from '../../shared/checks.js' */

/** Creates the error ARGUMENT for a field. @param {string} param @param {string} message @param {string} [hint] */
export const refuse = (param, message, hint) => new BqError('ARGUMENT', message, { hint, details: { param } });

/**
 * Returns a copy of an object without members that are null: null counts as missing.
 * @param {object} value
 * @returns {Record<string, any>}
 */
export const withoutNulls = (value) =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));

/**
 * Checks an object in a request and returns its members. Throws ARGUMENT for unknown or invalid members, with their
 * full path in `details.param`.
 * @param {string} at  path of the object
 * @param {Options} checks
 * @param {any} value
 * @returns {Record<string, any>}
 */
export function membersOf(at, checks, value) {
  if (object(value)) throw wrong(at, value, 'an object');
  try {
    return checkBy(checks, at, withoutNulls(value));
  } catch (error) {
    if (error instanceof BqError) error.details.param = `${at}.${error.details.param}`;
    throw error;
  }
}
