/** Checks the option `chatFormat`. Loaded when a call has this option. */
import { BqError } from '../../shared/errors.js';
import { checkOptions } from '../../shared/options.js';
import { FORMAT_NAMES, formatNamed } from '../../text/templates/known-formats.js';

/** @import { ChatFormat } from '../../shared/types.js' */

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
  const { roles } = checkOptions('format', format);
  for (const role of Object.values(roles ?? {})) checkOptions('role', role);
  return checkFormat(format);
}
