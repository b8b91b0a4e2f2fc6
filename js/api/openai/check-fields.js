/** Members of objects in a request, checked by their names. */
import { BqError } from '../../shared/errors.js';
import { object } from '../../shared/checks.js';
import { checkBy, wrong } from '../../shared/options.js';

/** @import { Options } from '../../shared/checks.js' */

/** ARGUMENT. @param {string} param @param {string} message @param {string} [hint] */
export const refuse = (param, message, hint) => new BqError('ARGUMENT', message, { hint, details: { param } });

/** The object without members that are null, which count as not given. @param {object} value @returns {Record<string, any>} */
export const withoutNulls = (value) =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));

/** Members of an object in a request: what is unknown or wrong is refused with the whole path as its name. @param {string} at @param {Options} checks @param {any} value @returns {Record<string, any>} */
export function membersOf(at, checks, value) {
  if (object(value)) throw wrong(at, value, 'an object');
  try {
    return checkBy(checks, at, withoutNulls(value));
  } catch (error) {
    if (error instanceof BqError) error.details.param = `${at}.${error.details.param}`;
    throw error;
  }
}
