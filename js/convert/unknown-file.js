/** Describes a file that is no model of a known format, for the message of an error. */
import { BqError } from '../shared/errors.js';
import { shown } from '../shared/quote-value.js';

/** Number of bytes that are examined. */
export const HEAD_BYTES = 256;

/** Other kinds of binary files, by their first bytes in hexadecimal. @type {[string, string][]} */
const BINARY_KINDS = [
  ['89504e47', 'is a picture'],
  ['ffd8ff', 'is a picture'],
  ['47494638', 'is a picture'],
  ['25504446', 'is a PDF document'],
  ['1f8b', 'is a compressed file'],
  ['425a68', 'is a compressed file'],
  ['fd377a58', 'is a compressed file'],
  ['377abcaf', 'is a compressed file'],
  ['28b52ffd', 'is a compressed file'],
  ['52617221', 'is a compressed file'],
  ['7f454c46', 'is a program'],
  ['4d5a', 'is a program'],
  ['0061736d', 'is a program'],
];
const WEB_PAGE = /^\s*<(?:!doctype|html|\?xml|head|body)/i;

/** Hints by kind; other files get the list of formats. @type {Record<string, string>} */
const HINTS = {
  'is a web page':
    'the address leads to a page about the file, an error page or a login: use the address of the file itself',
  'is a compressed file': 'extract it first',
};

const FORMATS =
  'expected .bq4, .gguf, .safetensors, a PyTorch checkpoint, a llama2.c .bin, .bullet, .qsf, or the folder of a Hugging Face model';

/** Whether a character occurs in binary files only: a control character other than white space. @param {number} byte */
const isControl = (byte) => byte < 9 || (byte > 13 && byte < 32) || byte === 127;

/** Returns bytes as text; null if they are not UTF-8 without control characters. @param {Uint8Array} bytes */
function textOf(bytes) {
  try {
    // With `stream`, an incomplete character at the end is ignored.
    return bytes.some(isControl) ? null : new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
}

/** Returns what a file is, as a predicate. @param {Uint8Array} head */
function describe(head) {
  const bytes = Array.from(head, (byte) => byte.toString(16).padStart(2, '0'));
  const kind = BINARY_KINDS.find(([magic]) => bytes.join('').startsWith(magic))?.[1];
  if (kind) return kind;
  const text = textOf(head)?.trim();
  if (text === undefined) return `begins with the bytes ${bytes.slice(0, 4).join(' ')}, as no known format does`;
  if (text.startsWith('version https://git-lfs.')) return 'is a pointer of Git LFS, not the file itself';
  if (WEB_PAGE.test(text)) return 'is a web page';
  return `${/^[{[]/.test(text) ? 'is JSON or a template' : 'is a text file'}: ${shown(text, 50)}`;
}

/**
 * Returns the error for a file that is no model.
 * @param {string} name @param {Uint8Array} head  its first bytes, at most HEAD_BYTES @param {unknown} [cause]
 * @returns {BqError}
 */
export function unknownFile(name, head, cause) {
  if (!head.length) return new BqError('NOT_A_MODEL', `${name} is empty`, { hint: 'fetch it again', cause });
  const problem = describe(head);
  const hint = problem.includes('Git LFS') ? 'fetch the file itself: git lfs pull' : (HINTS[problem] ?? FORMATS);
  return new BqError('NOT_A_MODEL', `${name} ${problem}`, { hint, cause });
}
