/**
 * Speculative decoding. Prompt lookup: where the last tokens occurred earlier in the text, the tokens that followed there become draft tokens; or a
 * draft model proposes them (draft-model.js). The session computes draft tokens with the next token in one batch, and accepts them as
 * long as the sampler picks the same (bq_session_draft). So the output is the same as without speculation: counts and times here decide
 * only how tokens are computed. Loaded when a generation may speculate.
 */
import { StepCosts, SpeculationTuner, MAX_LENGTH } from './tuner.js';

/** @import { GenerateOptions, TokenUsage } from '../../shared/types.js' */
/** @import { DraftModel } from './draft-model.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/** Least number of equal tokens for a proposal. */
const MIN_EQUAL = 2;
/** Near the place where a repetition broke off, one equal token is enough: this many tokens before and after it. */
const [NEAR_BEFORE, NEAR_AFTER] = [4, 12];
/** Milliseconds of a step below which lookup costs more than it gains. */
const MIN_STEP_MS = 1;
/** Number of equal tokens that counts as a repetition. */
const REPEAT_LENGTH = 3;

/** Finds the latest earlier occurrence of the longest possible end of the text. @param {number[]} ids @returns {{ length: number, next: number }} */
export function findRepetition(ids) {
  const last = ids.length - 1;
  let [length, next] = [MIN_EQUAL - 1, -1];
  // lastIndexOf is as fast in the first steps as later on.
  const previousIndex = (/** @type {number} */ i) => (i < MIN_EQUAL - 1 ? -1 : ids.lastIndexOf(ids[last], i));
  for (let i = previousIndex(last - 1); i >= MIN_EQUAL - 1 && length < MAX_LENGTH; i = previousIndex(i - 1)) {
    let n = 1;
    while (n < MAX_LENGTH && n <= i && ids[i - n] === ids[last - n]) n++;
    if (n > length) [length, next] = [n, i + 1];
  }
  return { length: next < 0 ? 0 : length, next };
}

/** Finds the last token near the place where a repetition broke off. @param {number[]} ids @param {number} expected  position after the repetition */
export function findNearRepetition(ids, expected) {
  const last = ids.length - 1;
  for (let i = Math.max(expected - NEAR_BEFORE, 0); i < Math.min(expected + NEAR_AFTER, last); i++)
    if (ids[i] === ids[last]) return { length: 1, next: i + 1 };
  return { length: 0, next: -1 };
}

/**
 * Proposes draft tokens: `length` is the number of equal tokens before them.
 * @param {number[]} ids @param {number} repeatPosition  where it went on when it was last known to be repeated; -1: it wasn't @param {number} maxTokens  tokens
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
 * The latest draft: tokens that may follow from `startIndex` on, after `length` equal tokens. `draftedCount` of them were computed,
 * besides `dueCount` tokens that were due.
 * @typedef {{ tokens: number[], length: number, startIndex: number, draftedCount: number, dueCount: number }} DraftStep
 */

export class Speculator {
  #sequence;
  #model;
  #stepCosts;
  /** Null with a draft model, which knows the probability of its tokens. */
  #tuner;
  #draftModel;
  /** Fixed number of draft tokens; 0: as many as pay. */
  #fixedTokens;
  #countsBefore;
  /** @type {DraftStep} */
  #lastDraft = { tokens: [], length: 0, startIndex: 0, draftedCount: 0, dueCount: 0 };
  /** Position after the last repetition; -1: none. */
  #repeatPosition = -1;

  /** @param {LocalModel} model @param {TokenSequence} sequence  whose prompt is computed @param {NonNullable<GenerateOptions['speculate']>} mode @param {DraftModel | null} draftModel  that guesses; null: the text so far is looked up */
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

  /** Starts again, because the sequence was replaced. */
  start() {
    this.#lastDraft = { tokens: [], length: 0, startIndex: this.#sequence.tokens.length, draftedCount: 0, dueCount: 0 };
    this.#repeatPosition = -1;
  }

  /**
   * Computes the due tokens of the sequence together with draft tokens.
   * @param {StopConditions} ends @param {number} workUnits  work units at once; 0: all @param {number} remaining  tokens until the limit
   */
  async run(ends, workUnits, remaining) {
    const sequence = this.#sequence;
    const acceptedCount = this.#countAccepted();
    const dueCount = sequence.tokens.length - this.#lastDraft.startIndex - acceptedCount;
    // An accepted draft token has already computed the output.
    if (!dueCount) return sequence.run(ends, workUnits);
    this.#recordOutcome(acceptedCount);
    const proposal = this.#draftModel
      ? await this.#proposeWithModel(this.#draftModel, remaining - 1, dueCount, ends, workUnits)
      : this.#proposeFromText(remaining - 1, dueCount);
    const proposedCount = proposal.tokens.length;
    // Sessions that share a batch gain nothing from more rows.
    const isSingle = this.#model.decoding.size < 2;
    const draftCount =
      this.#fixedTokens || !this.#tuner
        ? proposedCount
        : isSingle
          ? this.#tuner.bestDraftLength(proposal.length, proposedCount, dueCount)
          : 0;
    proposal.draftedCount = draftCount && sequence.addDraftTokens(proposal.tokens.slice(0, draftCount));
    sequence.draftedCount += proposal.draftedCount;
    await sequence.run(ends, workUnits);
    const isComplete = ends.due === undefined || performance.now() < ends.due;
    if (isComplete && sequence.lastRunMs) this.#stepCosts.record(dueCount + proposal.draftedCount, sequence.lastRunMs);
  }

  /** Number of computed draft tokens that were accepted. */
  #countAccepted() {
    const { tokens: ids } = this.#sequence;
    const { tokens, startIndex, draftedCount } = this.#lastDraft;
    let n = 0;
    while (n < draftedCount && ids[startIndex + n] === tokens[n]) n++;
    return n;
  }

  /** Records the outcome of the last draft; of one that was not computed, whether its first token was right. @param {number} acceptedCount */
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

  /** @param {DraftModel} draft @param {number} maxTokens  tokens that can be of use @param {number} dueCount @param {StopConditions} ends @param {number} workUnits  at once */
  async #proposeWithModel(draft, maxTokens, dueCount, ends, workUnits) {
    const { tokens: ids, maxDraftTokens } = this.#sequence;
    const tokens = await draft.proposeTokens(
      ids,
      Math.min(maxTokens, this.#fixedTokens, maxDraftTokens),
      ends,
      workUnits,
    );
    this.#sequence.check();
    return (this.#lastDraft = { tokens, length: 0, startIndex: ids.length, draftedCount: 0, dueCount });
  }

  /** @param {number} maxTokens  tokens that can be of use @param {number} dueCount */
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

  /** Records the outcome at the end of a generation, and before the sequence is replaced. @param {TokenUsage} usage */
  finish(usage) {
    const { drafted, accepted } = this.#countsBefore;
    this.#recordOutcome(this.#countAccepted());
    usage.draftedTokens = this.#sequence.draftedCount - drafted;
    usage.acceptedTokens = this.#sequence.acceptedCount - accepted;
  }
}
