/** Errors of grammars, schemas and regular expressions. */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';

/**
 * Creates the error for a format, schema or expression that is invalid or not supported.
 * @param {string} message @param {string} [hint]
 */
export const grammarError = (message, hint = 'see docs/reference/generation.md') =>
  new BqError('GRAMMAR', message, { hint });

/**
 * Throws GRAMMAR if a string contains half of a surrogate pair, which UTF-8 cannot encode.
 * @param {string} subject  of the message
 * @param {string} text
 */
export function checkCharacters(subject, text) {
  if (/\p{Cs}/u.test(text))
    throw grammarError(`${subject} has a lone surrogate, which is not a character: ${shown(text)}`);
}

/**
 * Creates the error for a grammar that exceeds a limit of size or of work.
 * @param {string} subject  of the message
 */
export const tooLargeError = (subject) =>
  grammarError(
    `${subject} needs too many states`,
    'make it smaller: fewer alternatives, or lower limits of repetition',
  );
