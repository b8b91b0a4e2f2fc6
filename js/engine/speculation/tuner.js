/**
 * Whether guesses of what comes next pay: how often such tokens came, and what steps of several tokens take. It knows no text and no
 * clock: it is told both, and says how much of a guess to compute.
 */

/** Equal tokens before a guess, from which on more of them count alike. */
export const MOST = 8;
/** Of 2 tokens guessed behind 1, 2, 3 … equal ones, so many are thought to come before any was seen. */
const EXPECTED = [0.9, 0.6, 1, 1.2, 1.4, 1.6, 1.7, 1.8];
/** What older counts are worth beside a new one. */
const FADE = 0.97;

/** What steps of 1 to 8 tokens take, in steps of one, before they are measured: as where arithmetic bounds them (docs/log/speed.md, "A pair alone"). */
const SLOW = [1, 1.55, 2.2, 2.6, 3.4, 3.8, 4.6, 5];
/** What is not known, or was not measured for so many steps, may take less: this share of what tokens more are thought to cost. */
const [HOPE, AGED] = [0.7, 256];
/** Where more was lost than may be, tokens more count so many times what they cost. */
const CARE = 1.4;

/** In steps of one token: what may be lost to guesses at first, how much more with every step, and what is saved up at most. */
const [START, SHARE, SAVED] = [0.5, 0.01, 4];

/** @param {number} tokens */
const slow = (tokens) => SLOW[(tokens - 1) % 8] + SLOW[7] * Math.floor((tokens - 1) / 8);

/** What steps of a model take by the tokens in them. */
export class Costs {
  /** Milliseconds of a step of one token; none is known at first. */
  one = Infinity;
  /** By tokens: in steps of one, and when that was measured last. @type {{ steps: number, at: number }[]} */
  #known = [];
  #at = 0;
  /** What `of` found since the last batch. @type {number[]} */
  #found = [];

  /** @param {number} tokens @param {number} ms */
  took(tokens, ms) {
    this.#at++;
    if (tokens === 1) {
      // Down faster than up: what comes in between makes a step longer, and nothing makes it shorter.
      const before = this.one < Infinity ? this.one : ms;
      this.one = before + (ms < before ? (ms - before) / 2 : Math.min(ms - before, before) / 8);
    } else if (this.one < Infinity) {
      const now = ms / this.one;
      const { steps } = this.#known[tokens] ?? { steps: now };
      this.#known[tokens] = { steps: steps + Math.min(now - steps, steps) / 4, at: this.#at };
      this.#found = [];
    }
  }

  /** Steps of one token that one of so many takes. @param {number} tokens */
  of(tokens) {
    return (this.#found[tokens] ??= this.#find(tokens));
  }

  /** Where it isn't known, by what is known of the nearest number. @param {number} tokens */
  #find(tokens) {
    if (tokens < 2) return tokens;
    let near = 0;
    for (const [n, known] of this.#known.entries())
      if (known && (!near || Math.abs(n - tokens) < Math.abs(near - tokens))) near = n;
    const share = near ? (this.#known[near].steps - 1) / (slow(near) - 1) : 1;
    return near === tokens ? this.#known[near].steps : 1 + share * (slow(tokens) - 1);
  }

  /** Whether it may be something else by now. @param {number} tokens */
  doubtful(tokens) {
    const known = this.#known[tokens];
    return !known || this.#at - known.at > AGED;
  }
}

/** Of a session. */
export class Gains {
  #costs;
  /** By equal tokens before them. @type {{ came: number, of: number }[]} */
  #counts = EXPECTED.map((came) => ({ came, of: 2 }));
  /** What may be lost. */
  #spare = START;

  /** @param {Costs} costs  of its model */
  constructor(costs) {
    this.#costs = costs;
  }

  /** @param {number} length  equal tokens */
  #count(length) {
    return this.#counts[Math.min(length, MOST) - 1];
  }

  /** One of a guess behind so many equal tokens came, or not. @param {number} length @param {boolean} came */
  saw(length, came) {
    const count = this.#count(length);
    count.came = count.came * FADE + Number(came);
    count.of = count.of * FADE + 1;
  }

  /** A step computed what was due and so many guessed tokens, of which some came. @param {number} due @param {number} guessed @param {number} came */
  step(due, guessed, came) {
    const costs = this.#costs;
    this.#spare = Math.min(this.#spare + SHARE + came - costs.of(due + guessed) + costs.of(due), SAVED);
  }

  /**
   * How many tokens of a guess to compute, so that steps give the most for what they take.
   * @param {number} length  equal tokens before it @param {number} most  tokens that it has @param {number} due  tokens that are computed anyway
   */
  worth(length, most, due) {
    const found = this.#best(length, most, due, (_, steps) => (this.#spare > 0 ? steps : CARE * steps));
    if (found.tokens || this.#spare <= 0) return found.tokens;
    const hoped = (/** @type {number} */ n, /** @type {number} */ steps) =>
      this.#costs.doubtful(due + n) ? HOPE * steps : steps;
    const { tokens, loss } = this.#best(length, most, due, hoped);
    return loss <= this.#spare ? tokens : 0;
  }

  /** @param {number} length @param {number} most @param {number} due @param {(n: number, steps: number) => number} price  of n tokens more, by what they are thought to take */
  #best(length, most, due, price) {
    const before = this.#costs.of(due);
    let [tokens, loss, rate, chance, gain] = [0, 0, 1, 1, 0];
    for (let n = 1; n <= most; n++) {
      const { came, of } = this.#count(length + n - 1);
      chance *= came / of;
      gain += chance;
      const steps = this.#costs.of(due + n) - before;
      const found = (1 + gain) / (1 + price(n, steps));
      if (found > rate) [tokens, loss, rate] = [n, steps - gain, found];
    }
    return { tokens, loss };
  }
}
