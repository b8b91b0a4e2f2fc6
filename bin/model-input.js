/** Opens any model as input of quantization: .bq4 and .gguf files, and checkpoints. */
import { openCheckpoint } from '../js/convert/checkpoint.js';
import { chatFormat, tokenizerOf } from '../js/convert/parts.js';
import { readTokenizerFile } from '../js/convert/tokenizer-files.js';
import { openSource } from '../js/storage/sources/index.js';
import { readRange } from '../js/storage/sources/read.js';
import { encodeTokenizer } from '../js/text/tokenizers/section.js';
import { bq4Input } from './bq4-checkpoint.js';
import { ggufCheckpoint } from './gguf-checkpoint.js';
import { sourceOf, Usage } from './options.js';

/** @import { Checkpoint } from '../js/convert/checkpoint.js' */
/** @import { Input } from '../js/quantize/index.js' */

/**
 * Converts a checkpoint to an input of quantization.
 * @param {Checkpoint} checkpoint @param {string | undefined} path  of another tokenizer @returns {Promise<Input>}
 */
async function inputOf(checkpoint, path) {
  const { config, tensors, name, license = '', template, stamp } = checkpoint;
  const tokenizer = await tokenizerOf(checkpoint, path && ((vocab) => readTokenizerFile(path, { vocab })));
  return {
    config,
    tensors,
    stamp,
    parts: {
      name,
      license,
      tokenizer: tokenizer && encodeTokenizer(tokenizer),
      chat: await chatFormat(tokenizer, template),
      template,
    },
  };
}

/** Returns the first four bytes of a file; '' if it is not a local file. @param {string} name */
async function magicOf(name) {
  const { stat } = await import('node:fs/promises');
  if (!(await stat(name).catch(() => null))?.isFile()) return '';
  const file = await openSource(await sourceOf(name));
  try {
    return String.fromCharCode(...(await readRange(file, 0, 4)));
  } finally {
    await file.close();
  }
}

/**
 * Opens a .bq4 or .gguf file or any checkpoint that `convert` reads, calls `use` with it and closes it.
 * @template T @param {string} name @param {string | undefined} tokenizer @param {(input: Input) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withInput(name, tokenizer, use) {
  const magic = await magicOf(name);
  if (magic === 'BQ4F' && tokenizer)
    throw new Usage('--tokenizer is not supported for .bq4 files, which contain their tokenizer');
  if (magic === 'BQ4F' || magic === 'GGUF') {
    const file = await openSource(await sourceOf(name));
    try {
      return await use(magic === 'BQ4F' ? await bq4Input(file) : await inputOf(await ggufCheckpoint(file), tokenizer));
    } finally {
      await file.close();
    }
  }
  const checkpoint = await openCheckpoint(name);
  try {
    return await use(await inputOf(checkpoint, tokenizer));
  } finally {
    await checkpoint.close();
  }
}
