/**
 * Converts texts to vectors, or classifies them. Several texts are computed in one batch. The result of a text does not
 * depend on the other texts in its batch.
 */
import { unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { progressOf } from '../../shared/progress.js';
import { encodeBeginning, tooLong } from './encode-beginning.js';
import { roundLogprob } from './probabilities.js';
import { pairCut } from './text-pairs.js';

/** @import { LocalModel } from './model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Classified, Embeddings, EmbedOptions } from '../../shared/types.js' */

/** Largest number of texts passed to a session at once. The session computes those that fit into one batch. */
const MAX_OFFERED = 32;

/** Codes of poolings, as in docs/FORMAT.md, "CONF keys"; `labels`: BQ_POOL_LABELS of c/model/config.h. */
const POOLING = { mean: 1, cls: 2, last: 3, labels: 4 };

/**
 * The tokens of a text or a pair of texts, cut to the model's maximum. `isComplete`: whether nothing was cut off;
 * `second`: index of the first token of the second text if it has token type 1, else 0.
 * @typedef {{ ids: ArrayLike<number>, isComplete: boolean, second?: number }} Cut
 */
/** @typedef {{ text: string, textPair: string }} TextPair */

/**
 * Computes the vectors of the first texts, as many as fit into one batch. Clears the session.
 * @param {LocalSession} session @param {Cut[]} texts @param {number} pooling @param {boolean} normalize
 * @param {number} width  length of a vector @param {AbortSignal} [signal]
 */
const vectorsOf = (session, texts, pooling, normalize, width, signal) =>
  session.runAlone(async ({ wasm, sequence }) => {
    sequence.clear();
    const { handle } = sequence;
    const count = wasm.scope((take) => {
      const putList = (/** @type {number[]} */ list) => {
        const at = take(list.length * 4);
        wasm.u32(at, list.length).set(list);
        return at;
      };
      const [ids, lengths] = [
        putList(texts.flatMap(({ ids }) => Array.from(ids))),
        putList(texts.map(({ ids }) => ids.length)),
      ];
      const count = wasm.out('bqw_session_texts', handle, ids, lengths, texts.length, pooling, Number(normalize));
      const seconds = texts.slice(0, count).map(({ second = 0 }) => second);
      if (seconds.some(Boolean)) wasm.check('bqw_session_second', handle, putList(seconds), count);
      return count;
    });
    await sequence.run({ signal }, 1);
    return Array.from({ length: count }, (_, i) => wasm.f32(wasm.out('bqw_session_vector', handle, i), width).slice());
  });

/**
 * Returns the most probable label and the probabilities of all: the logistic function of a single logit, the softmax of
 * several logits, rounded to eight digits.
 * @param {Float32Array} logits @param {string[]} labels @returns {Classified}
 */
function classified(logits, labels) {
  const maximum = logits.reduce((a, b) => Math.max(a, b));
  const powers = Array.from(logits, (logit) => Math.exp(logit - maximum));
  const sum = powers.reduce((a, b) => a + b, 0);
  const scores = Float32Array.from(
    labels.length === 1 ? [1 / (1 + Math.exp(-logits[0]))] : powers.map((power) => power / sum),
    roundLogprob,
  );
  const index = logits.indexOf(maximum);
  return { label: labels[index], index, score: scores[index], scores, logits };
}

export class Embedder {
  #model;
  #replies;
  /** Settles when the previous call has ended. @type {Promise<unknown>} */
  #previous = Promise.resolve();

  /**
   * @param {LocalModel} model @param {import('../generation/replies.js').Replies} replies  owner of the session pool
   */
  constructor(model, replies) {
    this.#model = model;
    this.#replies = replies;
  }

  /**
   * Runs work after the previous work has ended.
   * @template T
   * @param {() => Promise<T>} work @param {AbortSignal} [signal]
   */
  #runInTurn(work, signal) {
    const turn = this.#previous.then(work);
    this.#previous = turn.catch(() => {});
    return unlessAborted(turn, signal);
  }

  /** @param {(string | Uint32Array)[]} texts @param {EmbedOptions} options @returns {Promise<Embeddings>} */
  embed(texts, options) {
    return this.#runInTurn(() => this.#embed(texts, options), options.signal);
  }

  /**
   * Classifies texts with the model's own classifier. Throws UNSUPPORTED if it has none; throws CONTEXT_FULL.
   * @param {(string | Uint32Array | TextPair)[]} texts
   * @param {Pick<EmbedOptions, 'truncate' | 'signal' | 'onProgress'>} options
   * @returns {Promise<Classified[]>}
   */
  async classify(texts, { truncate = true, signal, onProgress }) {
    const { labels } = this.#model.info;
    if (!labels)
      throw new BqError('UNSUPPORTED', 'the model has no classifier of its own', {
        hint: 'pass one as `classifier`, created by bq4/classifiers',
      });
    const cuts = texts.map((text, i) => this.#cut(text, i, truncate));
    const logits = await this.#runInTurn(
      () => this.#vectors(cuts, POOLING.labels, false, labels.length, signal, onProgress),
      signal,
    );
    return logits.map((row, i) => ({ ...classified(row, labels), tokens: cuts[i].ids.length }));
  }

  /**
   * Returns the texts with an embedding prompt before each. Throws ARGUMENT if the model has no such prompt, or if a
   * text is given as tokens.
   * @param {(string | Uint32Array)[]} texts
   * @param {string} [requestedName]  name of the prompt; default: the model's default
   */
  #addPrompt(texts, requestedName) {
    const { prompts, defaultPrompt } = this.#model.info;
    const name = requestedName ?? defaultPrompt;
    if (!name) return texts;
    if (!Object.hasOwn(prompts, name))
      throw new BqError('ARGUMENT', `the model has no prompt "${name}"`, {
        hint: `expected one of ${Object.keys(prompts).join(', ') || 'none'}`,
      });
    const i = texts.findIndex((text) => typeof text !== 'string');
    if (i >= 0 && requestedName)
      throw new BqError('ARGUMENT', `text ${i} is a list of token ids, which the option prompt does not support`, {
        hint: 'pass a string, or omit `prompt`',
      });
    return texts.map((text) => (typeof text === 'string' ? prompts[name] + text : text));
  }

  /** @param {(string | Uint32Array)[]} inputs @param {EmbedOptions} options @returns {Promise<Embeddings>} */
  async #embed(inputs, { pooling, normalize, prompt, truncate = true, signal, onProgress }) {
    const texts = this.#addPrompt(inputs, prompt);
    const defaults = this.#model.info.embedding;
    const poolingCode = POOLING[pooling ?? defaults.pooling ?? 'mean'];
    const normalizes = normalize ?? (defaults.normalize || !defaults.pooling);
    const cuts = texts.map((text, i) => this.#cut(text, i, truncate));
    return {
      vectors: await this.#vectors(cuts, poolingCode, normalizes, defaults.width, signal, onProgress),
      tokens: cuts.map(({ ids }) => ids.length),
      truncated: cuts.flatMap(({ isComplete }, i) => (isComplete ? [] : [i])),
    };
  }

  /**
   * Computes the vectors of all texts in a session of the pool.
   * @param {Cut[]} cuts @param {number} pooling @param {boolean} normalize @param {number} width
   * @param {AbortSignal} [signal] @param {EmbedOptions['onProgress']} [onProgress]
   */
  async #vectors(cuts, pooling, normalize, width, signal, onProgress) {
    signal?.throwIfAborted();
    const session = await this.#replies.take([], null, signal);
    /** @type {Float32Array[]} */
    const vectors = [];
    const progress = progressOf('embed', 'texts');
    try {
      while (vectors.length < cuts.length) {
        onProgress?.(progress(vectors.length, cuts.length));
        const next = cuts.slice(vectors.length, vectors.length + MAX_OFFERED);
        vectors.push(...(await vectorsOf(session, next, pooling, normalize, width, signal)));
      }
    } finally {
      this.#replies.give(session);
    }
    onProgress?.(progress(cuts.length, cuts.length));
    return vectors;
  }

  /**
   * Returns the tokens of a text, cut to the model's maximum if `truncate` is set. Throws ARGUMENT if there are no
   * tokens; throws CONTEXT_FULL.
   * @param {string | Uint32Array | TextPair} text @param {number} index @param {boolean} truncate
   * @returns {Cut}
   */
  #cut(text, index, truncate) {
    const {
      embedding: { tokens: maximum },
      tokenizer,
    } = this.#model.info;
    if (typeof text === 'object' && 'textPair' in text) return pairCut(this.#model, text, index, truncate);
    const refuse = (/** @type {{ tokens: number } | { characters: number }} */ size) =>
      tooLong(`text ${index}`, index, size, maximum);
    const { ids, isComplete } =
      typeof text === 'string'
        ? encodeBeginning(this.#model, text, {}, truncate ? null : () => refuse({ characters: text.length }))
        : { ids: text, isComplete: true };
    if (!ids.length)
      throw new BqError('ARGUMENT', `text ${index} has no tokens`, {
        hint: 'omit empty texts',
        details: { index },
      });
    if (ids.length <= maximum) return { ids, isComplete };
    if (!truncate) throw refuse({ tokens: ids.length });
    // A text that was cut also ends with the end token.
    const end = typeof text === 'string' && tokenizer?.addEos ? [ids[ids.length - 1]] : [];
    return { ids: [...Array.from(ids).slice(0, maximum - end.length), ...end], isComplete: false };
  }
}
