/** Arguments of the calls in a template: of methods, filters, tests and macros. */
import { templateError } from './values.js';

/**
 * Arguments of a call: positional ones in order, named ones by name.
 * @typedef {{ at: any[], named: Map<string, any> }} Args
 */

/**
 * Returns the arguments of a call in the order of a signature. Missing ones are JavaScript's undefined.
 * @param {string} subject  of error messages
 * @param {Args} args
 * @param {string} signature  names of the parameters. Those with ? are optional; those after a / can be passed by name
 */
export function bindArguments(subject, { at, named }, signature) {
  const names = signature.split(' ').filter(Boolean);
  /** Index of the first parameter that can be passed by name, or -1. */
  const firstNamed = names.indexOf('/');
  const all = names.filter((name) => name !== '/');
  if (at.length > all.length)
    throw templateError(`${subject} takes at most ${all.length} arguments, found ${at.length}`);
  /** @type {any[]} */
  const values = all.map((_, i) => at[i]);
  for (const [name, value] of named) {
    const i = all.findIndex((parameter) => parameter.replace('?', '') === name);
    if (i < 0 || firstNamed < 0 || i < firstNamed) throw templateError(`${subject} has no named argument "${name}"`);
    if (i < at.length) throw templateError(`${subject} got two values for its argument "${name}"`);
    values[i] = value;
  }
  all.forEach((name, i) => {
    if (values[i] === undefined && !name.endsWith('?')) throw templateError(`${subject} needs the argument "${name}"`);
  });
  return values;
}
