/** Texts become vectors: several are computed at once, each as if it were alone, so it doesn't matter which others come with it. */
import { unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { progressOf } from '../../shared/progress.js';

/** @import { LocalModel } from './model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Embeddings, EmbedOptions } from '../../shared/types.js' */

/** Texts that a session is given at once: more than it computes at once. */
const OFFERED = 32;

/** As in docs/FORMAT.md, "CONF keys". */
const POOLING = { mean: 1, cls: 2, last: 3 };

/** @typedef {{ ids: ArrayLike<number>, whole: boolean }} Cut */

/**
 * A vector of each of the first of these texts, as many as are computed at once. What the session held is gone.
 * @param {LocalSession} session @param {ArrayLike<number>[]} texts @param {number} pooling @param {boolean} normalize
 * @param {number} width  numbers of a vector @param {AbortSignal} [signal]
 */
const vectorsOf = (session, texts, pooling, normalize, width, signal) =>
  session.alone(async ({ wasm, timeline }) => {
    timeline.forget();
    const { handle } = timeline;
    const taken = wasm.scope((take) => {
      const put = (/** @type {number[]} */ list) => {
        const at = take(list.length * 4);
        wasm.u32(at, list.length).set(list);
        return at;
      };
      const [ids, lengths] = [put(texts.flatMap((ids) => Array.from(ids))), put(texts.map((ids) => ids.length))];
      return wasm.out('bqw_session_texts', handle, ids, lengths, texts.length, pooling, Number(normalize));
    });
    await timeline.run({ signal }, 1);
    return Array.from({ length: taken }, (_, i) => wasm.f32(wasm.out('bqw_session_vector', handle, i), width).slice());
  });

export class Embedder {
  #model;
  #replies;
  /** The call before has ended. @type {Promise<unknown>} */
  #before = Promise.resolve();

  /** @param {LocalModel} model @param {import('../generation/replies.js').Replies} replies  which have the sessions */
  constructor(model, replies) {
    this.#model = model;
    this.#replies = replies;
  }

  /** One call after the other. @param {(string | Uint32Array)[]} texts @param {EmbedOptions} options @returns {Promise<Embeddings>} */
  embed(texts, options) {
    const turn = this.#before.then(() => this.#embed(texts, options));
    this.#before = turn.catch(() => {});
    return unlessAborted(turn, options.signal);
  }

  /** @param {(string | Uint32Array)[]} texts @param {EmbedOptions} options @returns {Promise<Embeddings>} */
  async #embed(texts, { pooling, normalize, truncate = true, signal, onProgress }) {
    const said = this.#model.info.embedding;
    const how = POOLING[pooling ?? said.pooling ?? 'mean'];
    const unit = normalize ?? (said.normalize || !said.pooling);
    signal?.throwIfAborted();
    const cuts = texts.map((text, i) => this.#cut(text, i, truncate));
    const session = await this.#replies.take([], null, signal);
    /** @type {Float32Array[]} */
    const vectors = [];
    const progress = progressOf('embed', 'texts');
    try {
      while (vectors.length < texts.length) {
        onProgress?.(progress(vectors.length, texts.length));
        const next = cuts.slice(vectors.length, vectors.length + OFFERED).map(({ ids }) => ids);
        vectors.push(...(await vectorsOf(session, next, how, unit, this.#model.info.hidden, signal)));
      }
    } finally {
      this.#replies.give(session);
    }
    onProgress?.(progress(texts.length, texts.length));
    return {
      vectors,
      tokens: cuts.map(({ ids }) => ids.length),
      truncated: cuts.flatMap(({ whole }, i) => (whole ? [] : [i])),
    };
  }

  /**
   * What counts of a text. ARGUMENT: nothing; CONTEXT_FULL.
   * @param {string | Uint32Array} text @param {number} index @param {boolean} truncate
   * @returns {Cut}
   */
  #cut(text, index, truncate) {
    const {
      embedding: { tokens: most },
      tokenizer,
    } = this.#model.info;
    const { ids, whole } = typeof text === 'string' ? this.#encode(text, truncate) : { ids: text, whole: true };
    if (!ids.length)
      throw new BqError('ARGUMENT', `text ${index} has no tokens`, {
        hint: 'leave empty texts out',
        details: { index },
      });
    if (ids.length <= most) return { ids, whole };
    if (!truncate)
      throw new BqError('CONTEXT_FULL', `text ${index} has ${ids.length} tokens, there is room for ${most}`, {
        hint: 'cut it into parts, or leave `truncate` on',
        details: { index, tokens: ids.length, most },
      });
    // The token that ends every text ends this one, too.
    const end = typeof text === 'string' && tokenizer?.addEos ? [ids[ids.length - 1]] : [];
    return { ids: [...Array.from(ids).slice(0, most - end.length), ...end], whole: false };
  }

  /** Of a text that is too long for a prompt only the beginning is looked at. @param {string} text @param {boolean} truncate */
  #encode(text, truncate) {
    for (let part = text; ; part = part.slice(0, part.length / 2)) {
      try {
        return { ids: this.#model.encode(part), whole: part === text };
      } catch (error) {
        if (!truncate || !(error instanceof BqError) || error.code !== 'CONTEXT_FULL') throw error;
      }
    }
  }
}
