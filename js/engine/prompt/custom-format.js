/** Checks the option `chatFormat`. Loaded when a call has it. */
import { BqError } from '../../shared/errors.js';
import { checkOptions } from '../../shared/options.js';
import { FORMAT_NAMES, formatNamed } from '../../text/templates/known-formats.js';

/** @import { ChatFormat } from '../../shared/types.js' */

/**
 * A known format by its name, or a checked object. ARGUMENT, FORMAT.
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
