/**
 * Chooses the number of threads for each run of an instance. A ThreadTuner for each kind of run (thread-tuner.js) learns from the times
 * of the runs which number is the fastest.
 */
import { OK } from './abi.js';
import { ThreadTuner } from './thread-tuner.js';
import { now } from '../shared/timeouts.js';

/** @import { Learned } from '../shared/types.js' */
/** @import { Wasm } from './wasm.js' */

/**
 * Kinds of runs, which are tuned separately: a single token is limited by memory bandwidth, a long prompt by the cores, and a few
 * tokens are in between.
 * @typedef {'decode' | 'few' | 'prefill'} Kind
 */
/** Maximum number of tokens of a run of the kind 'few'. */
const MAX_FEW_TOKENS = 8;
/** Shorter runs, in milliseconds, don't count where threads had to be woken for them, which takes 40 µs (docs/SPEED.md). */
const MIN_WAKING_RUN_MS = 2;

export class ThreadChoice {
  #wasm;
  #counts;
  #initial;
  /** @type {Map<Kind, ThreadTuner>} */
  #tuners = new Map();
  /** Number of threads of the last run; 0: nothing has run. */
  #current = 0;
  /** One thread computes, and nothing is learned from its times. */
  alone = false;
  /** The fastest number for each kind, where it is known. @type {{ [kind in Kind]?: Learned }} */
  learned = {};
  /** Is called when another number has turned out to be the fastest. */
  onLearned = (/** @type {ThreadChoice['learned']} */ _learned) => {};

  /** @param {Wasm} wasm @param {number[]} counts  numbers of threads to choose from, rising @param {number} initial  the one of them to begin with */
  constructor(wasm, counts, initial) {
    this.#wasm = wasm;
    this.#counts = counts;
    this.#initial = initial;
  }

  /**
   * Runs with the number of threads that is thought to be the fastest, or that is to be tried.
   * @param {number} session  handle of the session, or of the first of several in one pass
   * @param {number} others  number of the others in that pass
   * @param {() => number} run  computes some slices; returns a status of the ABI
   */
  run(session, others, run) {
    if (this.alone) return (this.#use(1), run());
    const wasm = this.#wasm;
    const rows = others + wasm.call('bqw_session_rows', session);
    const kind = rows === 1 ? 'decode' : rows <= MAX_FEW_TOKENS ? 'few' : 'prefill';
    const tuner = this.#tunerFor(kind);
    const woke = this.#use(tuner.threads);
    const before = wasm.call('bqw_session_work', session);
    const start = now();
    const status = run();
    const ms = now() - start;
    if (woke && ms < MIN_WAKING_RUN_MS) return status;
    // Slices of a prompt are alike, except the last one, which computes the results. Those of a token differ: a sample is a whole token.
    const ended = status === OK;
    if (kind === 'prefill' ? !ended : true)
      tuner.add(ms, wasm.call('bqw_session_work', session) - before, ended || kind === 'prefill');
    if (tuner.isSure && tuner.best !== this.learned[kind]?.threads) {
      this.learned = { ...this.learned, [kind]: { threads: tuner.best, tried: tuner.tried } };
      this.onLearned(this.learned);
    }
    return status;
  }

  /** @param {Kind} kind */
  #tunerFor(kind) {
    const tuner = this.#tuners.get(kind) ?? new ThreadTuner(this.#counts, this.#initial);
    this.#tuners.set(kind, tuner);
    return tuner;
  }

  /** Sets the number of threads for the next run. @param {number} threads @returns {boolean}  whether it is more than before */
  #use(threads) {
    const before = this.#current;
    if (threads !== before) this.#wasm.useThreads(threads);
    this.#current = threads;
    return threads > before;
  }
}
