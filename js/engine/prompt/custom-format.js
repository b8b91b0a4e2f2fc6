/** A chat format that a caller gave. Loaded when somebody gives one. */
import { BqError } from '../../shared/errors.js';
import { checkOptions } from '../../shared/options.js';
import { FORMAT_NAMES, formatNamed } from '../../text/templates/known-formats.js';

/** @import { ChatFormat } from '../../shared/types.js' */

/**
 * Unknown names in it are most likely mistyped. ARGUMENT, FORMAT.
 * @param {ChatFormat | string} format  that a caller gave @param {(format: any) => ChatFormat} checkFormat
 */
export async function checkGiven(format, checkFormat) {
  if (typeof format === 'string') {
    const named = formatNamed(format);
    if (named) return named;
    throw new BqError('ARGUMENT', `no chat format is called "${format}"`, {
      hint: `there are ${FORMAT_NAMES.join(', ')}`,
    });
  }
  const { roles } = checkOptions('format', format);
  for (const role of Object.values(roles ?? {})) checkOptions('role', role);
  return checkFormat(format);
}
