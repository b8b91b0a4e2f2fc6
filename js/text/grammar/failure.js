/** Errors of grammars, schemas and regular expressions. */
import { BqError } from '../../shared/errors.js';

/** An error in what the caller wrote, or a part of it that is not supported. @param {string} message @param {string} [hint] */
export const refused = (message, hint = 'see docs/reference/generation.md') =>
  new BqError('GRAMMAR', message, { hint });

/** The error that a grammar exceeds a limit of size or of work. @param {string} what  subject of the message */
export const tooLarge = (what) =>
  refused(`${what} takes too many states`, 'make it smaller: fewer alternatives, or lower limits of repetition');
