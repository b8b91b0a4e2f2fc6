/** How many threads each run of an instance gets: what is the fastest, learned from the runs themselves. */
import { OK } from './abi.js';
import { Learner } from './thread-tuner.js';
import { now } from '../shared/timeouts.js';

/** @import { Learned } from '../shared/types.js' */
/** @import { Wasm } from './wasm.js' */

/**
 * What is learned apart: single tokens wait for memory, many at once for the cores, a few are in between.
 * @typedef {'decode' | 'few' | 'prefill'} Kind
 */
/** Tokens of a few. */
const FEW = 8;
/** Milliseconds of a run below which it doesn't count where its threads had to be woken, which takes 40 µs (docs/SPEED.md). */
const WAKING_MS = 2;

export class Choice {
  #wasm;
  #numbers;
  #first;
  /** @type {Map<Kind, Learner>} */
  #learners = new Map();
  #used = 0;
  /** Computes with one, and learns nothing of it. */
  alone = false;
  /** What was found so far. @type {{ [kind in Kind]?: Learned }} */
  learned = {};
  /** Another number is the best. */
  onLearned = (/** @type {Choice['learned']} */ _learned) => {};

  /** @param {Wasm} wasm @param {number[]} numbers  of threads to choose from, rising @param {number} first  of these, before anything is known */
  constructor(wasm, numbers, first) {
    this.#wasm = wasm;
    this.#numbers = numbers;
    this.#first = first;
  }

  /**
   * @param {number} session  its handle, or the first's of several in one pass
   * @param {number} others  in that pass
   * @param {() => number} run  of some slices; returns a status of the border
   */
  run(session, others, run) {
    if (this.alone) return (this.#use(1), run());
    const wasm = this.#wasm;
    const rows = others + wasm.call('bqw_session_rows', session);
    const kind = rows === 1 ? 'decode' : rows <= FEW ? 'few' : 'prefill';
    const learner = this.#learner(kind);
    const woken = this.#use(learner.threads);
    const before = wasm.call('bqw_session_work', session);
    const since = now();
    const status = run();
    const ms = now() - since;
    if (woken && ms < WAKING_MS) return status;
    // Slices of a prompt are alike, but for the last, of its results; those of a token aren't: a sample is all of it.
    const ended = status === OK;
    if (kind === 'prefill' ? !ended : true)
      learner.took(ms, wasm.call('bqw_session_work', session) - before, ended || kind === 'prefill');
    if (learner.sure && learner.best !== this.learned[kind]?.threads) {
      this.learned = { ...this.learned, [kind]: { threads: learner.best, tried: learner.tried } };
      this.onLearned(this.learned);
    }
    return status;
  }

  /** @param {Kind} kind */
  #learner(kind) {
    const known = this.#learners.get(kind) ?? new Learner(this.#numbers, this.#first);
    this.#learners.set(kind, known);
    return known;
  }

  /** @param {number} threads @returns {boolean}  it is more than before */
  #use(threads) {
    const before = this.#used;
    if (threads !== before) this.#wasm.useThreads(threads);
    this.#used = threads;
    return threads > before;
  }
}
