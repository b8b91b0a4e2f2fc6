/**
 * Draft tokens of a smaller model with the same vocabulary: always its likeliest token. It follows the
 * text in one of its own sessions: refused tokens are removed, accepted ones computed. Part of lazy-methods.js.
 */
import { BqError } from '../../shared/errors.js';
import { SPECIAL } from '../../wasm/abi.js';
import { vocabulary } from '../generation/logit-processors.js';
import { argmax, logSum } from '../model/probabilities.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/**
 * Least probability, by the draft model, of all draft tokens together. A further token in a batch costs the large model 0.4 to 0.8 steps
 * (docs/SPEED.md), so a token that is accepted less than every second time does not pay.
 */
const MIN_PROBABILITY = 0.5;
/** Tokens that are computed without interruption; more are a prompt, which yields between work units. */
const MAX_UNINTERRUPTED = 32;

/** Pairs of models whose vocabularies were compared. @type {WeakMap<LocalModel, WeakSet<LocalModel>>} */
const checkedPairs = new WeakMap();

/** @param {string} message */
const vocabularyError = (message) =>
  new BqError('MISMATCH', `the draft model's vocabulary differs: ${message}`, {
    hint: 'choose a smaller model of the same family, with the same tokenizer',
  });

/** Checks that both models have the same tokens. MISMATCH. @param {LocalModel} model @param {LocalModel} draft */
function checkSameVocabulary(model, draft) {
  const checkedDrafts = checkedPairs.get(model) ?? new WeakSet();
  checkedPairs.set(model, checkedDrafts);
  if (model === draft || checkedDrafts.has(draft)) return;
  for (const size of /** @type {const} */ (['vocabSize', 'tokenizerSize']))
    if (draft.info[size] !== model.info[size])
      throw vocabularyError(`${size}: expected ${model.info[size]}, found ${draft.info[size]}`);
  const [tokenOf, draftTokenOf] = [model, draft].map((tokenModel) => {
    const bytes = vocabulary(tokenModel.bytes('TOKN'));
    return (/** @type {number} */ id) => ({ bytes: bytes(id), special: (tokenModel.flags(id) & SPECIAL) !== 0 });
  });
  for (let id = 0; id < model.info.tokenizerSize; id++) {
    const [a, b] = [tokenOf(id), draftTokenOf(id)];
    const isEqual = a.bytes.length === b.bytes.length && a.bytes.every((byte, i) => byte === b.bytes[i]);
    if (!isEqual || a.special !== b.special)
      throw vocabularyError(`token ${id}: expected ${describeToken(a)}, found ${describeToken(b)}`);
  }
  checkedDrafts.add(draft);
}

/** @param {{ bytes: Uint8Array, special: boolean }} token */
const describeToken = ({ bytes, special }) =>
  `${special ? 'the special ' : ''}${JSON.stringify(new TextDecoder().decode(bytes))}`;

export class DraftModel {
  #model;
  #session;
  #target;

  /** @param {LocalModel} model  the draft model @param {LocalSession} session  of the draft model @param {TokenSequence} target  sequence of the large model */
  constructor(model, session, target) {
    this.#model = model;
    this.#session = session;
    this.#target = target;
  }

  /**
   * Opens a draft model for a sequence that begins with `tokens`. CLOSED, UNSUPPORTED, MISMATCH, NO_SESSION.
   * @param {LocalModel} model @param {string} id  of the draft model @param {TokenSequence} target @param {ArrayLike<number>} tokens
   */
  static open(model, id, target, tokens) {
    const draft = [...model.siblings].find(({ info }) => info.id === id);
    if (!draft)
      throw new BqError('CLOSED', 'the draft model was closed, or belongs to another engine', {
        hint: 'load both models with the same engine',
      });
    if (!draft.info.generates)
      throw new BqError('UNSUPPORTED', 'the draft model is an embedding model; it cannot generate text', {
        hint: 'choose a smaller model of the same family',
      });
    checkSameVocabulary(model, draft);
    try {
      return new DraftModel(draft, draft.replies.takeNow(tokens), target);
    } catch (cause) {
      if (!(cause instanceof BqError) || cause.code !== 'NO_SESSION') throw cause;
      throw new BqError('NO_SESSION', cause.message.replace('the model', 'the draft model'), {
        cause,
        details: cause.details,
        hint: 'load the draft model with a session for each generation that uses it at once',
      });
    }
  }

  /**
   * Draft tokens for the text so far; none if the text is longer than the draft model's context, or if the model was closed.
   * @param {number[]} ids  the text so far @param {number} maxTokens  tokens @param {StopConditions} ends @param {number} workUnits  at once; 0: all
   * @returns {Promise<number[]>}
   */
  async proposeTokens(ids, maxTokens, ends, workUnits) {
    /** @type {number[]} */
    const tokens = [];
    const session = this.#session;
    if (session.isClosed) return tokens;
    try {
      await session.runAlone(({ wasm, sequence }) => {
        const limit = Math.min(maxTokens, sequence.sizes.context - ids.length + 1);
        return limit < 1 ? undefined : this.#generateDraft(wasm, sequence, ids, tokens, limit, ends, workUnits);
      });
    } catch (error) {
      this.#target.check();
      if (!session.isClosed) throw error;
    }
    return tokens;
  }

  /**
   * Generates draft tokens until their joint probability is too low.
   * @param {import('../../wasm/wasm.js').Wasm} wasm @param {TokenSequence} sequence @param {number[]} ids @param {number[]} tokens  what it writes @param {number} maxTokens
   * @param {StopConditions} ends @param {number} workUnits
   */
  async #generateDraft(wasm, sequence, ids, tokens, maxTokens, ends, workUnits) {
    const cachedCount = sequence.sync(Uint32Array.from(ids));
    const unitsPerRun = ids.length - cachedCount > MAX_UNINTERRUPTED ? 1 : workUnits;
    let probability = 1;
    while (tokens.length < maxTokens) {
      if (tokens.length) sequence.push(tokens[tokens.length - 1]);
      await sequence.run(ends, tokens.length ? workUnits : unitsPerRun, () => this.#target.check());
      if (ends.due !== undefined && performance.now() >= ends.due) return;
      const logits = wasm.f32(wasm.out('bqw_session_logits', sequence.handle), this.#model.info.vocabSize);
      const id = argmax(logits);
      probability *= Math.exp(logits[id] - logSum(logits));
      if (!(probability >= MIN_PROBABILITY)) return;
      tokens.push(id);
    }
  }

  close() {
    this.#model.replies.give(this.#session);
  }
}
