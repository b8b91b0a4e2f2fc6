/** Errors of grammars, schemas and regular expressions. */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';

/** An error in what the caller wrote, or a part of it that is not supported. @param {string} message @param {string} [hint] */
export const refused = (message, hint = 'see docs/reference/generation.md') =>
  new BqError('GRAMMAR', message, { hint });

/** GRAMMAR: a text has half of a surrogate pair, which UTF-8 can't have. @param {string} what  subject of the message @param {string} text */
export function checkCharacters(what, text) {
  if (/\p{Cs}/u.test(text))
    throw refused(`${what} has half of a surrogate pair, which is no character: ${shown(text)}`);
}

/** The error that a grammar exceeds a limit of size or of work. @param {string} what  subject of the message */
export const tooLarge = (what) =>
  refused(`${what} takes too many states`, 'make it smaller: fewer alternatives, or lower limits of repetition');
