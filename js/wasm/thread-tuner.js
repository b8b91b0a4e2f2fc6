/**
 * Which of several numbers of threads computes the fastest, learned from what real work took. It knows no clock and no threads: it is
 * told times and says what to use next.
 *
 * Each number has an estimate: time per unit of work, so that a step amid a long text doesn't look like a slow machine. At first the
 * best one and its neighbours are tried in turn; then the best is used, and others are tried again as often as what is lost by that is
 * a small share of the time. So a core that gets busy, or free again, is noticed, whoever takes or leaves it.
 */

/** Samples of a number by which it is known. */
const SURE = 3;
/** Share of the time that may be lost to trying others which are known. */
const SHARE = 0.015;
/** Samples between two such trials. */
const GAP = 8;
/** Milliseconds of a sample at least, since clocks of pages are coarse. */
const LEAST_MS = 1;
/** A number's last samples, whose median is what counts; after so many of other numbers its own are as one. */
const [KEPT, AGED] = [5, 16];
/** A sample counts as at most so many times as long as was known: whatever was in between. */
const WORST = 3;
/** Another number must be better by so much to take over. */
const BETTER = 0.98;

/** A number, its time per unit of work, the first samples of it, how many there are, and when the last one was. @typedef {{ threads: number, time: number, recent: number[], samples: number, last: number }} Known */

/** @param {number[]} list */
function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[(list.length - 1) >> 1] + sorted[list.length >> 1]) / 2;
}

export class Learner {
  /** @type {Known[]} */
  #all;
  /** Of #all: what is used now, what is thought to be the best. */
  #at;
  #best;
  #now = { ms: 0, work: 0 };
  #samples = 0;
  #lastTrial = 0;
  /** Milliseconds that may be lost. */
  #spare = 0;

  /** @param {number[]} numbers  of threads, rising @param {number} first  of these */
  constructor(numbers, first) {
    this.#all = numbers.map((threads) => ({ threads, time: Infinity, recent: [], samples: 0, last: 0 }));
    this.#at = this.#best = Math.max(0, numbers.indexOf(first));
  }

  /** To be used until `took` has been told of a whole sample. */
  get threads() {
    return this.#all[this.#at].threads;
  }

  /** The best so far. */
  get best() {
    return this.#all[this.#best].threads;
  }

  /** The best and those beside it were tried often enough. */
  get sure() {
    return !this.#unsure().length;
  }

  /** What each that was tried takes for the same work: 1 is what the best takes. */
  get tried() {
    const { time: least } = this.#all[this.#best];
    return this.#all
      .filter(({ samples }) => samples)
      .map(({ threads, time, samples }) => ({ threads, time: time / least, samples }));
  }

  /** @param {number} ms  that `work` took with `threads` @param {number} work @param {boolean} whole  a sample may end here */
  took(ms, work, whole) {
    this.#now.ms += ms;
    this.#now.work += work;
    if (!whole || this.#now.ms < LEAST_MS || !this.#now.work) return;
    const sample = this.#now;
    this.#now = { ms: 0, work: 0 };
    const trial = this.#at !== this.#best;
    const news = this.#learn(this.#all[this.#at], sample.ms / sample.work, trial);
    this.#rank();
    this.#pay(sample);
    if (trial && news && this.#at !== this.#best) return; // once more: it may well be better now
    this.#at = this.#next(sample.work);
  }

  /** @param {Known} one @param {number} time @param {boolean} trial @returns {boolean}  it is better than the best, by this sample */
  #learn(one, time, trial) {
    const news = trial && one.samples >= SURE && time < this.#all[this.#best].time * BETTER;
    if (this.#samples - one.last > AGED) one.recent = news ? [one.time] : one.recent.slice(0, 2);
    one.recent = [time, ...one.recent].slice(0, KEPT);
    one.time = median(one.recent);
    one.samples++;
    one.last = ++this.#samples;
    return news;
  }

  #rank() {
    for (const [i, { time }] of this.#all.entries())
      if (time < this.#all[this.#best].time * (this.#all[this.#best].samples ? BETTER : 1)) this.#best = i;
  }

  /** What was lost to not using the best, as it is known now. @param {{ ms: number, work: number }} sample */
  #pay({ ms, work }) {
    const [one, best] = [this.#all[this.#at], this.#all[this.#best]];
    this.#spare += SHARE * ms;
    if (one !== best && one.samples > SURE)
      this.#spare -= Math.max(0, Math.min(ms, WORST * one.time * work) - best.time * work);
  }

  /** Those that are to be tried first; more often where one sample at least was better than what the best is thought to take. */
  #unsure() {
    const { time } = this.#all[this.#best];
    const unsure = ({ samples = 0, recent = [time] } = {}) =>
      samples < SURE || (samples < KEPT && Math.min(...recent) < time);
    return [this.#best, this.#best - 1, this.#best + 1].filter((i) => this.#all[i] && unsure(this.#all[i]));
  }

  /** @param {number} work  of a sample */
  #next(work) {
    const unsure = this.#unsure();
    // In turn, so that whatever else the machine does falls on all.
    const first = (/** @type {number} */ i) => this.#all[i].samples + (i === this.#at ? 0.5 : 0);
    if (unsure.length) return unsure.reduce((a, b) => (first(b) < first(a) ? b : a));
    const { time: least } = this.#all[this.#best];
    // A trial need not wait for more than one sample's time, since what is known may be an accident; what it really loses is paid behind it.
    const cost = (/** @type {Known} */ { time }) => Math.min(time - least, least) * work;
    // The one that was not tried for the longest time, however much it costs: the cheap ones are not to use up what the others need.
    const others = [...this.#all.keys()].filter((i) => i !== this.#best);
    const next = others.reduce((a, b) => (this.#all[b].last < this.#all[a].last ? b : a));
    this.#spare = Math.min(this.#spare, cost(this.#all[next]));
    if (this.#spare < cost(this.#all[next]) || this.#samples - this.#lastTrial < GAP) return this.#best;
    this.#lastTrial = this.#samples;
    return next;
  }
}
