/** Checks the members of objects in a request. */
import { BqError } from '../../shared/errors.js';
import { object } from '../../shared/checks.js';
import { checkBy, wrong } from '../../shared/check-options.js';

/** @import { Options } from '../../shared/checks.js' */

/** Creates the error ARGUMENT for a field. @param {string} param @param {string} message @param {string} [hint] */
export const refuse = (param, message, hint) => new BqError('ARGUMENT', message, { hint, details: { param } });

/**
 * Whether a name in an error is the path of a field, such as `tools[0].type`. Other names describe a value ("the name
 * of a tool").
 * @param {unknown} param
 */
export const isPath = (param) => typeof param === 'string' && /^[\w.[\]]+$/.test(param);

/**
 * Returns a function that throws an error again, with the name of a field if it is ARGUMENT and names none.
 * @param {string} param
 */
export const rethrowFor = (param) => (/** @type {any} */ error) => {
  if (error?.code === 'ARGUMENT' && !isPath(error.details.param)) error.details.param = param;
  throw error;
};

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
