/**
 * `bq4 perplexity`: measures how well a model predicts a text, and how much its predictions differ from those of
 * another model.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stderr, stdout } from 'node:process';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { chunksOf } from '../../js/quantize/text-chunks.js';
import { BqError } from '../../js/shared/errors.js';
import { COMPUTE, flag, isFolder, loadOptions, numberOf, readText, sourceOf, Usage, value } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'measures how well a model predicts a text, and compares it with another model',
  operands: 'FILE TEXT',
  about:
    "TEXT is a text file. FILE may also be a folder in Hugging Face's layout, whose weights are then used as f32. The default of --context is 512.",
  options: {
    against: value(
      'FILE',
      'another model with the same tokenizer: reports the mean KL divergence, and how often both models predict the same token',
    ),
    stride: value('N', 'tokens from one window to the next (default: half of --context); each token is predicted once'),
    tokens: value('N', 'uses only the first N tokens of the text'),
    json: flag('prints one JSON object'),
    threads: value('N', 'threads (default: one per core)'),
    ...COMPUTE,
  },
  run: measurePerplexity,
};

/**
 * The parts of a session that compute logits.
 * @typedef {{ wasm: import('../../js/wasm/wasm.js').Wasm,
 *   sequence: import('../../js/engine/session/token-sequence.js').TokenSequence }} SessionParts
 */

/** Default tokens of a window. */
const CONTEXT = 512;
/** Largest number of characters that are tokenized in one call. */
const CHUNK_CHARACTERS = 1 << 13;
/** Draft tokens: tokens whose logits are computed in one batch, in addition to the first. */
const DRAFT_TOKENS = 31;

/**
 * Returns overlapping windows over n tokens. In each window the tokens from `scored` on are counted. Except in the
 * first window, every token is predicted from at least `context - stride` tokens.
 * @param {number} n @param {number} context @param {number} stride
 */
export function windowsOf(n, context, stride) {
  const windows = [];
  for (let from = 0, scored = 1; scored < n; from += stride) {
    const end = Math.min(from + context, n);
    windows.push({ from, scored, end });
    scored = end;
  }
  return windows;
}

/**
 * Computes the logits of successive positions of a given text. The next tokens are passed as draft tokens, so that
 * batches are computed.
 */
class Reader {
  #parts;
  #vocab;
  /** Number of next positions whose logits are already computed. */
  #ahead = 0;

  /** @param {SessionParts} parts @param {number} vocab */
  constructor(parts, vocab) {
    this.#parts = parts;
    this.#vocab = vocab;
  }

  /** Computes the logits after the first n tokens. @param {number[]} ids @param {number} n */
  async start(ids, n) {
    this.#parts.sequence.sync(Uint32Array.from(ids.slice(0, n)));
    await this.#compute(ids, n);
  }

  /** Computes the logits after one more token, ids[n - 1]. @param {number[]} ids @param {number} n */
  async next(ids, n) {
    this.#parts.sequence.push(ids[n - 1]);
    if (this.#ahead) this.#ahead--;
    else await this.#compute(ids, n);
  }

  /** @param {number[]} ids @param {number} n */
  async #compute(ids, n) {
    const { sequence } = this.#parts;
    this.#ahead = sequence.addDraftTokens(ids.slice(n, n + DRAFT_TOKENS));
    await sequence.run({}, 0);
  }

  /** The logits, valid until the next call. */
  get logits() {
    const { wasm, sequence } = this.#parts;
    return wasm.f32(wasm.out('bqw_session_logits', sequence.handle), this.#vocab);
  }
}

/**
 * Returns the KL divergence of the model from the reference: the sum of p (log p - log q), with p of the reference.
 * @param {Float32Array} logits @param {number} sum  log of the sum of exponentials @param {Float32Array} reference
 * @param {number} referenceSum
 */
function divergence(logits, sum, reference, referenceSum) {
  let total = 0;
  for (let i = 0; i < logits.length; i++) {
    const logP = reference[i] - referenceSum;
    total += Math.exp(logP) * (logP - (logits[i] - sum));
  }
  return total;
}

/**
 * Sums the negative log likelihoods of the counted tokens, and the differences from the reference.
 * @param {Reader[]} readers  of the model, and of the reference if there is one
 * @param {number[]} ids @param {{ from: number, scored: number, end: number }[]} windows
 * @param {(done: number, perplexity: number) => void} onProgress
 */
async function score([model, reference], ids, windows, onProgress) {
  const sums = { predicted: 0, nll: 0, referenceNll: 0, kl: 0, same: 0 };
  for (const { from, scored, end } of windows) {
    const window = ids.slice(from, end);
    for (let n = scored - from; n < window.length; n++) {
      const isFirst = n === scored - from;
      for (const reader of reference ? [model, reference] : [model])
        await reader[isFirst ? 'start' : 'next'](window, n);
      const { logits } = model;
      const sum = logSum(logits);
      sums.nll += sum - logits[window[n]];
      sums.predicted++;
      if (reference) {
        const expected = reference.logits;
        const expectedSum = logSum(expected);
        sums.referenceNll += expectedSum - expected[window[n]];
        sums.kl += divergence(logits, sum, expected, expectedSum);
        sums.same += Number(argmax(logits) === argmax(expected));
      }
      if (sums.predicted % 64 === 0) onProgress(sums.predicted, Math.exp(sums.nll / sums.predicted));
    }
  }
  return sums;
}

/**
 * Loads a model and tokenizes the text. A folder in Hugging Face's layout is converted with f32 weights first.
 * @param {import('../../js/shared/types.js').Engine} engine @param {string} file @param {string} text
 * @param {any} options @param {string} folder  for temporary files
 */
async function open(engine, file, text, options, folder) {
  const limit = numberOf(options, 'tokens') ?? Infinity;
  let from = file;
  if (await isFolder(file)) {
    from = join(await mkdtemp(join(folder, 'model-')), 'model.bq4');
    const { convert } = await import('../../js/convert/index.js');
    await convert(file, from, { quant: 'f32' });
  }
  const source = await sourceOf(from, options);
  const { trainedContext } = await engine.plan(source);
  const model = /** @type {any} */ (
    await engine.load(source, {
      contextTokens: Math.min(CONTEXT, trainedContext),
      ...loadOptions(options),
      draftTokens: DRAFT_TOKENS,
    })
  );
  model.checkGenerates();
  /** @type {number[]} */
  const ids = [];
  for (const chunk of chunksOf(text, CHUNK_CHARACTERS)) {
    if (ids.length >= limit) break;
    for (const id of await model.tokenize(chunk, { addSpecial: !ids.length })) ids.push(id);
  }
  return { file, model, ids: ids.slice(0, limit) };
}

/**
 * Throws MISMATCH if the models tokenize the text differently.
 * @param {{ file: string, model: any, ids: number[] }[]} models
 */
function checkSameTokens([one, other]) {
  if (!other) return;
  const [vocab, otherVocab] = [one.model.info.vocabSize, other.model.info.vocabSize];
  const areEqual = one.ids.length === other.ids.length && one.ids.every((id, i) => id === other.ids[i]);
  if (vocab === otherVocab && areEqual) return;
  throw new BqError(
    'MISMATCH',
    vocab === otherVocab
      ? `${one.file} and ${other.file} tokenize the text differently`
      : `${one.file} has a vocabulary of ${vocab} tokens, ${other.file} one of ${otherVocab}`,
    { hint: 'compare models with the same tokenizer' },
  );
}

/** Returns the stride of the windows. Throws Usage. @param {any} options @param {number} context */
function strideOf(options, context) {
  const stride = numberOf(options, 'stride') ?? Math.ceil(context / 2);
  if (Number.isInteger(stride) && stride > 0 && stride < context) return stride;
  if (context < 2) throw new Usage(`perplexity: expected a context of at least 2 tokens, found ${context}`);
  throw new Usage(`--stride: expected an integer from 1 to ${context - 1}, found "${options.stride}"`);
}

/** @param {string[]} files  the model, the text @param {any} options */
export async function measurePerplexity([file, path], options) {
  const text = await readText(path);
  const { createEngine } = await import('../../js/node.js');
  const engine = await createEngine({ build: options.build, threads: numberOf(options, 'threads') });
  const folder = await mkdtemp(join(tmpdir(), 'bq4-perplexity-'));
  try {
    /** @type {Awaited<ReturnType<typeof open>>[]} */
    const models = [];
    for (const name of options.against === undefined ? [file] : [file, options.against])
      models.push(await open(engine, name, text, options, folder));
    checkSameTokens(models);
    const context = Math.min(...models.map(({ model }) => model.info.contextTokens));
    const stride = strideOf(options, context);
    const { ids } = models[0];
    if (ids.length < 2) throw new BqError('ARGUMENT', `${path}: expected at least 2 tokens, found ${ids.length}`);
    const windows = windowsOf(ids.length, context, stride);
    /**
     * Calls score() inside a session of each model.
     * @param {Reader[]} readers @returns {Promise<Awaited<ReturnType<typeof score>>>}
     */
    const measure = async (readers) => {
      const next = models[readers.length];
      if (!next) return score(readers, ids, windows, progress(ids.length - 1));
      const session = await next.model.createSession();
      return session.runAlone((/** @type {SessionParts} */ parts) =>
        measure([...readers, new Reader(parts, next.model.info.vocabSize)]),
      );
    };
    printResult(models, path, { tokens: ids.length, context, stride }, await measure([]), engine.info, options.json);
  } finally {
    await engine.close();
    await rm(folder, { recursive: true });
  }
}

/** @param {number} total */
const progress = (total) => (/** @type {number} */ done, /** @type {number} */ perplexity) => {
  if (stderr.isTTY) stderr.write(`\r${done} of ${total} tokens, perplexity ${perplexity.toFixed(3)} `);
};

/**
 * @param {{ file: string }[]} models @param {string} text
 * @param {{ tokens: number, context: number, stride: number }} sizes
 * @param {Awaited<ReturnType<typeof score>>} sums @param {import('../../js/shared/types.js').EngineInfo} engine
 * @param {boolean} json
 */
function printResult(
  [{ file }, other],
  text,
  sizes,
  { predicted, nll, referenceNll, kl, same },
  { build, threads },
  json,
) {
  const result = {
    file,
    text,
    ...sizes,
    predicted,
    perplexity: Math.exp(nll / predicted),
    ...(other && {
      against: {
        file: other.file,
        perplexity: Math.exp(referenceNll / predicted),
        kl: kl / predicted,
        agreement: same / predicted,
      },
    }),
    build,
    threads,
  };
  if (stderr.isTTY) stderr.write('\r\x1b[K');
  if (json) return void stdout.write(`${JSON.stringify(result)}\n`);
  const { perplexity, against } = result;
  const rows = [
    ['perplexity', perplexity.toFixed(4)],
    ['tokens', `${predicted} predicted, in windows of ${sizes.context} with a stride of ${sizes.stride}`],
    ...(against
      ? [
          ['against', `${against.file}: perplexity ${against.perplexity.toFixed(4)}`],
          ['mean KL', against.kl.toFixed(6)],
          ['top 1', `the same for ${(100 * against.agreement).toFixed(2)} %`],
        ]
      : []),
  ];
  stdout.write(`${file} on ${text}\n${rows.map(([name, value]) => `  ${name.padEnd(12)}${value}\n`).join('')}`);
}
