/**
 * Speculative decoding. Draft tokens come from prompt lookup or from a draft model (draft-model.js). Prompt lookup
 * finds an earlier occurrence of the last tokens in the text, and proposes the tokens that followed it.
 *
 * The session computes draft tokens with the next token in one batch, and accepts them as long as the sampler picks the
 * same tokens (bq_session_draft). So the output is the same as without speculation: counts and times in this module
 * only decide how tokens are computed. Loaded when a generation may speculate.
 */
import { StepCosts, SpeculationTuner, MAX_LENGTH } from './tuner.js';

/** @import { GenerateOptions, TokenUsage } from '../../shared/types.js' */
/** @import { DraftModel } from './draft-model.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/** Smallest number of equal tokens that a proposal needs. */
const MIN_EQUAL = 2;
/** Range around the end of a repetition, in tokens before and after it, in which one equal token is enough. */
const [NEAR_BEFORE, NEAR_AFTER] = [4, 12];
/** Time of a step in milliseconds below which prompt lookup costs more time than it saves. */
const MIN_STEP_MS = 1;
/** Number of equal tokens that counts as a repetition. */
const REPEAT_LENGTH = 3;

/**
 * Finds the longest end of the text that also occurs earlier, and its latest earlier occurrence. `length`: number of
 * equal tokens, 0 if none; `next`: index of the token after that occurrence, -1 if none.
 * @param {number[]} ids @returns {{ length: number, next: number }}
 */
export function findRepetition(ids) {
  const last = ids.length - 1;
  let [length, next] = [MIN_EQUAL - 1, -1];
  // lastIndexOf is fast from the first call on; a loop would be slow until the browser optimizes it.
  const previousIndex = (/** @type {number} */ i) => (i < MIN_EQUAL - 1 ? -1 : ids.lastIndexOf(ids[last], i));
  for (let i = previousIndex(last - 1); i >= MIN_EQUAL - 1 && length < MAX_LENGTH; i = previousIndex(i - 1)) {
    let n = 1;
    while (n < MAX_LENGTH && n <= i && ids[i - n] === ids[last - n]) n++;
    if (n > length) [length, next] = [n, i + 1];
  }
  return { length: next < 0 ? 0 : length, next };
}

/**
 * Finds an occurrence of the last token near the position where a repetition ended.
 * @param {number[]} ids @param {number} expected  position after the repetition
 */
export function findNearRepetition(ids, expected) {
  const last = ids.length - 1;
  for (let i = Math.max(expected - NEAR_BEFORE, 0); i < Math.min(expected + NEAR_AFTER, last); i++)
    if (ids[i] === ids[last]) return { length: 1, next: i + 1 };
  return { length: 0, next: -1 };
}

/**
 * Proposes draft tokens. `length`: the number of equal tokens before them; `repeatPosition`: the new position after the
 * last repetition.
 * @param {number[]} ids @param {number} repeatPosition  position after the last repetition; -1: none so far
 * @param {number} maxTokens  largest number of draft tokens
 */
export function proposeTokens(ids, repeatPosition, maxTokens) {
  let { length, next } = findRepetition(ids);
  if (!length && repeatPosition >= 0) ({ length, next } = findNearRepetition(ids, repeatPosition));
  /** @type {number[]} */
  const tokens = [];
  for (let at = next; length && tokens.length < maxTokens; at++)
    tokens.push(at < ids.length ? ids[at] : tokens[at - ids.length]);
  return { length, tokens, repeatPosition: length === 1 || length >= REPEAT_LENGTH ? next : repeatPosition };
}

/** @type {WeakMap<LocalModel, StepCosts>} */
const costsByModel = new WeakMap();
/** Tuners of sessions. @type {WeakMap<TokenSequence, SpeculationTuner>} */
const tunersBySequence = new WeakMap();

/**
 * The latest draft: the tokens proposed for the positions from `startIndex` on, after `length` equal tokens.
 * `draftedCount` of them were computed, in addition to `dueCount` due tokens (tokens of the text without output so
 * far).
 * @typedef {{ tokens: number[], length: number, startIndex: number, draftedCount: number, dueCount: number }} DraftStep
 */

export class Speculator {
  #sequence;
  #model;
  #stepCosts;
  /** Null with a draft model, which computes the probability of its draft tokens. */
  #tuner;
  #draftModel;
  /** Fixed number of draft tokens; 0: as many as save time. */
  #fixedTokens;
  #countsBefore;
  /** @type {DraftStep} */
  #lastDraft = { tokens: [], length: 0, startIndex: 0, draftedCount: 0, dueCount: 0 };
  /** Position after the last repetition; -1: none. */
  #repeatPosition = -1;

  /**
   * @param {LocalModel} model @param {TokenSequence} sequence  sequence with a computed prompt
   * @param {NonNullable<GenerateOptions['speculate']>} mode
   * @param {DraftModel | null} draftModel  source of the draft tokens; null: prompt lookup
   */
  constructor(model, sequence, mode, draftModel) {
    const { maxDraftTokens } = sequence;
    this.#sequence = sequence;
    this.#model = model;
    this.#draftModel = draftModel;
    this.#fixedTokens = typeof mode === 'object' ? (mode.tokens ?? maxDraftTokens) : mode === true ? maxDraftTokens : 0;
    this.#countsBefore = { drafted: sequence.draftedCount, accepted: sequence.acceptedCount };
    this.#stepCosts = costsByModel.get(model) ?? new StepCosts();
    costsByModel.set(model, this.#stepCosts);
    this.#tuner = draftModel ? null : (tunersBySequence.get(sequence) ?? new SpeculationTuner(this.#stepCosts));
    if (this.#tuner) tunersBySequence.set(sequence, this.#tuner);
    this.start();
  }

  /** Forgets the latest draft. Called at the start, and after the sequence was replaced. */
  start() {
    this.#lastDraft = { tokens: [], length: 0, startIndex: this.#sequence.tokens.length, draftedCount: 0, dueCount: 0 };
    this.#repeatPosition = -1;
  }

  /**
   * Computes the due tokens of the sequence together with draft tokens.
   * @param {StopConditions} stopConditions @param {number} workUnits  work units at once; 0: all
   * @param {number} remaining  tokens until the limit
   */
  async run(stopConditions, workUnits, remaining) {
    const sequence = this.#sequence;
    const acceptedCount = this.#countAccepted();
    const dueCount = sequence.tokens.length - this.#lastDraft.startIndex - acceptedCount;
    // The output was already computed with an accepted draft token.
    if (!dueCount) return sequence.run(stopConditions, workUnits);
    this.#recordOutcome(acceptedCount);
    const proposal = this.#draftModel
      ? await this.#proposeWithModel(this.#draftModel, remaining - 1, dueCount, stopConditions, workUnits)
      : this.#proposeFromText(remaining - 1, dueCount);
    const proposedCount = proposal.tokens.length;
    // Sessions that share a batch gain nothing from draft tokens.
    const isSingle = this.#model.decoding.size < 2;
    const draftCount =
      this.#fixedTokens || !this.#tuner
        ? proposedCount
        : isSingle
          ? this.#tuner.bestDraftLength(proposal.length, proposedCount, dueCount)
          : 0;
    proposal.draftedCount = draftCount && sequence.addDraftTokens(proposal.tokens.slice(0, draftCount));
    sequence.draftedCount += proposal.draftedCount;
    await sequence.run(stopConditions, workUnits);
    const isComplete = stopConditions.due === undefined || performance.now() < stopConditions.due;
    if (isComplete && sequence.lastRunMs) this.#stepCosts.record(dueCount + proposal.draftedCount, sequence.lastRunMs);
  }

  /** Returns the number of computed draft tokens that were accepted. */
  #countAccepted() {
    const { tokens: ids } = this.#sequence;
    const { tokens, startIndex, draftedCount } = this.#lastDraft;
    let n = 0;
    while (n < draftedCount && ids[startIndex + n] === tokens[n]) n++;
    return n;
  }

  /**
   * Records the outcome of the latest draft. If no draft token was computed, records whether the first one was right.
   * @param {number} acceptedCount
   */
  #recordOutcome(acceptedCount) {
    const { tokens, length, startIndex, draftedCount, dueCount } = this.#lastDraft;
    const next = this.#sequence.tokens[startIndex + acceptedCount];
    this.#sequence.acceptedCount += acceptedCount;
    for (let n = 0; n < acceptedCount; n++) this.#tuner?.recordToken(length + n, true);
    if (next !== undefined && acceptedCount < Math.max(draftedCount, Math.min(tokens.length, 1)))
      this.#tuner?.recordToken(length + acceptedCount, next === tokens[acceptedCount]);
    if (dueCount) this.#tuner?.recordStep(dueCount, draftedCount, acceptedCount);
    this.#lastDraft = { tokens: [], length: 0, startIndex, draftedCount: 0, dueCount: 0 };
  }

  /**
   * @param {DraftModel} draft @param {number} maxTokens  largest useful number of draft tokens @param {number} dueCount
   * @param {StopConditions} stopConditions @param {number} workUnits  work units at once; 0: all
   */
  async #proposeWithModel(draft, maxTokens, dueCount, stopConditions, workUnits) {
    const { tokens: ids, maxDraftTokens } = this.#sequence;
    const tokens = await draft.proposeTokens(
      ids,
      Math.min(maxTokens, this.#fixedTokens, maxDraftTokens),
      stopConditions,
      workUnits,
    );
    this.#sequence.check();
    return (this.#lastDraft = { tokens, length: 0, startIndex: ids.length, draftedCount: 0, dueCount });
  }

  /** @param {number} maxTokens  largest useful number of draft tokens @param {number} dueCount */
  #proposeFromText(maxTokens, dueCount) {
    const { tokens: ids, maxDraftTokens } = this.#sequence;
    const startIndex = ids.length;
    if (!this.#fixedTokens && this.#stepCosts.singleMs < MIN_STEP_MS)
      return (this.#lastDraft = { tokens: [], length: 0, startIndex, draftedCount: 0, dueCount });
    const { length, tokens, repeatPosition } = proposeTokens(
      ids,
      this.#repeatPosition,
      Math.min(maxTokens, this.#fixedTokens || maxDraftTokens),
    );
    this.#repeatPosition = repeatPosition;
    return (this.#lastDraft = { tokens, length, startIndex, draftedCount: 0, dueCount });
  }

  /**
   * Records the outcome at the end of a generation or before the sequence is replaced.
   * @param {TokenUsage} usage  output: its counts are set
   */
  finish(usage) {
    const { drafted, accepted } = this.#countsBefore;
    this.#recordOutcome(this.#countAccepted());
    usage.draftedTokens = this.#sequence.draftedCount - drafted;
    usage.acceptedTokens = this.#sequence.acceptedCount - accepted;
  }
}
