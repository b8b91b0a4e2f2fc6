/**
 * The steps of quantizing one model (index.js): write it as floats, calibrate, choose types, round and write. Node
 * only.
 */
import { createCodec, createHasher } from '../format/bq4/codec.js';
import { encoded } from '../format/bq4/encode-tensor.js';
import { matchTensors } from '../format/bq4/names.js';
import { chosenTypes, largestPieceOf } from '../convert/parts.js';
import { isSearched, ROWS, runLayout, typeNamed, weightBytes } from '../format/bq4/weight-types.js';
import { ALIGN } from '../format/bq4/frame.js';
import { isNetworkError, keyOf, openJournal, reportsOf } from '../convert/journal.js';
import { fileSink } from '../format/output.js';
import { matrixOf, prefixLengthOf, writeV2 } from '../format/bq4/write-v2.js';
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { CHUNK_BYTES } from '../shared/sections.js';
import { fromFile } from '../storage/sources/index.js';
import { CONVERT_THREADS_URL, CONVERT_URL } from './abi.js';
import { Calibrator } from './calibrate.js';
import { Drift } from './drift.js';
import { defaultThreads, WorkerPool } from './worker-pool.js';
import { typesInRoom, typesWithin } from './type-choice.js';
import { inputOf } from './calibration-model.js';
import { smoothed } from './smooth.js';
import { Tensors } from './tensors.js';

/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Journal } from '../convert/journal.js' */
/** @import { OutModel } from '../format/bq4/write-v2.js' */
/** @import { Input, Method, QuantizeOptions } from './index.js' */

/** Bytes of the file between two records of the journal. They are few, since rounding is slow. */
const JOURNAL_INTERVAL = 1 << 18;
/**
 * Version of the algorithm. It is raised whenever the same input gives other bytes, so that stopped runs of older
 * versions are not resumed.
 */
const ALGORITHM_VERSION = 1;
/**
 * Largest size of a model's weights as f32, in bytes, that is calibrated in f32; larger models are calibrated in f16.
 */
const MAX_F32_BYTES = 2 ** 31;
/**
 * Size of the end of the text on which perplexity is measured: tokens, and limit of its characters. It is not used for
 * calibration.
 */
const [TEST_TOKENS, MAX_TEST_CHARACTERS] = [1024, 8192];

/** @type {Record<Method, import('./rounder.js').Rounding & { inOrder?: boolean }>} */
export const METHODS = {
  search: { feedback: false, sweeps: 0, damp: 0.01 },
  // A few inputs of SmolLM2 are so much larger than all others that damping by a tenth of the mean would exceed most
  // moments and hide the text's information; so each diagonal element is also raised by a share of itself. Between
  // shares of 0.03 and 0.3 the perplexity of stories260K hardly changes (KL divergence is least at 0.1); that of
  // SmolLM2, calibrated on 2,048 tokens, falls, mostly up to 0.2.
  gptq: { feedback: true, sweeps: 4, damp: 0.001, relativeDamp: 0.2 },
  gptaq: { feedback: true, sweeps: 4, damp: 0.001, relativeDamp: 0.2, inOrder: true },
};

/**
 * @param {string} output @param {OutModel} model
 * @param {{ hash?: string } & Omit<Partial<import('../format/bq4/write-v2.js').WriteOptions>, 'hash'>} options
 */
async function writeFile(output, model, { hash, ...options }) {
  const hasher = await createHasher(prefixLengthOf(model, hash === 'sha256'));
  return writeV2(await fileSink(output, { keep: Boolean(options.journal?.marks.length) }), model, {
    ...options,
    hash: (bytes) => hasher.hash(bytes),
    sha256: hash === 'sha256' ? (bytes) => hasher.sha256(bytes) : undefined,
    // A hash of the whole prefix with the hashes of the data: the same input gives the same file.
    fileId: (prefix) => hasher.sha256(prefix).subarray(0, 16),
  });
}

/** Returns the number of weights of a model. @param {Match[]} matches */
const weightsOf = (matches) => matches.reduce((sum, { slot }) => sum + slot.dims.reduce((a, b) => a * b, 1), 0);

/**
 * Writes the model with float weights, on which it is calibrated.
 * @param {Input} input @param {Match[]} matches @param {Codec} codec @param {string} path
 * @param {QuantizeOptions} options
 */
async function writeFloats({ config, parts }, matches, codec, path, { onProgress, signal }) {
  const floatType = typeNamed(4 * weightsOf(matches) <= MAX_F32_BYTES ? 'f32' : 'f16');
  const tensors = matches.map((match) =>
    encoded(codec, match, match.slot.dims.length > 1 && !match.slot.exact ? floatType : typeNamed('f32'), ROWS),
  );
  await writeFile(
    path,
    { ...parts, config, tensors },
    { onBytes: (done, total) => onProgress?.('read', done, total), signal },
  );
}

/** @typedef {import('../format/bq4/weight-types.js').WeightType} WeightType */

/**
 * Returns type and layout of a tensor, and whether it is rounded by moments.
 * @param {Match} match @param {ReturnType<typeof chosenTypes>} types
 * @param {ReadonlyMap<string, WeightType>} [typesByName] types of some tensors
 */
function typeOf({ slot: { dims, embedding, exact, name } }, types, typesByName) {
  const defaultType = dims.length === 1 || exact ? types.vector : embedding ? types.embedding : types.matrix;
  const type = typesByName?.get(name) ?? defaultType;
  return {
    type,
    layout: dims.length === 1 ? ROWS : runLayout(type),
    byMoments: isSearched(type) && inputOf(name) !== null,
  };
}

/** Returns the matrices whose types can be chosen individually. @param {Match[]} matches */
const choosableMatrices = (matches) =>
  matches.filter(({ slot: { name } }) => inputOf(name) || /^(wte|lm_head)\.weight$/.test(name));

/**
 * Opens the journal from which a stopped run is resumed; null if the version of the input is unknown.
 * @param {Input} input @param {string} output @param {QuantizeOptions} options
 */
async function journalOf({ config, parts, stamp }, output, options) {
  if (stamp === undefined) return null;
  const { readFile } = await nodeModule('fs/promises');
  const { quant, embed, hash, method, tokens, smooth, targetSize, targetPpl, calibrate } = options;
  const { tokenizer, activations, ...jsonParts } = parts;
  const settings = [quant, embed, hash, method, tokens, smooth, targetSize, targetPpl];
  // Other builds of the modules may round differently.
  const modules = await Promise.all([CONVERT_URL, CONVERT_THREADS_URL].map((url) => readFile(new URL(url))));
  const lengths = modules.map(({ length }) => length);
  return openJournal(
    output,
    await keyOf(
      [ALGORITHM_VERSION, stamp, config, jsonParts, settings, lengths],
      [tokenizer, activations, calibrate, ...modules],
    ),
  );
}

/**
 * Returns the bytes that are left for the choosable matrices in a file of `targetSize` bytes.
 * @param {Input} input @param {Match[]} matches @param {ReturnType<typeof chosenTypes>} types
 * @param {QuantizeOptions} options
 */
function roomFor({ config, parts }, matches, types, { targetSize = Infinity, hash }) {
  const choosable = choosableMatrices(matches);
  const bytesOf = (/** @type {Match} */ match) => {
    const { type, layout } = typeOf(match, types);
    const { rows, cols } = matrixOf(match.slot.dims);
    return weightBytes(type, layout, rows, cols) + ALIGN;
  };
  // The prefix also contains a hash of each chunk; these hashes are subtracted below.
  const tensors = matches.map((match) => ({ name: match.slot.name, dims: match.slot.dims, ...typeOf(match, types) }));
  const prefixBytes = prefixLengthOf(/** @type {any} */ ({ ...parts, config, tensors }), hash === 'sha256');
  const otherBytes = matches
    .filter((match) => !choosable.includes(match))
    .reduce((sum, match) => sum + bytesOf(match), 0);
  return targetSize - prefixBytes - otherBytes - ALIGN * choosable.length - 32 * Math.ceil(targetSize / CHUNK_BYTES);
}

/**
 * Measures the perplexity of a model on the beginning of a text.
 * @param {string} path @param {string} text @param {{ threads?: number, budget?: number, signal?: AbortSignal }} limits
 */
async function perplexityOf(path, text, limits) {
  const calibrator = await Calibrator.open(fromFile(path), text, { ...limits, tokens: TEST_TOKENS });
  try {
    return await calibrator.perplexity();
  } finally {
    calibrator.close();
  }
}

export class Quantizer {
  #input;
  #options;
  #types;
  #matches;
  /** Shapes of the matrices that are rounded by moments. */
  #shapes;
  /** Parts of the text: for calibration, and for measuring perplexity. */
  #calibrationText;
  #testText;
  #threads;
  #task;
  #output;
  #journal;
  /** Path of the model with float weights. */
  #floats;
  /** Collects moments of the original model; null until they are needed. @type {Calibrator | null} */
  #calibrator = null;
  /** @type {WorkerPool | null} */
  #pool = null;
  /** Encodes without moments; its heap holds the largest piece of a tensor. */
  codec;
  largestPiece;

  /**
   * @param {Input} input @param {string} output @param {QuantizeOptions} options
   * @param {{ types: ReturnType<typeof chosenTypes>, codec: Codec, matches: Match[], journal: Journal | null }} parts
   */
  constructor(input, output, options, { types, codec, matches, journal }) {
    const { method = 'gptaq', calibrate = '', targetPpl, threads } = options;
    this.#input = input;
    this.#options = options;
    this.#types = types;
    this.#matches = matches;
    this.#output = output;
    this.#floats = `${output}.part.floats`;
    this.#journal = journal;
    this.codec = codec;
    this.largestPiece = largestPieceOf(matches);
    this.#shapes = matches.filter((match) => typeOf(match, this.#types).byMoments).map(({ slot }) => slot.dims);
    const testLength = targetPpl === undefined ? 0 : Math.min(MAX_TEST_CHARACTERS, Math.floor(calibrate.length / 4));
    this.#calibrationText = calibrate.slice(0, calibrate.length - testLength);
    this.#testText = calibrate.slice(calibrate.length - testLength);
    this.#task = {
      shapes: this.#isCalibrated ? this.#shapes : [],
      rounding: METHODS[method],
      largestPiece: Math.max(this.largestPiece, 1 << 20),
    };
    this.#threads = threads ?? defaultThreads(this.#task, weightsOf(matches));
  }

  /** @param {Input} input @param {string} output @param {QuantizeOptions} options */
  static async open(input, output, options) {
    const types = chosenTypes(options);
    const matches = matchTensors(input.config, input.tensors);
    const codec = await createCodec(Math.max(largestPieceOf(matches), 1 << 20));
    const journal = await journalOf(input, output, options);
    return new Quantizer(input, output, options, { types, codec, matches, journal });
  }

  /** Whether the complete tensors are kept for the next call after this error. @param {unknown} error */
  #keeps = (error) => Boolean(this.#options.signal?.aborted) || isNetworkError(error);

  get #isCalibrated() {
    const { calibrate, smooth = 0 } = this.#options;
    return calibrate !== undefined && (this.#shapes.length > 0 || smooth > 0);
  }

  /** Whether matrices are rounded in the order of their inputs (GPTAQ). */
  get #isInOrder() {
    return this.#isCalibrated && this.#shapes.length > 0 && Boolean(this.#task.rounding.inOrder);
  }

  get #isChoosing() {
    const { targetSize, targetPpl } = this.#options;
    return (targetSize ?? targetPpl) !== undefined;
  }

  get #limits() {
    const { tokens, budget, signal } = this.#options;
    return { tokens, threads: this.#threads, budget, signal };
  }

  #onTokens = (/** @type {number} */ done, /** @type {number} */ total) =>
    this.#options.onProgress?.('calibrate', done, total);

  /** Returns the calibrator of the float model, which is opened if necessary. */
  async #openCalibrator() {
    if (this.#calibrator) return this.#calibrator;
    const causal = !this.#input.config.bidirectional;
    this.#calibrator = await Calibrator.open(fromFile(this.#floats), this.#calibrationText, {
      ...this.#limits,
      causal,
    });
    this.#calibrator.onTokens = this.#onTokens;
    return this.#calibrator;
  }

  /** Releases the calibrator, which takes as much memory as the model. */
  #closeCalibrator() {
    this.#calibrator?.close();
    this.#calibrator = null;
  }

  async #openPool() {
    this.#pool ??= await WorkerPool.create(this.#threads, this.#task, this.codec, this.#options.signal);
    return this.#pool;
  }

  /** Writes the float model for calibration, and smooths the weights if that is requested. */
  async smooth() {
    if (!this.#isCalibrated) return;
    const { smooth = 0 } = this.#options;
    await writeFloats(this.#input, this.#matches, this.codec, this.#floats, this.#options);
    if (!smooth) return;
    this.#matches = await smoothed(this.#matches, this.#input.config, await this.#openCalibrator(), smooth);
    this.#closeCalibrator();
    await writeFloats(this.#input, this.#matches, this.codec, this.#floats, this.#options);
  }

  /**
   * Chooses types for a target of size or perplexity; an empty map without a target.
   * @returns {Promise<ReadonlyMap<string, WeightType>>}
   */
  async chooseTypes() {
    if (!this.#isChoosing || !this.#isCalibrated) return new Map();
    /** @type {[string, string][]} */
    const recordedTypes = Object.entries(this.#journal?.facts?.types ?? {});
    if (recordedTypes.length) return new Map(recordedTypes.map(([name, type]) => [name, typeNamed(type)]));
    const types = await this.#measureAndChoose();
    await this.#journal?.decide({ types: Object.fromEntries([...types].map(([name, type]) => [name, type.name])) });
    return types;
  }

  /** Chooses types by measurements. Throws NOMEM, ARGUMENT. */
  async #measureAndChoose() {
    const { targetPpl, onProgress } = this.#options;
    const onTensor = (/** @type {number} */ done, /** @type {number} */ total) => onProgress?.('choose', done, total);
    const calibrator = await this.#openCalibrator();
    if (!calibrator.isResident)
      throw new BqError('NOMEM', 'choosing types needs the whole model in memory', {
        hint: 'choose one type (--quant), or pass a larger --memory-budget (at most 4GB)',
      });
    const tools = { tensors: new Tensors(await this.#openPool(), calibrator), onTensor };
    const matrices = choosableMatrices(this.#matches);
    if (targetPpl === undefined)
      return typesInRoom(matrices, roomFor(this.#input, this.#matches, this.#types, this.#options), tools);
    const attemptPath = `${this.#floats}.tried`;
    const floatPerplexity = await perplexityOf(this.#floats, this.#testText, this.#limits);
    return typesWithin(matrices, targetPpl, tools, async (types) => {
      await this.#writeRounded(types, attemptPath, 'try');
      return 100 * ((await perplexityOf(attemptPath, this.#testText, this.#limits)) / floatPerplexity - 1);
    });
  }

  /**
   * Rounds all tensors into the file, except those that a stopped run has written.
   * @param {ReadonlyMap<string, WeightType>} typesByName  types of some tensors
   */
  async write(typesByName) {
    if (this.#isInOrder) this.#closeCalibrator();
    const journal = this.#journal ?? undefined;
    const { written, out } = await this.#writeRounded(typesByName, this.#output, 'write', journal);
    return { written, reports: reportsOf(out, this.#journal) };
  }

  /**
   * Rounds all tensors into a file.
   * @param {ReadonlyMap<string, WeightType>} typesByName  types of some tensors @param {string} path
   * @param {'try' | 'write'} stage @param {Journal} [journal]
   */
  async #writeRounded(typesByName, path, stage, journal) {
    const { hash, onProgress, onKept, signal } = this.#options;
    const matches = this.#matches;
    const { config, parts } = this.#input;
    const pool = await this.#openPool();
    const drift = this.#isInOrder
      ? await Drift.open(fromFile(this.#floats), this.#calibrationText, this.#matches, this.#limits)
      : null;
    if (drift) drift.onTokens = this.#onTokens;
    try {
      const inputs = drift ?? (this.#isCalibrated ? await this.#openCalibrator() : null);
      const tensors = new Tensors(pool, inputs);
      const howOf = (/** @type {Match} */ match) => typeOf(match, this.#types, typesByName);
      const out = tensors.encoded(matches, howOf);
      const model = { ...parts, config, tensors: out };
      const written = await writeFile(path, model, {
        hash,
        journal,
        noteEvery: JOURNAL_INTERVAL,
        reports: (from) => out.slice(from).map((tensor) => tensor.report()),
        keeps: this.#keeps,
        onKept: async (kept, read) => {
          onKept?.(kept, out.length);
          if (matches.slice(kept).some(({ slot }) => inputOf(slot.name)))
            await tensors.restore(matches.slice(0, kept), howOf, this.codec, read);
        },
        onBytes: (done, total) => onProgress?.(stage, done, total),
        signal,
      });
      return { written, out };
    } finally {
      drift?.close();
    }
  }

  /** Ends the workers and deletes the temporary files. */
  async close() {
    this.#pool?.close();
    this.#closeCalibrator();
    const { rm } = await nodeModule('fs/promises');
    for (const end of ['', '.part', '.tried', '.tried.part']) await rm(this.#floats + end, { force: true });
  }
}
