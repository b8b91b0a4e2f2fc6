/** Checks the option `chatFormat`. Loaded when a call has this option. */
import { BqError } from '../../shared/errors.js';
import { flag, kind, object, text, texts } from '../../shared/checks.js';
import { checkBy } from '../../shared/options.js';
import { FORMAT_NAMES, formatNamed } from '../../text/templates/known-formats.js';

/** @import { ChatFormat } from '../../shared/types.js' */

const FORMAT = {
  roles: object,
  start: text,
  prompt: text,
  trim: flag,
  stop: texts,
  bos: flag,
  think: kind(
    'two non-empty strings',
    (v) => Array.isArray(v) && v.length === 2 && v.every((mark) => mark && !text(mark)),
  ),
};
const ROLE = { before: text, after: text, opens: flag };

/**
 * Returns a known chat format by its name, or the given object after checking it. Throws ARGUMENT, FORMAT.
 * @param {ChatFormat | string} format @param {(format: any) => ChatFormat} checkFormat
 */
export async function checkCustomFormat(format, checkFormat) {
  if (typeof format === 'string') {
    const knownFormat = formatNamed(format);
    if (knownFormat) return knownFormat;
    throw new BqError('ARGUMENT', `unknown chat format "${format}"`, {
      hint: `pass an object or one of ${FORMAT_NAMES.join(', ')}`,
    });
  }
  const { roles } = checkBy(FORMAT, 'format', format);
  for (const role of Object.values(roles ?? {})) checkBy(ROLE, 'role', role);
  return checkFormat(format);
}
