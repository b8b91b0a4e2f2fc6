/** Models in fewer bits: weights rounded by what they are multiplied with on a calibration text. In Node. */
import { conversionReport } from '../format/conversion-report.js';
import { BqError } from '../shared/errors.js';
import { METHODS, Quantizer } from './quantizer.js';

/** @import { OutModel } from '../format/bq4/write-v2.js' */

/**
 * A model that can be read: its tensors, and what else goes into a file.
 * @typedef {object} Input
 * @property {Record<string, any>} config
 * @property {Map<string, import('../format/checkpoint-tensors.js').InTensor>} tensors
 * @property {Omit<OutModel, 'tensors' | 'config'>} parts
 * @property {string} [stamp]  of the version of its files; none: what was stopped can't go on
 */

/**
 * @typedef {object} QuantizeOptions
 * @property {string} [quant]      type of the matrices; default "bq4a"
 * @property {string} [embed]      type of embedding and head; default "bq8"
 * @property {string} [calibrate]  a text; none: weights are rounded one by one, as `convert` does
 * @property {number} [tokens]     of the text that count, default 16,384
 * @property {Method} [method]     default "gptaq"
 * @property {number} [smooth]     0 to 1, default 0: how much of what makes inputs differ in size is folded into norms; needs a text
 * @property {number} [targetSize]  bytes of the file, at most: types are chosen for each matrix by what it costs; needs a text
 * @property {number} [targetPpl]  percents by which perplexity may grow, at most, measured on the end of the text: types are chosen as for `targetSize`
 * @property {number} [threads]    that read and round; the file doesn't depend on it. Default: as many as the machine has, at most 8, and as there is memory for
 * @property {number} [budget]     bytes of the instance in which the model reads a text, at most; of a larger one layers are read from the disk.
 *   Default: 4 GB. What tokens carry is beside it. The file doesn't depend on it
 * @property {string} [hash]       as of `convert`
 * @property {(stage: 'read' | 'calibrate' | 'choose' | 'try' | 'write', done: number, total: number) => void} [onProgress]
 * @property {(tensors: number, all: number) => void} [onKept]  so many tensors are there already: those of a call that was stopped
 * @property {AbortSignal} [signal]
 */

/**
 * "search": scales by the weighted error; "gptq": and errors made good by later weights, then sweeps; "gptaq": one input after the other, and
 * what was changed before it made good, too.
 * @typedef {'gptaq' | 'gptq' | 'search'} Method
 */

/** ARGUMENT. @param {Input} input @param {QuantizeOptions} options */
function check({ config }, { method = 'gptaq', calibrate, threads, budget, targetSize, targetPpl, smooth = 0 }) {
  if (!Object.hasOwn(METHODS, method))
    throw new BqError('ARGUMENT', `method is "${method}", not one of ${Object.keys(METHODS).join(', ')}`);
  if (threads !== undefined && !(Number.isInteger(threads) && threads > 0))
    throw new BqError('ARGUMENT', `threads is ${threads}, not a whole number of at least 1`);
  if (budget !== undefined && !(budget > 0))
    throw new BqError('ARGUMENT', `budget is ${budget}, not a number of bytes`);
  if (!(smooth >= 0 && smooth <= 1)) throw new BqError('ARGUMENT', `smooth is ${smooth}, not a number from 0 to 1`);
  if (smooth && calibrate === undefined)
    throw new BqError('ARGUMENT', 'what is large is known by a text', { hint: '--calibrate TEXT' });
  if (targetSize !== undefined && targetPpl !== undefined)
    throw new BqError('ARGUMENT', 'a file has a target size or a target perplexity, not both');
  if ((targetSize ?? targetPpl) !== undefined && calibrate === undefined)
    throw new BqError('ARGUMENT', 'types can only be chosen by what they cost on a text', { hint: '--calibrate TEXT' });
  if ((targetSize ?? targetPpl) !== undefined && config.no_head)
    throw new BqError('ARGUMENT', 'types are chosen by what they cost predictions, and the model makes none', {
      hint: 'ask for one type: --quant',
    });
}

/**
 * Writes `input` to the .bq4 file `output` in other types. What was stopped or killed goes on with the next call that is the same, as soon as
 * something is whole: beside `output` lie `.part` and `.part.journal`. What fails while it writes leaves nothing behind.
 * @param {Input} input
 * @param {string} output
 * @param {QuantizeOptions} [options]
 * @returns {Promise<import('../format/conversion-report.js').ConvertReport>}
 */
export async function quantize(input, output, options = {}) {
  check(input, options);
  const quantizer = await Quantizer.open(input, output, options);
  try {
    await quantizer.smooth();
    const own = await quantizer.choose();
    const { written, reports } = await quantizer.write(own);
    const { codec, largestPiece } = quantizer;
    return conversionReport(output, written, reports, codec.name, largestPiece);
  } finally {
    await quantizer.close();
  }
}
