/** Opens whatever `convert` can read, as one structure. In Node. */
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

/**
 * @typedef {object} Checkpoint
 * @property {Record<string, any>} config  see config.js
 * @property {Map<string, import('../format/checkpoint-tensors.js').InTensor>} tensors  by canonical name
 * @property {string} name
 * @property {string} [license]     that it says of itself
 * @property {import('./folder.js').Folder | null} folder  where its other files lie
 * @property {string} stamp         of the version of its files
 * @property {string[]} tokenizers  names that its tokenizer's file may have there
 * @property {import('../text/tokenizers/section.js').Tokenizer | null} [tokenizer]  in the file itself
 * @property {number[]} ends        ids that end generation, beside the tokenizer's own
 * @property {string} template      chat template, '' when there is none
 * @property {() => Promise<void>} close
 */

/** First bytes of files that are meant for others. @type {[string, string, string][]} */
const OTHERS = [
  ['BQ4F', 'is a .bq4 file already', ''],
  ['GGUF', 'is a GGUF file', 'convert the original safetensors model'],
];

/**
 * READ, NOT_A_MODEL, FORMAT, TRUNCATED, UNSUPPORTED.
 * @param {string} input
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
  try {
    const start = String.fromCharCode(...(await readRange(file, 0, 4)));
    // A zip archive, or a pickle of protocol 2 or later: a number that no header of llama2.c begins with.
    const torch = start === 'PK\x03\x04' || start[0] === '\x80';
    if (torch && hasConfig) {
      await file.close();
      return await openHf(input, false);
    }
    const other = OTHERS.find(([magic]) => start.startsWith(magic));
    if (other) throw new BqError('UNSUPPORTED', `${input} ${other[1]}`, { offset: 0, hint: other[2] });
    const read = start === 'QSF1' ? readQsf : torch ? readTorchModel : start[0] === '{' ? readBullet : readLlama2c;
    const found = await read(file);
    return {
      close: () => file.close(),
      folder: await diskFolder(dirname(input)),
      stamp: stampOf(input),
      name: basename(input).replace(/\.[^.]*$/, ''),
      tokenizers: ['tokenizer.bin', `tok${/** @type {any} */ (found.config).vocab}.bin`],
      ends: [],
      template: '',
      ...found,
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}
