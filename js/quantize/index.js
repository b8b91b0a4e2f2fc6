/** Models in fewer bits: weights rounded by what they are multiplied with on a calibration text. In Node. */
import { createCodec, createHasher } from '../convert/codec.js';
import { encoded } from '../convert/encoded.js';
import { matchTensors } from '../convert/names.js';
import { chosenTypes, largestPieceOf } from '../convert/parts.js';
import { conversionReport } from '../convert/report.js';
import { isSearched, ROWS, runLayout, typeNamed, weightBytes } from '../convert/weights.js';
import { ALIGN, CHUNK } from '../convert/write/frame.js';
import { fileSink } from '../convert/write/output.js';
import { matrixOf, prefixLengthOf, writeV2 } from '../convert/write/v2.js';
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { fromFile } from '../sources/index.js';
import { Calibrator } from './calibrate.js';
import { inputOf } from './reader.js';
import { Drift } from './drift.js';
import { Hands, usualThreads } from './hands.js';
import { typesInRoom, typesWithin } from './mix.js';
import { smoothed } from './smooth.js';
import { Tensors } from './tensors.js';

/** @import { Match } from '../convert/encoded.js' */
/** @import { Codec } from '../convert/codec.js' */
/** @import { OutModel } from '../convert/write/v2.js' */

/** Bytes of weights as f32 up to which a model is calibrated with them; larger ones with f16. */
const LARGEST_F32 = 2 ** 31;
/** A perplexity is measured on so many tokens, of no more characters than these: the end of the text, which nothing is calibrated on. */
const [TESTED, CHARACTERS] = [1024, 8192];

/**
 * A model that can be read: its tensors, and what else goes into a file.
 * @typedef {object} Input
 * @property {Record<string, any>} config
 * @property {Map<string, import('../convert/read/tensors.js').InTensor>} tensors
 * @property {Omit<OutModel, 'tensors' | 'config'>} parts
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
 * @property {string} [hash]       as of `convert`
 * @property {(stage: 'read' | 'calibrate' | 'choose' | 'try' | 'write', done: number, total: number) => void} [onProgress]
 * @property {AbortSignal} [signal]
 */

/**
 * "search": scales by the weighted error; "gptq": and errors made good by later weights, then sweeps; "gptaq": one input after the other, and
 * what was changed before it made good, too.
 * @typedef {'gptaq' | 'gptq' | 'search'} Method
 */

/** @type {Record<Method, import('./rounder.js').Rounding & { inOrder?: boolean }>} */
const METHODS = {
  search: { feedback: false, sweeps: 0, damp: 0.01 },
  // A few inputs of SmolLM2 are so much larger than all others that a tenth of the mean is more than most moments are, which leaves little of
  // what the text says; so each is raised by a share of itself. Of 0.03 to 0.3 perplexities of stories260K hardly differ (its KL divergence
  // is least at 0.1), those of SmolLM2, calibrated on 2,048 tokens, go on falling: most of it is had at 0.2.
  gptq: { feedback: true, sweeps: 4, damp: 0.001, own: 0.2 },
  gptaq: { feedback: true, sweeps: 4, damp: 0.001, own: 0.2, inOrder: true },
};

/** @param {string} output @param {OutModel} model @param {{ hash?: string, onBytes?: (done: number, total: number) => void, signal?: AbortSignal }} options */
async function writeFile(output, model, { hash, onBytes, signal }) {
  const hasher = await createHasher(prefixLengthOf(model, hash === 'sha256'));
  return writeV2(await fileSink(output), model, {
    hash: (bytes) => hasher.hash(bytes),
    sha256: hash === 'sha256' ? (bytes) => hasher.sha256(bytes) : undefined,
    // Of all that the file holds, hashes of its data among it: the same input makes the same bytes.
    fileId: (prefix) => hasher.sha256(prefix).subarray(0, 16),
    onBytes,
    signal,
  });
}

/** @param {Match[]} matches */
const weightsOf = (matches) => matches.reduce((sum, { slot }) => sum + slot.dims.reduce((a, b) => a * b, 1), 0);

/** The same model in floats, which is what its inputs are measured with. @param {Input} input @param {Match[]} matches @param {Codec} codec @param {string} path @param {QuantizeOptions} options */
async function writeFloats({ config, parts }, matches, codec, path, { onProgress, signal }) {
  const wide = typeNamed(4 * weightsOf(matches) <= LARGEST_F32 ? 'f32' : 'f16');
  const tensors = matches.map((match) =>
    encoded(codec, match, match.slot.dims.length > 1 && !match.slot.exact ? wide : typeNamed('f32'), ROWS),
  );
  await writeFile(
    path,
    { ...parts, config, tensors },
    { onBytes: (done, total) => onProgress?.('read', done, total), signal },
  );
}

/** @typedef {import('../convert/weights.js').WeightType} WeightType */

/** Which type each tensor gets, and whether by moments. @param {Match} match @param {ReturnType<typeof chosenTypes>} types @param {ReadonlyMap<string, WeightType>} [own] */
function typeOf({ slot: { dims, embedding, exact, name } }, types, own) {
  const usual = dims.length === 1 || exact ? types.vector : embedding ? types.embedding : types.matrix;
  const type = own?.get(name) ?? usual;
  return { type, layout: dims.length === 1 ? ROWS : runLayout(type), by: isSearched(type) && inputOf(name) !== null };
}

/** Matrices whose types can be chosen one by one. @param {Match[]} matches */
const chosen = (matches) =>
  matches.filter(({ slot: { name } }) => inputOf(name) || /^(wte|lm_head)\.weight$/.test(name));

/** What they may take in a file of `targetSize` bytes. @param {Input} input @param {Match[]} matches @param {ReturnType<typeof chosenTypes>} types @param {QuantizeOptions} options */
function roomFor({ config, parts }, matches, types, { targetSize = Infinity, hash }) {
  const tried = chosen(matches);
  const bytesOf = (/** @type {Match} */ match) => {
    const { type, layout } = typeOf(match, types);
    const { rows, cols } = matrixOf(match.slot.dims);
    return weightBytes(type, layout, rows, cols) + ALIGN;
  };
  // Chunk hashes are part of the prefix: of as many chunks as the target has.
  const listed = matches.map((match) => ({ name: match.slot.name, dims: match.slot.dims, ...typeOf(match, types) }));
  const prefix = prefixLengthOf(/** @type {any} */ ({ ...parts, config, tensors: listed }), hash === 'sha256');
  const rest = matches.filter((match) => !tried.includes(match)).reduce((sum, match) => sum + bytesOf(match), 0);
  return targetSize - prefix - rest - ALIGN * tried.length - 32 * Math.ceil(targetSize / CHUNK);
}

/**
 * Rounds all tensors into a file.
 * @param {string} path @param {'try' | 'write'} stage @param {Input} input @param {Match[]} matches @param {Tensors} tensors
 * @param {(match: Match) => import('./tensors.js').How} howOf @param {QuantizeOptions} options
 */
async function writeRounded(path, stage, { config, parts }, matches, tensors, howOf, { hash, onProgress, signal }) {
  const out = tensors.encoded(matches, howOf);
  const onBytes = (/** @type {number} */ done, /** @type {number} */ total) => onProgress?.(stage, done, total);
  const written = await writeFile(path, { ...parts, config, tensors: out }, { hash, onBytes, signal });
  return { written, out };
}

/** Perplexity of a file on the beginning of a text. @param {string} path @param {string} text @param {{ threads?: number, signal?: AbortSignal }} limits */
async function perplexityOf(path, text, { threads, signal }) {
  const reader = await Calibrator.open(fromFile(path), text, { tokens: TESTED, threads, signal });
  try {
    return await reader.perplexity();
  } finally {
    reader.close();
  }
}

/**
 * Writes `input` to the .bq4 file `output` in other types.
 * @param {Input} input
 * @param {string} output
 * @param {QuantizeOptions} [options]
 * @returns {Promise<import('../convert/report.js').ConvertReport>}
 */
export async function quantize(input, output, options = {}) {
  const { method = 'gptaq', calibrate, tokens, threads } = options;
  if (!Object.hasOwn(METHODS, method))
    throw new BqError('ARGUMENT', `method is "${method}", not one of ${Object.keys(METHODS).join(', ')}`);
  if (threads !== undefined && !(Number.isInteger(threads) && threads > 0))
    throw new BqError('ARGUMENT', `threads is ${threads}, not a whole number of at least 1`);
  const types = chosenTypes(options);
  const { targetSize, targetPpl, smooth = 0 } = options;
  if (!(smooth >= 0 && smooth <= 1)) throw new BqError('ARGUMENT', `smooth is ${smooth}, not a number from 0 to 1`);
  if (smooth && calibrate === undefined)
    throw new BqError('ARGUMENT', 'what is large is known by a text', { hint: '--calibrate TEXT' });
  if (targetSize !== undefined && targetPpl !== undefined)
    throw new BqError('ARGUMENT', 'a file has a target size or a target perplexity, not both');
  if ((targetSize ?? targetPpl) !== undefined && calibrate === undefined)
    throw new BqError('ARGUMENT', 'types can only be chosen by what they cost on a text', { hint: '--calibrate TEXT' });
  const text = calibrate ?? '';
  const end = text.length - (targetPpl === undefined ? 0 : Math.min(CHARACTERS, Math.floor(text.length / 4)));
  const [seen, unseen] = [text.slice(0, end), text.slice(end)];
  let matches = matchTensors(input.config, input.tensors);
  const largestPiece = largestPieceOf(matches);
  const codec = await createCodec(Math.max(largestPiece, 1 << 20));
  const shapes = matches.filter((match) => typeOf(match, types).by).map(({ slot }) => slot.dims);
  const { mkdtemp, rm } = await nodeModule('fs/promises');
  const { tmpdir } = await nodeModule('os');
  const { join } = await nodeModule('path');
  const folder = await mkdtemp(join(tmpdir(), 'bq4-quantize-'));
  const [floats, attempt] = ['floats.bq4', 'tried.bq4'].map((name) => join(folder, name));
  /** @type {Calibrator | null} */
  let calibrator = null;
  /** @type {Hands | null} */
  let hands = null;
  try {
    const calibrated = calibrate !== undefined && (shapes.length > 0 || smooth > 0);
    const inOrder = METHODS[method].inOrder && calibrate !== undefined && shapes.length > 0;
    const onTokens = (/** @type {number} */ done, /** @type {number} */ total) =>
      options.onProgress?.('calibrate', done, total);
    const task = {
      shapes: calibrated ? shapes : [],
      rounding: METHODS[method],
      largestPiece: Math.max(largestPiece, 1 << 20),
    };
    const most = threads ?? usualThreads(task, weightsOf(matches));
    const limits = { tokens, threads: most, signal: options.signal };
    const opened = async () => {
      const found = await Calibrator.open(fromFile(floats), seen, limits);
      found.onTokens = onTokens;
      return found;
    };
    if (calibrated) {
      await writeFloats(input, matches, codec, floats, options);
      if (smooth) {
        calibrator = await opened();
        matches = await smoothed(matches, input.config, calibrator, smooth);
        calibrator.close();
        calibrator = null;
        await writeFloats(input, matches, codec, floats, options);
      }
      if (!inOrder || (targetSize ?? targetPpl) !== undefined) calibrator = await opened();
    }
    hands = await Hands.create(most, task, codec, options.signal);
    const rounding = hands;
    const tensors = new Tensors(rounding, calibrator);
    /** @param {ReadonlyMap<string, WeightType>} own  types of some @param {string} to @param {'try' | 'write'} stage */
    const write = async (own, to, stage) => {
      const drift = inOrder ? await Drift.open(fromFile(floats), seen, matches, limits) : null;
      if (drift) drift.onTokens = onTokens;
      try {
        const from = drift ? new Tensors(rounding, drift) : tensors;
        return await writeRounded(to, stage, input, matches, from, (match) => typeOf(match, types, own), options);
      } finally {
        drift?.close();
      }
    };
    let own = new Map();
    if (calibrator && (targetSize ?? targetPpl) !== undefined) {
      const onTensor = (/** @type {number} */ done, /** @type {number} */ total) =>
        options.onProgress?.('choose', done, total);
      const with_ = { tensors, onTensor };
      const tried = chosen(matches);
      if (targetPpl === undefined) own = await typesInRoom(tried, roomFor(input, matches, types, options), with_);
      else {
        const before = await perplexityOf(floats, unseen, limits);
        own = await typesWithin(tried, targetPpl, with_, async (choice) => {
          await write(choice, attempt, 'try');
          return 100 * ((await perplexityOf(attempt, unseen, limits)) / before - 1);
        });
      }
    }
    if (inOrder) {
      calibrator?.close(); // as much memory as the model takes
      calibrator = null;
    }
    const { written, out } = await write(own, output, 'write');
    return conversionReport(
      output,
      written,
      out.map((t) => t.report()),
      codec.name,
      largestPiece,
    );
  } finally {
    hands?.end();
    calibrator?.close();
    await rm(folder, { recursive: true });
  }
}
