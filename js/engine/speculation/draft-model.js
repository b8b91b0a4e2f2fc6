/**
 * Guesses that a smaller model of the same vocabulary makes: what it would write next, each time its likeliest token. It reads the
 * text in one of its own sessions, which it keeps in step: what was refused is cut off, what came instead is computed. Part of more.js.
 */
import { BqError } from '../../shared/errors.js';
import { SPECIAL } from '../../wasm/abi.js';
import { vocabulary } from '../generation/logit-processors.js';
import { argmax, logSum } from '../model/probabilities.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Ends, Timeline } from '../session/token-sequence.js' */

/**
 * How likely, by the small model, all of a guess must be. A token more in a batch costs the large one 0.4 to 0.8 steps
 * (docs/SPEED.md): one that comes less than every second time is not worth it.
 */
const LEAST = 0.5;
/** Tokens that are computed at once, as a step is; more are a prompt, which others interrupt. */
const STEP = 32;

/** Pairs that agree. @type {WeakMap<LocalModel, WeakSet<LocalModel>>} */
const agreed = new WeakMap();

/** @param {string} message */
const differs = (message) =>
  new BqError('MISMATCH', `the draft model's vocabulary differs: ${message}`, {
    hint: 'take a smaller model of the same family, with the same tokenizer',
  });

/** A number means the same token to both, whatever they do with it. MISMATCH. @param {LocalModel} model @param {LocalModel} draft */
function agree(model, draft) {
  const known = agreed.get(model) ?? new WeakSet();
  agreed.set(model, known);
  if (model === draft || known.has(draft)) return;
  for (const size of /** @type {const} */ (['vocabSize', 'tokenizerSize']))
    if (draft.info[size] !== model.info[size])
      throw differs(`${size}: expected ${model.info[size]}, found ${draft.info[size]}`);
  const [own, its] = [model, draft].map((one) => {
    const bytes = vocabulary(one.bytes('TOKN'));
    return (/** @type {number} */ id) => ({ bytes: bytes(id), special: (one.flags(id) & SPECIAL) !== 0 });
  });
  for (let id = 0; id < model.info.tokenizerSize; id++) {
    const [a, b] = [own(id), its(id)];
    const same = a.bytes.length === b.bytes.length && a.bytes.every((byte, i) => byte === b.bytes[i]);
    if (!same || a.special !== b.special) throw differs(`token ${id}: expected ${shown(a)}, found ${shown(b)}`);
  }
  known.add(draft);
}

/** @param {{ bytes: Uint8Array, special: boolean }} token */
const shown = ({ bytes, special }) =>
  `${special ? 'the special ' : ''}${JSON.stringify(new TextDecoder().decode(bytes))}`;

export class Draft {
  #model;
  #session;
  #large;

  /** @param {LocalModel} model  the small one @param {LocalSession} session  of it @param {Timeline} large  of whom it guesses */
  constructor(model, session, large) {
    this.#model = model;
    this.#session = session;
    this.#large = large;
  }

  /**
   * Guesses for a timeline that is to begin with `tokens`. CLOSED, UNSUPPORTED, MISMATCH, NO_SESSION.
   * @param {LocalModel} model @param {string} id  of the small one @param {Timeline} large @param {ArrayLike<number>} tokens
   */
  static open(model, id, large, tokens) {
    const draft = [...model.siblings].find(({ info }) => info.id === id);
    if (!draft)
      throw new BqError('CLOSED', 'the draft model was closed, or is of another engine', {
        hint: 'load it with the engine that has the large one',
      });
    if (!draft.info.generates)
      throw new BqError('UNSUPPORTED', 'the draft model is an encoder: it writes no text', {
        hint: 'take a smaller model of the same family',
      });
    agree(model, draft);
    try {
      return new Draft(draft, draft.replies.takeNow(tokens), large);
    } catch (cause) {
      if (!(cause instanceof BqError) || cause.code !== 'NO_SESSION') throw cause;
      throw new BqError('NO_SESSION', cause.message.replace('the', 'the draft'), {
        cause,
        details: cause.details,
        hint: 'load the draft model with as many sessions as generate with it at once',
      });
    }
  }

  /**
   * What may come next; nothing where the text is longer than its context, or when it was closed.
   * @param {number[]} ids  the text so far @param {number} most  tokens @param {Ends} ends @param {number} slices  at once; 0: all
   * @returns {Promise<number[]>}
   */
  async next(ids, most, ends, slices) {
    /** @type {number[]} */
    const tokens = [];
    const session = this.#session;
    if (session.closed) return tokens;
    try {
      await session.alone(({ wasm, timeline }) => {
        const room = Math.min(most, timeline.sizes.context - ids.length + 1);
        return room < 1 ? undefined : this.#write(wasm, timeline, ids, tokens, room, ends, slices);
      });
    } catch (error) {
      this.#large.check();
      if (!session.closed) throw error;
    }
    return tokens;
  }

  /**
   * Writes on, until it is unsure.
   * @param {import('../../wasm/wasm.js').Wasm} wasm @param {Timeline} timeline @param {number[]} ids @param {number[]} tokens  what it writes @param {number} most
   * @param {Ends} ends @param {number} slices
   */
  async #write(wasm, timeline, ids, tokens, most, ends, slices) {
    const kept = timeline.sync(Uint32Array.from(ids));
    const atOnce = ids.length - kept > STEP ? 1 : slices;
    let chance = 1;
    while (tokens.length < most) {
      if (tokens.length) timeline.push(tokens[tokens.length - 1]);
      await timeline.run(ends, tokens.length ? slices : atOnce, () => this.#large.check());
      if (ends.due !== undefined && performance.now() >= ends.due) return;
      const logits = wasm.f32(wasm.out('bqw_session_logits', timeline.handle), this.#model.info.vocabSize);
      const id = argmax(logits);
      chance *= Math.exp(logits[id] - logSum(logits));
      if (!(chance >= LEAST)) return;
      tokens.push(id);
    }
  }

  close() {
    this.#model.replies.give(this.#session);
  }
}
