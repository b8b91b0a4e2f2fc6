/**
 * The thread tuner finds which of several numbers of threads is fastest, from the times of real work. It reads no clock
 * and starts no threads: the caller records times, and the tuner returns the number to use next.
 *
 * Each number of threads has an estimate: the time per unit of work. So a step in a long text does not look like a slow
 * machine. At first the best number and its neighbours are tried in turn. Then the best number is used. The others are
 * tried again from time to time, so that the lost time is a small share of the total. So the tuner notices when another
 * program starts or stops using a core.
 */

/** Number of samples after which an estimate is considered reliable. */
const MIN_SAMPLES = 3;
/** Share of the total time that may be lost by trying numbers that are known to be slower. */
const MAX_LOSS = 0.015;
/** Smallest number of samples between two such trials. */
const TRIAL_INTERVAL = 8;
/** Minimum length of a sample in milliseconds, since clocks in pages have a coarse resolution. */
const MIN_SAMPLE_MS = 1;
/** Number of recent samples whose median is the estimate. */
const RECENT_SAMPLES = 5;
/** Number of later samples after which the recent samples of a number are out of date. */
const MAX_AGE = 16;
/**
 * Limit of the counted time of a trial, as a multiple of the estimate: an interruption is not caused by the number of
 * threads.
 */
const MAX_OUTLIER = 3;
/** A number replaces the best one if its time is less than this share of the best one's time. */
const BETTER_SHARE = 0.98;

/**
 * A number of threads and its measurements.
 * @typedef {object} Candidate
 * @property {number} threads
 * @property {number} time      estimate: milliseconds per unit of work
 * @property {number[]} recent  recent samples, the latest first
 * @property {number} samples   number of all its samples
 * @property {number} last      value of the tuner's #samples at its last sample
 */

/** @param {number[]} list */
function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[(list.length - 1) >> 1] + sorted[list.length >> 1]) / 2;
}

export class ThreadTuner {
  /** @type {Candidate[]} */
  #candidates;
  /** Indices of the candidate in use and of the best candidate. */
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

  /**
   * @param {number[]} counts  numbers of threads, in ascending order @param {number} initial  the first number to use
   */
  constructor(counts, initial) {
    this.#candidates = counts.map((threads) => ({ threads, time: Infinity, recent: [], samples: 0, last: 0 }));
    this.#current = this.#best = Math.max(0, counts.indexOf(initial));
  }

  /** Number of threads to use now. Changes only when `add` completes a sample. */
  get threads() {
    return this.#candidates[this.#current].threads;
  }

  /** Fastest number of threads, according to the samples so far. */
  get best() {
    return this.#candidates[this.#best].threads;
  }

  /** Whether the best number and its neighbours have been tried often enough. */
  get isSettled() {
    return !this.#unsureCandidates().length;
  }

  /** Tried numbers of threads; `time` is a multiple of the best number's time. */
  get tried() {
    const { time: best } = this.#candidates[this.#best];
    return this.#candidates
      .filter(({ samples }) => samples)
      .map(({ threads, time, samples }) => ({ threads, time: time / best, samples }));
  }

  /**
   * Adds a measurement with the number of threads in `threads`.
   * @param {number} ms  milliseconds
   * @param {number} work  units of work that were computed
   * @param {boolean} mayEnd  whether a sample may end with this measurement
   */
  add(ms, work, mayEnd) {
    this.#sample.ms += ms;
    this.#sample.work += work;
    if (!mayEnd || this.#sample.ms < MIN_SAMPLE_MS || !this.#sample.work) return;
    const sample = this.#sample;
    this.#sample = { ms: 0, work: 0 };
    const isTrial = this.#current !== this.#best;
    const beatBest = this.#update(this.#candidates[this.#current], sample.ms / sample.work, isTrial);
    this.#updateBest();
    this.#updateBudget(sample);
    if (isTrial && beatBest && this.#current !== this.#best) return; // tried again, since it may be the best one
    this.#current = this.#chooseNext(sample.work);
  }

  /**
   * Updates an estimate.
   * @param {Candidate} candidate @param {number} time  milliseconds per unit of work @param {boolean} isTrial
   * @returns {boolean}  whether this sample is faster than the best candidate's estimate
   */
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

  /** Updates the best candidate. */
  #updateBest() {
    for (const [i, { time }] of this.#candidates.entries()) {
      const best = this.#candidates[this.#best];
      if (time < best.time * (best.samples ? BETTER_SHARE : 1)) this.#best = i;
    }
  }

  /**
   * Adds a share of the sample's time to the budget for trials, and subtracts the time that the sample lost against the
   * best candidate.
   * @param {{ ms: number, work: number }} sample
   */
  #updateBudget({ ms, work }) {
    const [current, best] = [this.#candidates[this.#current], this.#candidates[this.#best]];
    this.#budget += MAX_LOSS * ms;
    if (current !== best && current.samples > MIN_SAMPLES)
      this.#budget -= Math.max(0, Math.min(ms, MAX_OUTLIER * current.time * work) - best.time * work);
  }

  /**
   * Returns the candidates to try first: the best one and its neighbours, until each has enough samples. A neighbour
   * with a sample that is faster than the best estimate needs more samples.
   */
  #unsureCandidates() {
    const { time: best } = this.#candidates[this.#best];
    const isUnsure = ({ samples = 0, recent = [best] } = {}) =>
      samples < MIN_SAMPLES || (samples < RECENT_SAMPLES && Math.min(...recent) < best);
    return [this.#best, this.#best - 1, this.#best + 1].filter(
      (i) => this.#candidates[i] && isUnsure(this.#candidates[i]),
    );
  }

  /** Returns the index of the candidate to use next. @param {number} work  units of work of the last sample */
  #chooseNext(work) {
    const unsure = this.#unsureCandidates();
    // Candidates are tried in turn, so that other load on the machine affects all of them.
    const order = (/** @type {number} */ i) => this.#candidates[i].samples + (i === this.#current ? 0.5 : 0);
    if (unsure.length) return unsure.reduce((a, b) => (order(b) < order(a) ? b : a));
    const { time: best } = this.#candidates[this.#best];
    // The expected loss of a trial, at most the time of one sample of the best candidate, since the estimate may be
    // wrong. The real loss is subtracted from the budget afterwards.
    const loss = (/** @type {Candidate} */ { time }) => Math.min(time - best, best) * work;
    // The candidate whose last trial is the oldest, regardless of its loss. Otherwise cheap trials would use up the
    // budget.
    const otherCandidates = [...this.#candidates.keys()].filter((i) => i !== this.#best);
    const next = otherCandidates.reduce((a, b) => (this.#candidates[b].last < this.#candidates[a].last ? b : a));
    this.#budget = Math.min(this.#budget, loss(this.#candidates[next]));
    if (this.#budget < loss(this.#candidates[next]) || this.#samples - this.#lastTrial < TRIAL_INTERVAL)
      return this.#best;
    this.#lastTrial = this.#samples;
    return next;
  }
}
