/** List of the models and files that this version can load. This module is loaded on demand, since few pages use it. */
import { FAMILIES as HUGGING_FACE, GGUF_ARCHITECTURES } from './format/families/index.js';
import { readableTypes } from './format/gguf/types.js';
import { WRITABLE } from './format/bq4/weight-types.js';
import { ARCHITECTURES as FAMILIES } from './shared/names.js';
import { compact } from './text/templates/compact.js';
import { FORMAT_NAMES, formatNamed } from './text/templates/known-formats.js';

/** @import { ChatFormat, Supported } from './shared/types.js' */

/** Returns a short conversation in a chat format. @param {ChatFormat} format */
const exampleOf = (format) =>
  (
    compact(format, [
      { role: 'user', content: 'Hello!' },
      { role: 'assistant', content: 'Hello, how are you?' },
      { role: 'user', content: 'Fine.' },
    ]) ?? []
  )
    .map(({ text }) => text)
    .join('');

/** @returns {Supported} */
export const supported = () => ({
  architectures: [
    ...new Set([
      ...Object.keys(GGUF_ARCHITECTURES),
      ...Object.keys(HUGGING_FACE),
      ...FAMILIES.filter((name) => name && name !== 'other'),
    ]),
  ].sort(),
  chatFormats: FORMAT_NAMES.map((name) => {
    const format = /** @type {ChatFormat} */ (formatNamed(name));
    return { name, format, example: exampleOf(format) };
  }),
  weightTypes: { bq4: WRITABLE, gguf: readableTypes() },
  containers: ['bq4', 'gguf', 'hugging-face-folder'],
});
