/**
 * Quantizes models: weights are rounded so that the products with their inputs on a calibration text change least. Node
 * only.
 */
import { conversionReport } from '../format/conversion-report.js';
import { BqError } from '../shared/errors.js';
import { METHODS, Quantizer } from './quantizer.js';

/** @import { OutModel } from '../format/bq4/write-v2.js' */

/**
 * A model to quantize: its tensors, and the other parts of the file.
 * @typedef {object} Input
 * @property {Record<string, any>} config
 * @property {Map<string, import('../format/checkpoint-tensors.js').InTensor>} tensors
 * @property {Omit<OutModel, 'tensors' | 'config'>} parts
 * @property {string} [stamp]  identifies the version of its files; without it a stopped run can't be resumed
 */

/**
 * @typedef {object} QuantizeOptions
 * @property {string} [quant]      type of the matrices; default "bq4a"
 * @property {string} [embed]      type of embedding and LM head; default "bq8"
 * @property {string} [calibrate]  calibration text; without it weights are rounded to nearest, as by `convert`
 * @property {number} [tokens]     number of tokens of the text to use; default 16,384
 * @property {Method} [method]     default "gptaq"
 * @property {number} [smooth]     0 to 1, default 0: share of the inputs' differences in magnitude that is moved into
 *   the weights (AWQ); needs a text
 * @property {number} [targetSize]  limit of the file's size in bytes: a type is chosen for each matrix by its effect on
 *   predictions; needs a text
 * @property {number} [targetPpl]  limit of the growth of perplexity in percent, measured on the end of the text; types
 *   are chosen as for `targetSize`
 * @property {number} [threads]    for calibration and rounding; the result doesn't depend on it. Default: one per core,
 *   at most 8, as memory allows
 * @property {number} [budget]     limit of the memory of the model during calibration, in bytes; layers that don't fit
 *   are read from disk. Default: 4 GB. Hidden states of the text are not included. The result doesn't depend on it
 * @property {string} [hash]       hash of the chunks: "xxh64" (default) or "sha256"
 * @property {(stage: 'read' | 'calibrate' | 'choose' | 'try' | 'write', done: number, total: number) => void} [onProgress]
 * @property {(tensors: number, all: number) => void} [onKept]  called with the number of tensors that a stopped run has
 *   written
 * @property {AbortSignal} [signal]
 */

/**
 * Method of rounding. "search": searches the scales with the least weighted error. "gptq": also compensates the error
 * of each weight in later weights of its row, then sweeps over all weights. "gptaq": also compensates for the change of
 * the inputs that rounding the earlier matrices causes.
 * @typedef {'gptaq' | 'gptq' | 'search'} Method
 */

/** Checks the options. Throws ARGUMENT. @param {Input} input @param {QuantizeOptions} options */
function checkOptions({ config }, { method = 'gptaq', calibrate, threads, budget, targetSize, targetPpl, smooth = 0 }) {
  if (!Object.hasOwn(METHODS, method))
    throw new BqError('ARGUMENT', `--method: expected one of ${Object.keys(METHODS).join(', ')}, found "${method}"`);
  if (threads !== undefined && !(Number.isInteger(threads) && threads > 0))
    throw new BqError('ARGUMENT', `--threads: expected an integer of at least 1, found ${threads}`);
  if (budget !== undefined && !(budget > 0))
    throw new BqError('ARGUMENT', `--memory-budget: expected a number of bytes, found ${budget}`);
  if (!(smooth >= 0 && smooth <= 1))
    throw new BqError('ARGUMENT', `--smooth: expected a number from 0 to 1, found ${smooth}`);
  if (smooth && calibrate === undefined)
    throw new BqError('ARGUMENT', '--smooth needs a calibration text', { hint: 'pass --calibrate FILE' });
  if (targetSize !== undefined && targetPpl !== undefined)
    throw new BqError('ARGUMENT', '--target-size and --target-ppl exclude each other');
  if ((targetSize ?? targetPpl) !== undefined && calibrate === undefined)
    throw new BqError('ARGUMENT', 'choosing types needs a calibration text', { hint: 'pass --calibrate FILE' });
  if ((targetSize ?? targetPpl) !== undefined && config.no_head)
    throw new BqError(
      'ARGUMENT',
      'types are chosen by their effect on predictions, but the model is an encoder without predictions',
      {
        hint: 'choose one type with --quant',
      },
    );
}

/**
 * Writes `input` to the .bq4 file `output` in other types. A run that was stopped or killed is resumed by the next call
 * with the same input and options, from the complete tensors in `output`.part and `output`.part.journal. A run that
 * fails leaves no file.
 * @param {Input} input
 * @param {string} output
 * @param {QuantizeOptions} [options]
 * @returns {Promise<import('../format/conversion-report.js').ConvertReport>}
 */
export async function quantize(input, output, options = {}) {
  checkOptions(input, options);
  const quantizer = await Quantizer.open(input, output, options);
  try {
    await quantizer.smooth();
    const types = await quantizer.chooseTypes();
    const { written, reports } = await quantizer.write(types);
    const { codec, largestPiece } = quantizer;
    return conversionReport(output, written, reports, codec.name, largestPiece);
  } finally {
    await quantizer.close();
  }
}
