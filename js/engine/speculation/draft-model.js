/**
 * Draft tokens from a smaller model with the same vocabulary: its most likely token at each position. The draft model
 * computes the text in one of its own sessions. Before each draft, rejected draft tokens are removed from that session
 * and new tokens of the text are computed. Part of lazy-methods.js.
 */
import { BqError } from '../../shared/errors.js';
import { SPECIAL } from '../../wasm/abi.js';
import { vocabulary } from '../generation/logit-processors.js';
import { argmax, logSum } from '../model/probabilities.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/**
 * Smallest joint probability of the draft tokens, according to the draft model. A further token in a batch costs the
 * large model 0.4 to 0.8 steps (docs/SPEED.md), so a token that is accepted less than half of the time costs too much.
 */
const MIN_PROBABILITY = 0.5;
/**
 * Largest number of tokens that are computed without interruption. More tokens are a prompt, which yields between work
 * units.
 */
const MAX_UNINTERRUPTED = 32;

/** Pairs of models whose vocabularies were compared. @type {WeakMap<LocalModel, WeakSet<LocalModel>>} */
const checkedPairs = new WeakMap();

/** @param {string} message */
const vocabularyError = (message) =>
  new BqError('MISMATCH', `the draft model's vocabulary differs: ${message}`, {
    hint: 'choose a smaller model of the same family, with the same tokenizer',
  });

/**
 * Checks that both models have the same tokens. Throws MISMATCH.
 * @param {LocalModel} model @param {LocalModel} draft
 */
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

  /**
   * @param {LocalModel} model  the draft model @param {LocalSession} session  session of the draft model
   * @param {TokenSequence} target  sequence of the large model
   */
  constructor(model, session, target) {
    this.#model = model;
    this.#session = session;
    this.#target = target;
  }

  /**
   * Opens a draft model for a sequence that begins with `tokens`. Throws CLOSED, UNSUPPORTED, MISMATCH, NO_SESSION.
   * @param {LocalModel} model  the large model @param {string} id  id of the draft model
   * @param {TokenSequence} target @param {ArrayLike<number>} tokens
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
        hint: 'load the draft model with one session for each concurrent generation',
      });
    }
  }

  /**
   * Returns draft tokens for the text so far. Returns none if the text is longer than the draft model's context, or if
   * the draft model was closed.
   * @param {number[]} ids  tokens of the text so far @param {number} maxTokens  largest number of draft tokens
   * @param {StopConditions} stopConditions @param {number} workUnits  work units at once; 0: all
   * @returns {Promise<number[]>}
   */
  async proposeTokens(ids, maxTokens, stopConditions, workUnits) {
    /** @type {number[]} */
    const tokens = [];
    const session = this.#session;
    if (session.isClosed) return tokens;
    try {
      await session.runAlone(({ wasm, sequence }) => {
        const limit = Math.min(maxTokens, sequence.sizes.context - ids.length + 1);
        return limit < 1
          ? undefined
          : this.#generateDraft(wasm, sequence, ids, tokens, limit, stopConditions, workUnits);
      });
    } catch (error) {
      this.#target.check();
      if (!session.isClosed) throw error;
    }
    return tokens;
  }

  /**
   * Generates draft tokens until their joint probability is too low.
   * @param {import('../../wasm/wasm.js').Wasm} wasm @param {TokenSequence} sequence @param {number[]} ids
   * @param {number[]} tokens  output: the draft tokens @param {number} maxTokens
   * @param {StopConditions} stopConditions @param {number} workUnits
   */
  async #generateDraft(wasm, sequence, ids, tokens, maxTokens, stopConditions, workUnits) {
    const cachedCount = sequence.sync(Uint32Array.from(ids));
    const unitsPerRun = ids.length - cachedCount > MAX_UNINTERRUPTED ? 1 : workUnits;
    let probability = 1;
    while (tokens.length < maxTokens) {
      if (tokens.length) sequence.push(tokens[tokens.length - 1]);
      await sequence.run(stopConditions, tokens.length ? workUnits : unitsPerRun, () => this.#target.check());
      if (stopConditions.due !== undefined && performance.now() >= stopConditions.due) return;
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
