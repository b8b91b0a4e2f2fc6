/** Opens models of all formats that `convert` reads; the common representation is a Checkpoint. Node only. */
import { BqError } from '../shared/errors.js';
import { openFile } from '../storage/sources/file.js';
import { nodeModule } from '../shared/node.js';
import { readRange } from '../storage/sources/read.js';
import { readBullet } from '../format/bullet/read.js';
import { diskFolder, stampOf } from './folder.js';
import { openHf } from './hf-folder.js';
import { isHubName, openHub } from './hub.js';
import { readLlama2c } from '../format/llama2c.js';
import { readQsf } from '../format/qsf/read.js';
import { readTorchModel } from '../format/torch/training-scripts.js';
import { HEAD_BYTES, unknownFile } from './unknown-file.js';

/**
 * @typedef {object} Checkpoint
 * @property {Record<string, any>} config  configuration of the model in its readable form (bq4/config.js)
 * @property {Map<string, import('../format/checkpoint-tensors.js').InTensor>} tensors  tensors by canonical name
 * @property {string} name
 * @property {string} [license]     license that the file contains
 * @property {import('./folder.js').Folder | null} folder  folder that contains the file
 * @property {string} stamp         string that identifies the version of its files
 * @property {string[]} tokenizers  possible names of its tokenizer's file in the folder
 * @property {import('../text/tokenizers/section.js').Tokenizer | null} [tokenizer]  tokenizer that the file contains;
 *   null if it could have one but has none
 * @property {number[]} ends        tokens that end generation, in addition to those of the tokenizer
 * @property {string} template      chat template; '' if it has none
 * @property {import('../format/meta.js').ModelMeta} [meta]
 * @property {() => Promise<void>} close
 */

/** Formats that cannot be converted: first bytes, message, hint. @type {[string, string, string][]} */
const OTHER_FORMATS = [
  ['BQ4F', 'is a .bq4 file already', 'use quantize to change its types'],
  ['GGUF', 'is a GGUF file', 'convert the original safetensors model'],
];

/**
 * Opens a model. Throws READ, NOT_A_MODEL, FORMAT, TRUNCATED, UNSUPPORTED, and for a hub NETWORK, HTTP_STATUS,
 * ARGUMENT.
 * @param {string} input  path, or hf:owner/name
 * @param {import('./hub.js').HubOptions} [hub]
 * @returns {Promise<Checkpoint>}
 */
export async function openCheckpoint(input, hub = {}) {
  if (isHubName(input)) return openHub(input, hub);
  const { stat } = await nodeModule('fs/promises');
  const { basename, dirname, join } = await nodeModule('path');
  const { existsSync } = await nodeModule('fs');
  let info;
  try {
    info = await stat(input);
  } catch (cause) {
    throw new BqError('READ', `${input} can't be read: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'check the path and its permissions',
    });
  }
  if (info.isDirectory()) return openHf(input, true);
  const hasConfig = existsSync(join(dirname(input), 'config.json'));
  if (input.endsWith('.safetensors')) return openHf(input, false);
  const file = await openFile(input);
  /** The function that reads the file. @type {typeof readQsf | typeof readTorchModel | typeof readBullet | typeof readLlama2c | null} */
  let read = null;
  try {
    const start = String.fromCharCode(...(await readRange(file, 0, 4)));
    // A zip archive, or a pickle of protocol 2 or later. No llama2.c header begins with these bytes.
    const isTorch = start === 'PK\x03\x04' || start[0] === '\x80';
    if (isTorch && hasConfig) {
      await file.close();
      return await openHf(input, false);
    }
    const other = OTHER_FORMATS.find(([magic]) => start.startsWith(magic));
    if (other) throw new BqError('UNSUPPORTED', `${input} ${other[1]}`, { offset: 0, hint: other[2] });
    read = start === 'QSF1' ? readQsf : isTorch ? readTorchModel : start[0] === '{' ? readBullet : readLlama2c;
    const model = await read(file);
    return {
      close: () => file.close(),
      folder: await diskFolder(dirname(input)),
      stamp: stampOf(input),
      name: basename(input).replace(/\.[^.]*$/, ''),
      tokenizers: ['tokenizer.bin', `tok${/** @type {any} */ (model.config).vocab}.bin`],
      ends: [],
      template: '',
      ...model,
    };
  } catch (/** @type {any} */ error) {
    // These two formats are assumed for files that begin like no other format.
    const isAssumed = error.code === 'NOT_A_MODEL' && read !== readQsf && read !== readTorchModel;
    const head = isAssumed ? await readRange(file, 0, HEAD_BYTES) : null;
    await file.close();
    throw head ? unknownFile(input, head, error) : error;
  }
}
