/**
 * Chooses the number of threads for each run of an instance. Each kind of run has a ThreadTuner (thread-tuner.js),
 * which learns the fastest number from the times of the runs.
 */
import { OK } from './abi.js';
import { ThreadTuner } from './thread-tuner.js';
import { now } from '../shared/timeouts.js';

/** @import { Learned } from '../shared/types.js' */
/** @import { Wasm } from './wasm.js' */

/**
 * Kinds of runs, which are tuned separately. The speed of a single token is limited by memory bandwidth, that of a long
 * prompt by the cores; a few tokens are in between.
 * @typedef {'decode' | 'few' | 'prefill'} Kind
 */
/** Maximum number of tokens of a run of the kind 'few'. */
const MAX_FEW_TOKENS = 8;
/**
 * Milliseconds below which a run is not recorded if threads had to be woken for it, which takes 40 µs (docs/SPEED.md).
 */
const MIN_WAKING_RUN_MS = 2;

export class ThreadChoice {
  #wasm;
  #counts;
  #initial;
  /** @type {Map<Kind, ThreadTuner>} */
  #tuners = new Map();
  /** Number of threads of the last run; 0: there was no run. */
  #current = 0;
  /** Whether only one thread computes; its times are not recorded. */
  alone = false;
  /** Fastest number for each kind of run, if it is known. @type {{ [kind in Kind]?: Learned }} */
  learned = {};
  /** Called when another number has been found to be the fastest. */
  onLearned = (/** @type {ThreadChoice['learned']} */ _learned) => {};

  /**
   * @param {Wasm} wasm @param {number[]} counts  numbers of threads to choose from, in ascending order
   * @param {number} initial  the first number to use
   */
  constructor(wasm, counts, initial) {
    this.#wasm = wasm;
    this.#counts = counts;
    this.#initial = initial;
  }

  /**
   * Runs with the number of threads that the tuner returns, and records the time.
   * @param {number} session  handle of the session, or of the first session of a batch
   * @param {number} otherCount  number of further sessions in the batch
   * @param {() => number} run  computes some work units and returns a status of the ABI
   */
  run(session, otherCount, run) {
    if (this.alone) return (this.#use(1), run());
    const wasm = this.#wasm;
    const rows = otherCount + wasm.call('bqw_session_rows', session);
    const kind = rows === 1 ? 'decode' : rows <= MAX_FEW_TOKENS ? 'few' : 'prefill';
    const tuner = this.#tunerFor(kind);
    const wokeThreads = this.#use(tuner.threads);
    const before = wasm.call('bqw_session_work', session);
    const start = now();
    const status = run();
    const ms = now() - start;
    if (wokeThreads && ms < MIN_WAKING_RUN_MS) return status;
    // Work units of a prompt are alike, except the last one, which computes the output and is not recorded. Work units
    // of a token differ, so a sample is a complete token.
    const ended = status === OK;
    if (kind === 'prefill' ? !ended : true)
      tuner.add(ms, wasm.call('bqw_session_work', session) - before, ended || kind === 'prefill');
    if (tuner.isSettled && tuner.best !== this.learned[kind]?.threads) {
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

  /**
   * Sets the number of threads for the next run.
   * @param {number} threads
   * @returns {boolean}  whether it is more than before
   */
  #use(threads) {
    const before = this.#current;
    if (threads !== before) this.#wasm.useThreads(threads);
    this.#current = threads;
    return threads > before;
  }
}
