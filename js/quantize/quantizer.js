/** One model that becomes another one of fewer bits: what is read, what is chosen and what is written, one after the other (index.js). In Node. */
import { createCodec, createHasher } from '../format/bq4/codec.js';
import { encoded } from '../format/bq4/encode-tensor.js';
import { matchTensors } from '../format/bq4/names.js';
import { chosenTypes, largestPieceOf } from '../convert/parts.js';
import { isSearched, ROWS, runLayout, typeNamed, weightBytes } from '../format/bq4/weight-types.js';
import { ALIGN, CHUNK } from '../format/bq4/frame.js';
import { isPassing, keyOf, openJournal, reportsOf } from '../convert/journal.js';
import { fileSink } from '../format/output.js';
import { matrixOf, prefixLengthOf, writeV2 } from '../format/bq4/write-v2.js';
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { fromFile } from '../storage/sources/index.js';
import { CONVERT_THREADS_URL, CONVERT_URL } from './abi.js';
import { Calibrator } from './calibrate.js';
import { Drift } from './drift.js';
import { Hands, usualThreads } from './worker-pool.js';
import { typesInRoom, typesWithin } from './type-choice.js';
import { inputOf } from './calibration-model.js';
import { smoothed } from './smooth.js';
import { Tensors } from './tensors.js';

/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Journal } from '../convert/journal.js' */
/** @import { OutModel } from '../format/bq4/write-v2.js' */
/** @import { Input, Method, QuantizeOptions } from './index.js' */

/** Bytes of the file that are rounded between two notes of it: they take long. */
const NOTED = 1 << 18;
/** What was begun by another number begins anew: it is raised where these scripts make other bytes of the same input. */
const ROUNDING = 1;
/** Bytes of weights as f32 up to which a model is calibrated with them; larger ones with f16. */
const LARGEST_F32 = 2 ** 31;
/** A perplexity is measured on so many tokens, of no more characters than these: the end of the text, which nothing is calibrated on. */
const [TESTED, CHARACTERS] = [1024, 8192];

/** @type {Record<Method, import('./rounder.js').Rounding & { inOrder?: boolean }>} */
export const METHODS = {
  search: { feedback: false, sweeps: 0, damp: 0.01 },
  // A few inputs of SmolLM2 are so much larger than all others that a tenth of the mean is more than most moments are, which leaves little of
  // what the text says; so each is raised by a share of itself. Of 0.03 to 0.3 perplexities of stories260K hardly differ (its KL divergence
  // is least at 0.1), those of SmolLM2, calibrated on 2,048 tokens, go on falling: most of it is had at 0.2.
  gptq: { feedback: true, sweeps: 4, damp: 0.001, own: 0.2 },
  gptaq: { feedback: true, sweeps: 4, damp: 0.001, own: 0.2, inOrder: true },
};

/** @param {string} output @param {OutModel} model @param {{ hash?: string } & Omit<Partial<import('../format/bq4/write-v2.js').WriteOptions>, 'hash'>} options */
async function writeFile(output, model, { hash, ...options }) {
  const hasher = await createHasher(prefixLengthOf(model, hash === 'sha256'));
  return writeV2(await fileSink(output, { keep: Boolean(options.journal?.marks.length) }), model, {
    ...options,
    hash: (bytes) => hasher.hash(bytes),
    sha256: hash === 'sha256' ? (bytes) => hasher.sha256(bytes) : undefined,
    // Of all that the file holds, hashes of its data among it: the same input makes the same bytes.
    fileId: (prefix) => hasher.sha256(prefix).subarray(0, 16),
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

/** @typedef {import('../format/bq4/weight-types.js').WeightType} WeightType */

/** Which type each tensor gets, and whether by moments. @param {Match} match @param {ReturnType<typeof chosenTypes>} types @param {ReadonlyMap<string, WeightType>} [own] */
function typeOf({ slot: { dims, embedding, exact, name } }, types, own) {
  const usual = dims.length === 1 || exact ? types.vector : embedding ? types.embedding : types.matrix;
  const type = own?.get(name) ?? usual;
  return { type, layout: dims.length === 1 ? ROWS : runLayout(type), by: isSearched(type) && inputOf(name) !== null };
}

/** Matrices whose types can be chosen one by one. @param {Match[]} matches */
const chosen = (matches) =>
  matches.filter(({ slot: { name } }) => inputOf(name) || /^(wte|lm_head)\.weight$/.test(name));

/**
 * What a call that was stopped left; null: what the input is can't be told.
 * @param {Input} input @param {string} output @param {QuantizeOptions} options
 */
async function journalOf({ config, parts, stamp }, output, options) {
  if (stamp === undefined) return null;
  const { readFile } = await nodeModule('fs/promises');
  const { quant, embed, hash, method, tokens, smooth, targetSize, targetPpl, calibrate } = options;
  const { tokenizer, activations, ...rest } = parts;
  const asked = [quant, embed, hash, method, tokens, smooth, targetSize, targetPpl];
  // Others may round otherwise.
  const modules = await Promise.all([CONVERT_URL, CONVERT_THREADS_URL].map((url) => readFile(new URL(url))));
  const lengths = modules.map(({ length }) => length);
  return openJournal(
    output,
    await keyOf([ROUNDING, stamp, config, rest, asked, lengths], [tokenizer, activations, calibrate, ...modules]),
  );
}

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

/** Perplexity of a file on the beginning of a text. @param {string} path @param {string} text @param {{ threads?: number, budget?: number, signal?: AbortSignal }} limits */
async function perplexityOf(path, text, limits) {
  const reader = await Calibrator.open(fromFile(path), text, { ...limits, tokens: TESTED });
  try {
    return await reader.perplexity();
  } finally {
    reader.close();
  }
}

export class Quantizer {
  #input;
  #options;
  #types;
  #matches;
  /** Shapes of the matrices that are rounded by moments. */
  #shapes;
  /** Of the text: what is calibrated on, and what a perplexity is measured on. */
  #seen;
  #unseen;
  #threads;
  #task;
  #output;
  #journal;
  #floats;
  /** Collects moments of the whole model; null: as long as nobody asks for them. @type {Calibrator | null} */
  #calibrator = null;
  /** @type {Hands | null} */
  #hands = null;
  /** Of the largest piece of a tensor: what encodes without a text. */
  codec;
  largestPiece;

  /** @param {Input} input @param {string} output @param {QuantizeOptions} options @param {{ types: ReturnType<typeof chosenTypes>, codec: Codec, matches: Match[], journal: Journal | null }} made */
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
    this.#shapes = matches.filter((match) => typeOf(match, this.#types).by).map(({ slot }) => slot.dims);
    const unseen = targetPpl === undefined ? 0 : Math.min(CHARACTERS, Math.floor(calibrate.length / 4));
    this.#seen = calibrate.slice(0, calibrate.length - unseen);
    this.#unseen = calibrate.slice(calibrate.length - unseen);
    this.#task = {
      shapes: this.#isCalibrated ? this.#shapes : [],
      rounding: METHODS[method],
      largestPiece: Math.max(this.largestPiece, 1 << 20),
    };
    this.#threads = threads ?? usualThreads(this.#task, weightsOf(matches));
  }

  /** @param {Input} input @param {string} output @param {QuantizeOptions} options */
  static async open(input, output, options) {
    const types = chosenTypes(options);
    const matches = matchTensors(input.config, input.tensors);
    const codec = await createCodec(Math.max(largestPieceOf(matches), 1 << 20));
    const journal = await journalOf(input, output, options);
    return new Quantizer(input, output, options, { types, codec, matches, journal });
  }

  /** What is whole stays for the next call. @param {unknown} error */
  #keeps = (error) => Boolean(this.#options.signal?.aborted) || isPassing(error);

  get #isCalibrated() {
    const { calibrate, smooth = 0 } = this.#options;
    return calibrate !== undefined && (this.#shapes.length > 0 || smooth > 0);
  }

  /** Matrices are rounded one input after the other. */
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

  /** Of the model as its floats are now. */
  async #moments() {
    if (this.#calibrator) return this.#calibrator;
    const causal = !this.#input.config.bidirectional;
    this.#calibrator = await Calibrator.open(fromFile(this.#floats), this.#seen, { ...this.#limits, causal });
    this.#calibrator.onTokens = this.#onTokens;
    return this.#calibrator;
  }

  /** It takes as much memory as the model does. */
  #noMoments() {
    this.#calibrator?.close();
    this.#calibrator = null;
  }

  async #handsOf() {
    this.#hands ??= await Hands.create(this.#threads, this.#task, this.codec, this.#options.signal);
    return this.#hands;
  }

  /** The model in floats, which a text is read with; smoothed, if that is wanted. */
  async smooth() {
    if (!this.#isCalibrated) return;
    const { smooth = 0 } = this.#options;
    await writeFloats(this.#input, this.#matches, this.codec, this.#floats, this.#options);
    if (!smooth) return;
    this.#matches = await smoothed(this.#matches, this.#input.config, await this.#moments(), smooth);
    this.#noMoments();
    await writeFloats(this.#input, this.#matches, this.codec, this.#floats, this.#options);
  }

  /** Types of some tensors, by a target. @returns {Promise<ReadonlyMap<string, WeightType>>} */
  async choose() {
    if (!this.#isChoosing || !this.#isCalibrated) return new Map();
    /** @type {[string, string][]} */
    const known = Object.entries(this.#journal?.facts?.types ?? {});
    if (known.length) return new Map(known.map(([name, type]) => [name, typeNamed(type)]));
    const own = await this.#chosen();
    await this.#journal?.decide({ types: Object.fromEntries([...own].map(([name, type]) => [name, type.name])) });
    return own;
  }

  async #chosen() {
    const { targetPpl, onProgress } = this.#options;
    const onTensor = (/** @type {number} */ done, /** @type {number} */ total) => onProgress?.('choose', done, total);
    const moments = await this.#moments();
    if (!moments.isWhole)
      throw new BqError('NOMEM', 'the model is too large for its types to be chosen', {
        hint: 'ask for one type (--quant), or for more memory (--budget, of at most 4GB)',
      });
    const by = { tensors: new Tensors(await this.#handsOf(), moments), onTensor };
    const tried = chosen(this.#matches);
    if (targetPpl === undefined)
      return typesInRoom(tried, roomFor(this.#input, this.#matches, this.#types, this.#options), by);
    const attempt = `${this.#floats}.tried`;
    const before = await perplexityOf(this.#floats, this.#unseen, this.#limits);
    return typesWithin(tried, targetPpl, by, async (types) => {
      await this.#rounded(types, attempt, 'try');
      return 100 * ((await perplexityOf(attempt, this.#unseen, this.#limits)) / before - 1);
    });
  }

  /** Rounds all tensors into the file, or those that a call that was stopped didn't. @param {ReadonlyMap<string, WeightType>} own  types of some */
  async write(own) {
    if (this.#isInOrder) this.#noMoments();
    const journal = this.#journal ?? undefined;
    const { written, out } = await this.#rounded(own, this.#output, 'write', journal);
    return { written, reports: reportsOf(out, this.#journal) };
  }

  /** @param {ReadonlyMap<string, WeightType>} own @param {string} path @param {'try' | 'write'} stage @param {Journal} [journal] */
  async #rounded(own, path, stage, journal) {
    const { hash, onProgress, onKept, signal } = this.#options;
    const matches = this.#matches;
    const { config, parts } = this.#input;
    const hands = await this.#handsOf();
    const drift = this.#isInOrder
      ? await Drift.open(fromFile(this.#floats), this.#seen, this.#matches, this.#limits)
      : null;
    if (drift) drift.onTokens = this.#onTokens;
    try {
      const inputs = drift ?? (this.#isCalibrated ? await this.#moments() : null);
      const tensors = new Tensors(hands, inputs);
      const howOf = (/** @type {Match} */ match) => typeOf(match, this.#types, own);
      const out = tensors.encoded(matches, howOf);
      const model = { ...parts, config, tensors: out };
      const written = await writeFile(path, model, {
        hash,
        journal,
        noteEvery: NOTED,
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

  /** Nothing is left of it but what was written. */
  async close() {
    this.#hands?.end();
    this.#noMoments();
    const { rm } = await nodeModule('fs/promises');
    for (const end of ['', '.part', '.tried', '.tried.part']) await rm(this.#floats + end, { force: true });
  }
}
