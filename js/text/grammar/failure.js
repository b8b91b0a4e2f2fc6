/** What a grammar, schema or expression can be refused by. */
import { BqError } from '../../shared/errors.js';

/** Written wrongly, or with something that can't be held. @param {string} message @param {string} [hint] */
export const refused = (message, hint = 'see docs/reference/generation.md') =>
  new BqError('GRAMMAR', message, { hint });

/** @param {string} what */
export const tooLarge = (what) =>
  refused(`${what} takes too many states`, 'make it smaller: fewer alternatives, or smaller limits of repetition');
