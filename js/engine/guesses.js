/**
 * Prompt lookup: where the last tokens of a text stood in it before, those that came next then are guessed to come again. The
 * session computes a guess along with the token that is due, in one batch, and goes through it as far as the sampler picks
 * the same (bq_session_draft). So tokens are those that come without it: what is counted and timed here decides how they are
 * computed, never which they are. Loaded when a generation may guess.
 */

/** @import { GenerateOptions, Timings } from '../shared/types.js' */
/** @import { LocalModel } from './model.js' */
/** @import { Ends, Timeline } from './timeline.js' */

/** Tokens that must be the same for a guess, and those that are compared at most. */
const [LEAST, MOST] = [2, 8];
/** Of guesses behind so many tokens of the same, LEAST first: how many came, of 2, before any was made. */
const EXPECTED = [0.8, 1.2, 1.4, 1.6, 1.6, 1.8, 1.8];
/** What older counts are worth beside a new one. */
const FADE = 0.97;
/** What a token more is thought to cost, in steps, before it is measured. */
const MORE = 0.5;
/** One guess in so many is made as if nothing had been measured, since machines change. */
const RETRY = 64;

/** The longest end of a text that stood in it before, the last time it did. @param {number[]} ids @returns {{ length: number, next: number }} */
export function lookUp(ids) {
  const last = ids.length - 1;
  let [length, next] = [LEAST - 1, -1];
  for (let i = last - 1; i >= LEAST - 1 && length < MOST; i--) {
    if (ids[i] !== ids[last]) continue;
    let n = 1;
    while (n < MOST && n <= i && ids[i - n] === ids[last - n]) n++;
    if (n > length) [length, next] = [n, i + 1];
  }
  return { length: next < 0 ? 0 : length, next };
}

/** What steps of a model take, by the tokens in their batch. */
class Costs {
  /** @type {number[]} */
  #ms = [];

  /** Down faster than up: what comes in between makes a step longer, and nothing makes it shorter. @param {number} tokens @param {number} ms */
  took(tokens, ms) {
    const before = this.#ms[tokens] ?? ms;
    this.#ms[tokens] = before + (ms < before ? (ms - before) / 2 : Math.min(ms - before, before) / 8);
  }

  /** In steps of one token, of 1, 2, 3 … tokens. @param {number} most @param {boolean} measured */
  steps(most, measured) {
    const steps = [0, 1];
    for (let n = 2; n <= most; n++)
      steps[n] = measured && this.#ms[n] && this.#ms[1] ? this.#ms[n] / this.#ms[1] : steps[n - 1] + MORE;
    return steps;
  }
}

/** @type {WeakMap<LocalModel, Costs>} */
const known = new WeakMap();

export class Guesses {
  #timeline;
  #costs;
  /** Tokens of each guess; 0: as many as pay. */
  #always;
  #before;
  /** @type {{ came: number, of: number }[]} */
  #counts = EXPECTED.map((came) => ({ came, of: 2 }));
  #made = 0;
  /** What was guessed last: what may stand on the timeline from `from` on, behind `length` tokens of the same; `taken` were computed. @type {{ tokens: number[], length: number, from: number, taken: number }} */
  #guess = { tokens: [], length: 0, from: 0, taken: 0 };

  /** @param {LocalModel} model @param {Timeline} timeline @param {GenerateOptions['speculate']} how */
  constructor(model, timeline, how) {
    this.#timeline = timeline;
    this.#always = typeof how === 'object' ? how.tokens : 0;
    this.#before = { drafted: timeline.drafted, accepted: timeline.accepted };
    this.#costs = known.get(model) ?? new Costs();
    known.set(model, this.#costs);
    timeline.spent = 0;
  }

  /**
   * Computes the timeline's last tokens, and with them a guess of the next.
   * @param {Ends} ends @param {number} slices  at once; 0: all @param {number} left  tokens that may come
   */
  async run(ends, slices, left) {
    const timeline = this.#timeline;
    const came = this.#came();
    const added = timeline.ids.length - this.#guess.from;
    // What it would compute is there already.
    if (came === added) return timeline.run(ends, slices);
    this.#learn(came);
    const guess = this.#next(left - 1);
    const send = this.#always ? guess.tokens.length : this.#worth(guess);
    guess.taken = send && timeline.draft(guess.tokens.slice(0, send));
    timeline.drafted += guess.taken;
    timeline.spent = 0;
    await timeline.run(ends, slices);
    if (added - came === 1) this.#costs.took(1 + guess.taken, timeline.spent);
  }

  /** How many tokens of the last guess that were computed have come. */
  #came() {
    const { ids } = this.#timeline;
    const { tokens, from, taken } = this.#guess;
    let n = 0;
    while (n < taken && ids[from + n] === tokens[n]) n++;
    return n;
  }

  /** Counts what came of the last guess; of one that was not computed, whether its first token would have. @param {number} came */
  #learn(came) {
    const { tokens, length, from, taken } = this.#guess;
    const next = this.#timeline.ids[from + came];
    this.#timeline.accepted += came;
    for (let n = 0; n < came; n++) this.#count(length + n, 1);
    if (next !== undefined && came < Math.max(taken, Math.min(tokens.length, 1)))
      this.#count(length + came, Number(next === tokens[came]));
    this.#guess = { tokens: [], length: 0, from, taken: 0 };
  }

  /** @param {number} length @param {number} came  0 or 1 */
  #count(length, came) {
    const count = this.#counts[Math.min(length, MOST) - LEAST];
    count.came = count.came * FADE + came;
    count.of = count.of * FADE + 1;
  }

  /** @param {number} most  tokens that can be of use */
  #next(most) {
    const { ids, drafts } = this.#timeline;
    const { length, next } = lookUp(ids);
    /** @type {number[]} */
    const tokens = [];
    const n = length ? Math.min(most, this.#always || drafts) : 0;
    for (let at = next; tokens.length < n; at++) tokens.push(at < ids.length ? ids[at] : tokens[at - ids.length]);
    return (this.#guess = { tokens, length, from: ids.length, taken: 0 });
  }

  /** How many of its tokens to compute, so that a step of so much work gives the most. @param {{ tokens: number[], length: number }} guess */
  #worth({ tokens: { length: most }, length }) {
    if (!most) return 0;
    const steps = this.#costs.steps(most + 1, ++this.#made % RETRY > 0);
    let [best, rate, chance, tokens] = [0, 1, 1, 1];
    for (let n = 1; n <= most; n++) {
      const { came, of } = this.#counts[Math.min(length + n - 1, MOST) - LEAST];
      chance *= came / of;
      tokens += chance;
      if (tokens / steps[n + 1] > rate) [best, rate] = [n, tokens / steps[n + 1]];
    }
    return best;
  }

  /** To be called when the generation has ended. @param {Timings} timings */
  end(timings) {
    const { drafted, accepted } = this.#before;
    this.#learn(this.#came());
    timings.draftedTokens = this.#timeline.drafted - drafted;
    timings.acceptedTokens = this.#timeline.accepted - accepted;
    this.#timeline.spent = NaN;
  }
}
