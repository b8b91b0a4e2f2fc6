/**
 * Finds out which of several numbers of threads computes the fastest, from the times of real work. It has no clock and starts no
 * threads: it is given times and says which number to use next.
 *
 * Each number of threads has an estimate, the time per unit of work, so that a step in a long text doesn't look like a slow machine.
 * At first the best number and its neighbours are tried in turn. Then the best one is used, and the others are tried again, as often as
 * the time lost by that stays a small share of the whole. So the tuner notices when another program takes a core, or gives it back.
 */

/** Samples after which an estimate counts as known. */
const MIN_SAMPLES = 3;
/** Share of the whole time that may be lost to trying numbers that are known to be slower. */
const MAX_LOSS = 0.015;
/** Samples between two such trials. */
const TRIAL_INTERVAL = 8;
/** Minimum length of a sample in milliseconds, since clocks of pages are coarse. */
const MIN_SAMPLE_MS = 1;
/** Number of recent samples whose median is the estimate. */
const RECENT_SAMPLES = 5;
/** After this many samples of other numbers, the recent ones of a number are out of date. */
const MAX_AGE = 16;
/** The loss of one trial is counted up to this many times the estimate: an interruption is not the fault of the number. */
const MAX_OUTLIER = 3;
/** Another number must take less than this share of the best one's time to replace it. */
const BETTER_SHARE = 0.98;

/**
 * One number of threads: its time per unit of work in milliseconds, its recent samples (the latest first), how many there were, and
 * when the last one was, as the number of all samples by then.
 * @typedef {{ threads: number, time: number, recent: number[], samples: number, last: number }} Candidate
 */

/** @param {number[]} list */
function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[(list.length - 1) >> 1] + sorted[list.length >> 1]) / 2;
}

export class ThreadTuner {
  /** @type {Candidate[]} */
  #candidates;
  /** Indexes of the candidate in use and of the best one. */
  #current;
  #best;
  /** The sample in progress. */
  #sample = { ms: 0, work: 0 };
  /** Number of samples of all candidates. */
  #samples = 0;
  /** Value of #samples at the last trial of a slower candidate. */
  #lastTrial = 0;
  /** Milliseconds that may be lost to trials. */
  #budget = 0;

  /** @param {number[]} counts  numbers of threads, rising @param {number} initial  the one of them to begin with */
  constructor(counts, initial) {
    this.#candidates = counts.map((threads) => ({ threads, time: Infinity, recent: [], samples: 0, last: 0 }));
    this.#current = this.#best = Math.max(0, counts.indexOf(initial));
  }

  /** The number of threads to use now. It changes only when `add` has completed a sample. */
  get threads() {
    return this.#candidates[this.#current].threads;
  }

  /** The number that is the fastest, as far as is known. */
  get best() {
    return this.#candidates[this.#best].threads;
  }

  /** Whether the best number and its neighbours have been tried often enough. */
  get isSure() {
    return !this.#unsure().length;
  }

  /** The numbers that have been tried, with their times for the same work as multiples of the best one's. */
  get tried() {
    const { time: best } = this.#candidates[this.#best];
    return this.#candidates
      .filter(({ samples }) => samples)
      .map(({ threads, time, samples }) => ({ threads, time: time / best, samples }));
  }

  /**
   * Adds a measurement of the number in `threads`.
   * @param {number} ms  how long it took
   * @param {number} work  how much was computed
   * @param {boolean} mayEnd  whether a sample may end here
   */
  add(ms, work, mayEnd) {
    this.#sample.ms += ms;
    this.#sample.work += work;
    if (!mayEnd || this.#sample.ms < MIN_SAMPLE_MS || !this.#sample.work) return;
    const sample = this.#sample;
    this.#sample = { ms: 0, work: 0 };
    const isTrial = this.#current !== this.#best;
    const beatBest = this.#update(this.#candidates[this.#current], sample.ms / sample.work, isTrial);
    this.#rank();
    this.#account(sample);
    if (isTrial && beatBest && this.#current !== this.#best) return; // tried once more: it may have become the best
    this.#current = this.#next(sample.work);
  }

  /** Updates an estimate. @param {Candidate} candidate @param {number} time @param {boolean} isTrial @returns {boolean}  whether this sample beats the best candidate's estimate */
  #update(candidate, time, isTrial) {
    const { recent, samples, last } = candidate;
    const beatBest = isTrial && samples >= MIN_SAMPLES && time < this.#candidates[this.#best].time * BETTER_SHARE;
    if (this.#samples - last > MAX_AGE) candidate.recent = beatBest ? [candidate.time] : recent.slice(0, 2);
    candidate.recent = [time, ...candidate.recent].slice(0, RECENT_SAMPLES);
    candidate.time = median(candidate.recent);
    candidate.samples++;
    candidate.last = ++this.#samples;
    return beatBest;
  }

  #rank() {
    for (const [i, { time }] of this.#candidates.entries()) {
      const best = this.#candidates[this.#best];
      if (time < best.time * (best.samples ? BETTER_SHARE : 1)) this.#best = i;
    }
  }

  /** Adds to the budget of trials, and takes from it what this sample lost against the best candidate. @param {{ ms: number, work: number }} sample */
  #account({ ms, work }) {
    const [current, best] = [this.#candidates[this.#current], this.#candidates[this.#best]];
    this.#budget += MAX_LOSS * ms;
    if (current !== best && current.samples > MIN_SAMPLES)
      this.#budget -= Math.max(0, Math.min(ms, MAX_OUTLIER * current.time * work) - best.time * work);
  }

  /** Candidates to try first: the best one and its neighbours, until each has enough samples; more where one was faster than the best. */
  #unsure() {
    const { time: best } = this.#candidates[this.#best];
    const isUnsure = ({ samples = 0, recent = [best] } = {}) =>
      samples < MIN_SAMPLES || (samples < RECENT_SAMPLES && Math.min(...recent) < best);
    return [this.#best, this.#best - 1, this.#best + 1].filter(
      (i) => this.#candidates[i] && isUnsure(this.#candidates[i]),
    );
  }

  /** The candidate to use next. @param {number} work  of the last sample */
  #next(work) {
    const unsure = this.#unsure();
    // They take turns, so that other load of the machine falls on all of them.
    const order = (/** @type {number} */ i) => this.#candidates[i].samples + (i === this.#current ? 0.5 : 0);
    if (unsure.length) return unsure.reduce((a, b) => (order(b) < order(a) ? b : a));
    const { time: best } = this.#candidates[this.#best];
    // The expected loss of a trial. It counts as one sample of the best at most, as the estimate may be wrong; the real loss is accounted afterwards.
    const loss = (/** @type {Candidate} */ { time }) => Math.min(time - best, best) * work;
    // The candidate that was not tried for the longest time, whatever its loss: otherwise cheap trials would use up the budget of all.
    const otherCandidates = [...this.#candidates.keys()].filter((i) => i !== this.#best);
    const next = otherCandidates.reduce((a, b) => (this.#candidates[b].last < this.#candidates[a].last ? b : a));
    this.#budget = Math.min(this.#budget, loss(this.#candidates[next]));
    if (this.#budget < loss(this.#candidates[next]) || this.#samples - this.#lastTrial < TRIAL_INTERVAL)
      return this.#best;
    this.#lastTrial = this.#samples;
    return next;
  }
}
