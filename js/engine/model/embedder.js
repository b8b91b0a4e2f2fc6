/** Texts become vectors: several are computed at once, each as if it were alone, so it doesn't matter which others come with it. */
import { unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { progressOf } from '../../shared/progress.js';
import { roundLogprob } from './probabilities.js';
import { pairCut } from './text-pairs.js';

/** @import { LocalModel } from './model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Classified, Embeddings, EmbedOptions } from '../../shared/types.js' */

/** Texts that a session is given at once: more than it computes at once. */
const MAX_OFFERED = 32;

/** As in docs/FORMAT.md, "CONF keys"; `labels`: BQ_POOL_LABELS of c/model/config.h. */
const POOLING = { mean: 1, cls: 2, last: 3, labels: 4 };

/** What counts of a text, or of two; `second`: where the second begins if its tokens are of the second type, else 0. @typedef {{ ids: ArrayLike<number>, isWhole: boolean, second?: number }} Cut */
/** @typedef {{ text: string, textPair: string }} TextPair */

/**
 * The vectors of the first of these texts, as many as fit into one batch. Clears the session.
 * @param {LocalSession} session @param {Cut[]} texts @param {number} pooling @param {boolean} normalize
 * @param {number} width  numbers of a vector @param {AbortSignal} [signal]
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
 * The probability of a label: the logistic function of a single logit, the softmax of several, rounded to eight digits.
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
  /** The call before has ended. @type {Promise<unknown>} */
  #previous = Promise.resolve();

  /** @param {LocalModel} model @param {import('../generation/replies.js').Replies} replies  which have the sessions */
  constructor(model, replies) {
    this.#model = model;
    this.#replies = replies;
  }

  /** One call after the other. @template T @param {() => Promise<T>} work @param {AbortSignal} [signal] */
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
   * Labels by the model's own classifier. UNSUPPORTED: it has none; CONTEXT_FULL.
   * @param {(string | Uint32Array | TextPair)[]} texts @param {Pick<EmbedOptions, 'truncate' | 'signal' | 'onProgress'>} options
   * @returns {Promise<Classified[]>}
   */
  async classify(texts, { truncate = true, signal, onProgress }) {
    const { labels } = this.#model.info;
    if (!labels)
      throw new BqError('UNSUPPORTED', 'the model has no classifier of its own', {
        hint: 'give classify() one in `classifier`, made by bq4/classifiers',
      });
    const cuts = texts.map((text, i) => this.#cut(text, i, truncate));
    const logits = await this.#runInTurn(
      () => this.#vectors(cuts, POOLING.labels, false, labels.length, signal, onProgress),
      signal,
    );
    return logits.map((row, i) => ({ ...classified(row, labels), tokens: cuts[i].ids.length }));
  }

  /** Texts with a prompt before them. ARGUMENT: there is no such prompt, or a text is given as tokens. @param {(string | Uint32Array)[]} texts @param {string} [named] */
  #prompted(texts, named) {
    const { prompts, defaultPrompt } = this.#model.info;
    const name = named ?? defaultPrompt;
    if (!name) return texts;
    if (!Object.hasOwn(prompts, name))
      throw new BqError('ARGUMENT', `the model has no prompt "${name}"`, {
        hint: `it has ${Object.keys(prompts).join(', ') || 'none'}`,
      });
    const i = texts.findIndex((text) => typeof text !== 'string');
    if (i >= 0 && named)
      throw new BqError('ARGUMENT', `text ${i} is given as tokens, which no prompt can precede`, {
        hint: 'give it as a text, or leave `prompt` out',
      });
    return texts.map((text) => (typeof text === 'string' ? prompts[name] + text : text));
  }

  /** @param {(string | Uint32Array)[]} given @param {EmbedOptions} options @returns {Promise<Embeddings>} */
  async #embed(given, { pooling, normalize, prompt, truncate = true, signal, onProgress }) {
    const texts = this.#prompted(given, prompt);
    const defaults = this.#model.info.embedding;
    const poolingCode = POOLING[pooling ?? defaults.pooling ?? 'mean'];
    const unit = normalize ?? (defaults.normalize || !defaults.pooling);
    const cuts = texts.map((text, i) => this.#cut(text, i, truncate));
    return {
      vectors: await this.#vectors(cuts, poolingCode, unit, defaults.width, signal, onProgress),
      tokens: cuts.map(({ ids }) => ids.length),
      truncated: cuts.flatMap(({ isWhole }, i) => (isWhole ? [] : [i])),
    };
  }

  /** @param {Cut[]} cuts @param {number} pooling @param {boolean} normalize @param {number} width @param {AbortSignal} [signal] @param {EmbedOptions['onProgress']} [onProgress] */
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
   * The tokens of a text, cut to the model's maximum if `truncate` is set. ARGUMENT: no tokens; CONTEXT_FULL.
   * @param {string | Uint32Array | TextPair} text @param {number} index @param {boolean} truncate
   * @returns {Cut}
   */
  #cut(text, index, truncate) {
    const {
      embedding: { tokens: maximum },
      tokenizer,
    } = this.#model.info;
    if (typeof text === 'object' && 'textPair' in text) return pairCut(this.#model, text, index, truncate);
    const { ids, isWhole } = typeof text === 'string' ? this.#encode(text, truncate) : { ids: text, isWhole: true };
    if (!ids.length)
      throw new BqError('ARGUMENT', `text ${index} has no tokens`, {
        hint: 'leave empty texts out',
        details: { index },
      });
    if (ids.length <= maximum) return { ids, isWhole };
    if (!truncate)
      throw new BqError('CONTEXT_FULL', `text ${index} has ${ids.length} tokens, there is room for ${maximum}`, {
        hint: 'cut it into parts, or leave `truncate` on',
        details: { index, tokens: ids.length, most: maximum },
      });
    // The token that ends every text ends this one, too.
    const end = typeof text === 'string' && tokenizer?.addEos ? [ids[ids.length - 1]] : [];
    return { ids: [...Array.from(ids).slice(0, maximum - end.length), ...end], isWhole: false };
  }

  /** Of a text that is too long for a prompt only the beginning is looked at. @param {string} text @param {boolean} truncate */
  #encode(text, truncate) {
    for (let part = text; ; part = part.slice(0, part.length / 2)) {
      try {
        return { ids: this.#model.encode(part), isWhole: part === text };
      } catch (error) {
        if (!truncate || !(error instanceof BqError) || error.code !== 'CONTEXT_FULL') throw error;
      }
    }
  }
}
