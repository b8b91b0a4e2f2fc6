/** What a file is that is no model. */
import { BqError } from './errors.js';

/** @import { ByteSource } from './sources/types.js' */

/**
 * @param {ByteSource} file
 * @param {Uint8Array} head
 */
export function notAModel(file, head) {
  const text = String.fromCharCode(...head.subarray(0, 256));
  if (!head.length) return new BqError('TRUNCATED', `${file.name} is empty`);
  const page = /^\s*</.test(text) || file.type.startsWith('text/html');
  const what = page ? 'is a web page' : text.startsWith('GGUF') ? 'is a GGUF file' : 'does not begin like a .bq4 file';
  return new BqError('NOT_A_MODEL', `${file.name} ${what}`, {
    offset: 0,
    ...(page && { hint: 'the address leads to a page about the file, an error page or a login: use the address of the file itself' }),
  });
}
