/**
 * The speculation tuner decides how many draft tokens save time, from their acceptance rate and the cost of steps of
 * several tokens. It reads neither text nor a clock: callers record outcomes and times.
 */

/** Largest number of equal tokens that is counted separately. */
export const MAX_LENGTH = 8;
/** Prior: accepted tokens out of 2 draft tokens after 1, 2, 3 … equal tokens. */
const PRIOR_ACCEPTED = [0.9, 0.6, 1, 1.2, 1.4, 1.6, 1.7, 1.8];
/** Weight of older counts relative to a new one. */
const DECAY = 0.97;

/**
 * Prior: cost of steps of 1 to 8 tokens, in steps of one token, on machines where arithmetic is the bottleneck
 * (docs/log/speed.md, "A pair alone").
 */
const PRIOR_STEP_COSTS = [1, 1.55, 2.2, 2.6, 3.4, 3.8, 4.6, 5];
/**
 * A cost that was never measured, or not for the last `MAX_AGE` steps, is multiplied by `OPTIMISM` so that it is tried.
 */
const [OPTIMISM, MAX_AGE] = [0.7, 256];
/** Factor on costs while the budget for losses is used up. */
const LOSS_PENALTY = 1.4;

/** Budget for losses, in steps of one token: the initial budget, the addition per step, and the limit. */
const [INITIAL_BUDGET, BUDGET_PER_STEP, MAX_BUDGET] = [0.5, 0.01, 4];

/** Returns the prior cost of a step, in steps of one token. @param {number} tokens */
const priorCost = (tokens) => PRIOR_STEP_COSTS[(tokens - 1) % 8] + PRIOR_STEP_COSTS[7] * Math.floor((tokens - 1) / 8);

/** Measured costs of a model's steps, by the number of their tokens. */
export class StepCosts {
  /** Milliseconds of a step of one token; Infinity: not measured. */
  singleMs = Infinity;
  /**
   * Costs by number of tokens: `steps`, the cost in steps of one token, and `at`, the value of `#stepCount` when it was
   * last measured.
   * @type {{ steps: number, at: number }[]}
   */
  #measured = [];
  #stepCount = 0;
  /** Results of `costOf` since the last measurement. @type {number[]} */
  #costCache = [];

  /** Records the time of a step. @param {number} tokens @param {number} ms */
  record(tokens, ms) {
    this.#stepCount++;
    if (tokens === 1) {
      // The estimate falls faster than it rises: an interruption makes a step longer, but nothing makes it shorter.
      const previousMs = this.singleMs < Infinity ? this.singleMs : ms;
      this.singleMs =
        previousMs + (ms < previousMs ? (ms - previousMs) / 2 : Math.min(ms - previousMs, previousMs) / 8);
    } else if (this.singleMs < Infinity) {
      const relative = ms / this.singleMs;
      const { steps } = this.#measured[tokens] ?? { steps: relative };
      this.#measured[tokens] = { steps: steps + Math.min(relative - steps, steps) / 4, at: this.#stepCount };
      this.#costCache = [];
    }
  }

  /** Returns the cost of a step, in steps of one token. @param {number} tokens */
  costOf(tokens) {
    return (this.#costCache[tokens] ??= this.#estimate(tokens));
  }

  /** Estimates a cost from the measured cost of the nearest number of tokens. @param {number} tokens */
  #estimate(tokens) {
    if (tokens < 2) return tokens;
    let nearest = 0;
    for (const [n, measurement] of this.#measured.entries())
      if (measurement && (!nearest || Math.abs(n - tokens) < Math.abs(nearest - tokens))) nearest = n;
    const scale = nearest ? (this.#measured[nearest].steps - 1) / (priorCost(nearest) - 1) : 1;
    return nearest === tokens ? this.#measured[nearest].steps : 1 + scale * (priorCost(tokens) - 1);
  }

  /** Returns whether the cost is unknown or outdated. @param {number} tokens */
  isUncertain(tokens) {
    const measurement = this.#measured[tokens];
    return !measurement || this.#stepCount - measurement.at > MAX_AGE;
  }
}

/** The speculation tuner of a session. */
export class SpeculationTuner {
  #stepCosts;
  /**
   * Weighted counts of accepted and of all draft tokens, by the number of equal tokens before them.
   * @type {{ acceptedWeight: number, totalWeight: number }[]}
   */
  #counts = PRIOR_ACCEPTED.map((acceptedWeight) => ({ acceptedWeight, totalWeight: 2 }));
  /** Budget for losses, in steps of one token. */
  #budget = INITIAL_BUDGET;

  /** @param {StepCosts} costs  costs of the session's model */
  constructor(costs) {
    this.#stepCosts = costs;
  }

  /** @param {number} length  number of equal tokens before the draft token */
  #countsFor(length) {
    return this.#counts[Math.min(length, MAX_LENGTH) - 1];
  }

  /** Records whether a draft token was accepted. @param {number} length @param {boolean} isAccepted */
  recordToken(length, isAccepted) {
    const count = this.#countsFor(length);
    count.acceptedWeight = count.acceptedWeight * DECAY + Number(isAccepted);
    count.totalWeight = count.totalWeight * DECAY + 1;
  }

  /**
   * Records a step and updates the budget for losses.
   * @param {number} due  due tokens @param {number} draftedCount @param {number} acceptedCount
   */
  recordStep(due, draftedCount, acceptedCount) {
    const costs = this.#stepCosts;
    this.#budget = Math.min(
      this.#budget + BUDGET_PER_STEP + acceptedCount - costs.costOf(due + draftedCount) + costs.costOf(due),
      MAX_BUDGET,
    );
  }

  /**
   * Returns the number of draft tokens that gives the most tokens per time.
   * @param {number} length  number of equal tokens before the draft @param {number} maxTokens  length of the draft
   * @param {number} due  number of due tokens
   */
  bestDraftLength(length, maxTokens, due) {
    const best = this.#findBest(length, maxTokens, due, (_, steps) =>
      this.#budget > 0 ? steps : LOSS_PENALTY * steps,
    );
    if (best.tokens || this.#budget <= 0) return best.tokens;
    const optimisticPrice = (/** @type {number} */ n, /** @type {number} */ steps) =>
      this.#stepCosts.isUncertain(due + n) ? OPTIMISM * steps : steps;
    const { tokens, loss } = this.#findBest(length, maxTokens, due, optimisticPrice);
    return loss <= this.#budget ? tokens : 0;
  }

  /**
   * Finds the number of draft tokens with the highest rate, and its expected loss in steps of one token.
   * @param {number} length @param {number} maxTokens @param {number} due
   * @param {(n: number, steps: number) => number} price  returns the assumed cost of n tokens from the estimated one
   */
  #findBest(length, maxTokens, due, price) {
    const baseCost = this.#stepCosts.costOf(due);
    let [tokens, loss, rate, chance, gain] = [0, 0, 1, 1, 0];
    for (let n = 1; n <= maxTokens; n++) {
      const { acceptedWeight, totalWeight } = this.#countsFor(length + n - 1);
      chance *= acceptedWeight / totalWeight;
      gain += chance;
      const steps = this.#stepCosts.costOf(due + n) - baseCost;
      const rateNow = (1 + gain) / (1 + price(n, steps));
      if (rateNow > rate) [tokens, loss, rate] = [n, steps - gain, rateNow];
    }
    return { tokens, loss };
  }
}
