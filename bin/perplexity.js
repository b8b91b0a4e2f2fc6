/** `bq4 perplexity`: how well a model predicts a text, and how far it is from another one that predicts the same. */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stderr, stdout } from 'node:process';
import { argmax, logSum } from '../js/engine/model/probabilities.js';
import { piecesOf } from '../js/quantize/text-chunks.js';
import { BqError } from '../js/shared/errors.js';
import { loadOptions, numberOf, readText, sourceOf, Usage } from './options.js';

/** @typedef {{ wasm: import('../js/wasm/wasm.js').Wasm, timeline: import('../js/engine/session/token-sequence.js').Timeline }} Own */

/** Tokens of a window, where the model can. */
const CONTEXT = 512;
/** Characters that become tokens at once: a small model has little room. */
const PIECE = 1 << 13;
/** Tokens whose logits are computed in one batch, besides the first. */
const BATCH = 31;

/**
 * Overlapping windows of n tokens. Of each, those from `scored` on count: whatever a token is, it is predicted from at least
 * `context - stride` before it, but for the first window's.
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

/** Reads the logits of one position after the other of a text that is known: the tokens to come are guessed, rightly. */
class Reader {
  #own;
  #vocab;
  #ahead = 0;

  /** @param {Own} own @param {number} vocab */
  constructor(own, vocab) {
    this.#own = own;
    this.#vocab = vocab;
  }

  /** Those behind the first n tokens. @param {number[]} ids @param {number} n */
  async start(ids, n) {
    this.#own.timeline.sync(Uint32Array.from(ids.slice(0, n)));
    await this.#compute(ids, n);
  }

  /** Those behind one token more, ids[n - 1]. @param {number[]} ids @param {number} n */
  async next(ids, n) {
    this.#own.timeline.push(ids[n - 1]);
    if (this.#ahead) this.#ahead--;
    else await this.#compute(ids, n);
  }

  /** @param {number[]} ids @param {number} n */
  async #compute(ids, n) {
    const { timeline } = this.#own;
    this.#ahead = timeline.draft(ids.slice(n, n + BATCH));
    await timeline.run({}, 0);
  }

  /** Until it goes on. */
  get logits() {
    const { wasm, timeline } = this.#own;
    return wasm.f32(wasm.out('bqw_session_logits', timeline.handle), this.#vocab);
  }
}

/** Sum of p (log p - log q), p by the second. @param {Float32Array} ours @param {number} sum @param {Float32Array} theirs @param {number} theirSum */
function divergence(ours, sum, theirs, theirSum) {
  let all = 0;
  for (let i = 0; i < ours.length; i++) {
    const p = theirs[i] - theirSum;
    all += Math.exp(p) * (p - (ours[i] - sum));
  }
  return all;
}

/**
 * @param {Reader[]} readers  the model, and what it is compared with, if anything
 * @param {number[]} ids @param {{ from: number, scored: number, end: number }[]} windows
 * @param {(done: number, perplexity: number) => void} onProgress
 */
async function score([one, other], ids, windows, onProgress) {
  const sums = { predicted: 0, nll: 0, theirs: 0, kl: 0, same: 0 };
  for (const { from, scored, end } of windows) {
    const window = ids.slice(from, end);
    for (let n = scored - from; n < window.length; n++) {
      const begins = n === scored - from;
      for (const reader of other ? [one, other] : [one]) await reader[begins ? 'start' : 'next'](window, n);
      const { logits } = one;
      const sum = logSum(logits);
      sums.nll += sum - logits[window[n]];
      sums.predicted++;
      if (other) {
        const theirs = other.logits;
        const theirSum = logSum(theirs);
        sums.theirs += theirSum - theirs[window[n]];
        sums.kl += divergence(logits, sum, theirs, theirSum);
        sums.same += Number(argmax(logits) === argmax(theirs));
      }
      if (sums.predicted % 64 === 0) onProgress(sums.predicted, Math.exp(sums.nll / sums.predicted));
    }
  }
  return sums;
}

/** @param {string} path */
const isFolder = async (path) => (await stat(path).catch(() => null))?.isDirectory() ?? false;

/**
 * A model, and what it made of the text. Of a folder in Hugging Face's layout all weights are taken as f32.
 * @param {import('../js/shared/types.js').Engine} engine @param {string} file @param {string} text @param {any} options @param {string} folder  for what is converted
 */
async function opened(engine, file, text, options, folder) {
  const limit = numberOf(options, 'tokens') ?? Infinity;
  let from = file;
  if (await isFolder(file)) {
    from = join(await mkdtemp(join(folder, 'model-')), 'model.bq4');
    const { convert } = await import('../js/convert/index.js');
    await convert(file, from, { quant: 'f32' });
  }
  const source = await sourceOf(from, options);
  const { trainedContext } = await engine.plan(source);
  const model = /** @type {any} */ (
    await engine.load(source, {
      contextTokens: Math.min(CONTEXT, trainedContext),
      ...loadOptions(options),
      draftTokens: BATCH,
    })
  );
  model.writes();
  /** @type {number[]} */
  const ids = [];
  for (const piece of piecesOf(text, PIECE)) {
    if (ids.length >= limit) break;
    for (const id of await model.tokenize(piece, { addSpecial: !ids.length })) ids.push(id);
  }
  return { file, model, ids: ids.slice(0, limit) };
}

/** @param {{ file: string, model: any, ids: number[] }[]} all  MISMATCH: they don't predict the same */
function checkSame([one, other]) {
  if (!other) return;
  const [vocab, theirs] = [one.model.info.vocabSize, other.model.info.vocabSize];
  const same = one.ids.length === other.ids.length && one.ids.every((id, i) => id === other.ids[i]);
  if (vocab === theirs && same) return;
  throw new BqError(
    'MISMATCH',
    vocab === theirs
      ? `${one.file} and ${other.file} make other tokens of the text`
      : `${one.file} has a vocabulary of ${vocab}, ${other.file} one of ${theirs}`,
    { hint: 'compare models that have one tokenizer' },
  );
}

/** @param {any} options @param {number} context */
function strideOf(options, context) {
  const stride = numberOf(options, 'stride') ?? Math.ceil(context / 2);
  if (Number.isInteger(stride) && stride > 0 && stride < context) return stride;
  throw new Usage(`--stride is "${options.stride}", not a whole number from 1 to ${context - 1}`);
}

/** @param {string[]} files  the model, the text @param {any} options */
export async function measurePerplexity([file, path], options) {
  const text = await readText(path);
  const { createEngine } = await import('../js/node.js');
  const engine = await createEngine({ build: options.build, threads: numberOf(options, 'threads') });
  const folder = await mkdtemp(join(tmpdir(), 'bq4-perplexity-'));
  try {
    /** @type {Awaited<ReturnType<typeof opened>>[]} */
    const all = [];
    for (const name of options.against === undefined ? [file] : [file, options.against])
      all.push(await opened(engine, name, text, options, folder));
    checkSame(all);
    const context = Math.min(...all.map(({ model }) => model.info.contextTokens));
    const stride = strideOf(options, context);
    const { ids } = all[0];
    if (ids.length < 2)
      throw new BqError('ARGUMENT', `${path} has ${ids.length} tokens: none is there to be predicted`);
    const windows = windowsOf(ids.length, context, stride);
    /** With a session of each model for itself. @param {Reader[]} readers @returns {Promise<Awaited<ReturnType<typeof score>>>} */
    const measured = async (readers) => {
      const next = all[readers.length];
      if (!next) return score(readers, ids, windows, progress(ids.length - 1));
      const session = await next.model.createSession();
      return session.alone((/** @type {Own} */ own) =>
        measured([...readers, new Reader(own, next.model.info.vocabSize)]),
      );
    };
    tell(all, path, { tokens: ids.length, context, stride }, await measured([]), engine.info, options.json);
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
 * @param {{ file: string }[]} models @param {string} text @param {{ tokens: number, context: number, stride: number }} sizes
 * @param {Awaited<ReturnType<typeof score>>} sums @param {import('../js/shared/types.js').EngineInfo} engine @param {boolean} json
 */
function tell([{ file }, other], text, sizes, { predicted, nll, theirs, kl, same }, { build, threads }, json) {
  const found = {
    file,
    text,
    ...sizes,
    predicted,
    perplexity: Math.exp(nll / predicted),
    ...(other && {
      against: {
        file: other.file,
        perplexity: Math.exp(theirs / predicted),
        kl: kl / predicted,
        agreement: same / predicted,
      },
    }),
    build,
    threads,
  };
  if (stderr.isTTY) stderr.write('\r\x1b[K');
  if (json) return void stdout.write(`${JSON.stringify(found)}\n`);
  const { perplexity, against } = found;
  const rows = [
    ['perplexity', perplexity.toFixed(4)],
    ['tokens', `${predicted} predicted, in windows of ${sizes.context}, one every ${sizes.stride}`],
    ...(against
      ? [
          ['against', `${against.file}: perplexity ${against.perplexity.toFixed(4)}`],
          ['mean KL', against.kl.toFixed(6)],
          ['top 1', `the same for ${(100 * against.agreement).toFixed(2)} %`],
        ]
      : []),
  ];
  stdout.write(`${file} on ${text}\n${rows.map(([what, value]) => `  ${what.padEnd(12)}${value}\n`).join('')}`);
}
