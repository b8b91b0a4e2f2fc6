/**
 * The speculation tuner decides how many draft tokens pay, from their acceptance rate and the cost of steps of several tokens. It knows no text and no
 * clock: callers record both.
 */

/** Largest number of equal tokens that is counted separately. */
export const MAX_LENGTH = 8;
/** Prior: accepted tokens of 2 draft tokens after 1, 2, 3 … equal tokens. */
const PRIOR_ACCEPTED = [0.9, 0.6, 1, 1.2, 1.4, 1.6, 1.7, 1.8];
/** Weight of older counts relative to a new one. */
const DECAY = 0.97;

/** Prior: cost of steps of 1 to 8 tokens, in steps of one token, where arithmetic bounds them (docs/log/speed.md, "A pair alone"). */
const PRIOR_STEP_COSTS = [1, 1.55, 2.2, 2.6, 3.4, 3.8, 4.6, 5];
/** A cost that was never measured, or not for `MAX_AGE` steps, is assumed to be lower by this factor. */
const [OPTIMISM, MAX_AGE] = [0.7, 256];
/** Factor on costs while the loss exceeds the budget. */
const LOSS_PENALTY = 1.4;

/** Budget for losses, in steps of one token: at first, added by each step, and largest. */
const [INITIAL_BUDGET, BUDGET_PER_STEP, MAX_BUDGET] = [0.5, 0.01, 4];

/** @param {number} tokens */
const priorCost = (tokens) => PRIOR_STEP_COSTS[(tokens - 1) % 8] + PRIOR_STEP_COSTS[7] * Math.floor((tokens - 1) / 8);

/** Costs of a model's steps, by the number of their tokens. */
export class StepCosts {
  /** Milliseconds of a step of one token; Infinity: not measured. */
  singleMs = Infinity;
  /** By number of tokens: the cost in steps of one token, and when it was measured last. @type {{ steps: number, at: number }[]} */
  #measured = [];
  #stepCount = 0;
  /** Results of `costOf` since the last measurement. @type {number[]} */
  #costCache = [];

  /** @param {number} tokens @param {number} ms */
  record(tokens, ms) {
    this.#stepCount++;
    if (tokens === 1) {
      // Faster down than up, since interruptions make a step longer and nothing makes it shorter.
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

  /** The cost of a step, in steps of one token. @param {number} tokens */
  costOf(tokens) {
    return (this.#costCache[tokens] ??= this.#estimate(tokens));
  }

  /** An estimate from the measured cost of the nearest number of tokens. @param {number} tokens */
  #estimate(tokens) {
    if (tokens < 2) return tokens;
    let nearest = 0;
    for (const [n, measurement] of this.#measured.entries())
      if (measurement && (!nearest || Math.abs(n - tokens) < Math.abs(nearest - tokens))) nearest = n;
    const scale = nearest ? (this.#measured[nearest].steps - 1) / (priorCost(nearest) - 1) : 1;
    return nearest === tokens ? this.#measured[nearest].steps : 1 + scale * (priorCost(tokens) - 1);
  }

  /** Whether the cost is unknown or outdated. @param {number} tokens */
  isUncertain(tokens) {
    const measurement = this.#measured[tokens];
    return !measurement || this.#stepCount - measurement.at > MAX_AGE;
  }
}

/** The speculation tuner of a session. */
export class SpeculationTuner {
  #stepCosts;
  /** Weighted counts of accepted and of all draft tokens, by the number of equal tokens before them. @type {{ acceptedWeight: number, totalWeight: number }[]} */
  #counts = PRIOR_ACCEPTED.map((acceptedWeight) => ({ acceptedWeight, totalWeight: 2 }));
  /** Budget for losses, in steps of one token. */
  #budget = INITIAL_BUDGET;

  /** @param {StepCosts} costs  of its model */
  constructor(costs) {
    this.#stepCosts = costs;
  }

  /** @param {number} length  equal tokens */
  #countsFor(length) {
    return this.#counts[Math.min(length, MAX_LENGTH) - 1];
  }

  /** Records whether a draft token was accepted. @param {number} length @param {boolean} isAccepted */
  recordToken(length, isAccepted) {
    const count = this.#countsFor(length);
    count.acceptedWeight = count.acceptedWeight * DECAY + Number(isAccepted);
    count.totalWeight = count.totalWeight * DECAY + 1;
  }

  /** Records a step with due and draft tokens. @param {number} due @param {number} draftedCount @param {number} acceptedCount */
  recordStep(due, draftedCount, acceptedCount) {
    const costs = this.#stepCosts;
    this.#budget = Math.min(
      this.#budget + BUDGET_PER_STEP + acceptedCount - costs.costOf(due + draftedCount) + costs.costOf(due),
      MAX_BUDGET,
    );
  }

  /**
   * The number of draft tokens that gives the most tokens per time.
   * @param {number} length  equal tokens before it @param {number} maxTokens  tokens that it has @param {number} due  due tokens
   */
  bestDraftLength(length, maxTokens, due) {
    const best = this.#findBest(length, maxTokens, due, (_, steps) =>
      this.#budget > 0 ? steps : LOSS_PENALTY * steps,
    );
    if (best.tokens || this.#budget <= 0) return best.tokens;
    const hopefulPrice = (/** @type {number} */ n, /** @type {number} */ steps) =>
      this.#stepCosts.isUncertain(due + n) ? OPTIMISM * steps : steps;
    const { tokens, loss } = this.#findBest(length, maxTokens, due, hopefulPrice);
    return loss <= this.#budget ? tokens : 0;
  }

  /** @param {number} length @param {number} maxTokens @param {number} due @param {(n: number, steps: number) => number} price  price of n further tokens, from their cost in steps */
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
