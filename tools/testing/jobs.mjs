// Runs the jobs of a test run: several at once, the longest first, then those that need the machine for themselves; what has
// failed runs once more, alone.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** @typedef {import('./report.mjs').Counts} Counts */

/**
 * @typedef {object} JobResult
 * @property {Counts} counts
 * @property {string} output
 * @property {string} [note]
 * @property {string[]} [failures]  for each its name, place and message
 * @property {number} [wall]  seconds
 * @property {number} [cpu]   seconds of all its processes
 * @property {Job[]} [again]  what runs once more in its place, where that is less than all of it
 */

/**
 * @typedef {object} Job
 * @property {string} suite
 * @property {string} name     of all runs: what its duration is kept under
 * @property {boolean} [alone] it makes load, or measures: nothing else runs beside it
 * @property {boolean} [first] it is quick, and tells most
 * @property {boolean} [steady]  it depends on nothing but its input: a failure is a fault, and isn't tried again
 * @property {number} [budget] seconds of CPU that it may take, where that is checked
 * @property {() => Promise<JobResult>} run
 */

/** Seconds that a job is taken to last where nothing is known. */
const UNKNOWN = 15;

/** How long jobs took, by their names, from one run to the next. */
export class Durations {
  #file;
  /** @type {Record<string, { wall: number, cpu: number }>} */
  #kept = {};
  /** Of this run. @type {Map<string, { wall: number, cpu: number }>} */
  #seen = new Map();
  /** @type {Readonly<Record<string, number>>} */
  #estimates;

  /** @param {string} file @param {Readonly<Record<string, number>>} [estimates]  seconds of jobs that have not run here yet */
  constructor(file, estimates = {}) {
    this.#file = file;
    this.#estimates = estimates;
    if (existsSync(file)) this.#kept = JSON.parse(readFileSync(file, 'utf8'));
  }

  /** @param {string} name */
  expected(name) {
    return this.#kept[name]?.wall ?? this.#estimates[name] ?? UNKNOWN;
  }

  /** @param {string} name @param {number} wall @param {number} cpu */
  add(name, wall, cpu) {
    const rounded = { wall: Math.round(wall * 10) / 10, cpu: Math.round(cpu * 10) / 10 };
    this.#seen.set(name, rounded);
    this.#kept[name] = rounded;
  }

  save() {
    mkdirSync(dirname(this.#file), { recursive: true });
    const sorted = Object.fromEntries(Object.entries(this.#kept).sort(([a], [b]) => (a < b ? -1 : 1)));
    writeFileSync(this.#file, `${JSON.stringify(sorted, null, 1)}\n`);
  }

  /** Those of this run that took most of the processor, a line each. @param {number} count */
  slowest(count) {
    const all = [...this.#seen].sort(([, a], [, b]) => b.cpu - a.cpu || b.wall - a.wall);
    return all
      .slice(0, count)
      .map(([name, { wall, cpu }]) => `${cpu.toFixed(1).padStart(8)} s CPU ${wall.toFixed(1).padStart(8)} s  ${name}`);
  }
}

/** @param {JobResult} result */
const passed = ({ counts }) => counts.failed === 0;

/**
 * @param {readonly Job[]} jobs
 * @param {object} options
 * @param {number} options.slots  so many at once
 * @param {Durations} options.durations
 * @param {import('./report.mjs').Report} options.report
 * @param {() => boolean} [options.mayBegin]  false: what has not begun is left out
 * @param {() => boolean} [options.mayRetry]  false: a job that has failed is not run again, and its failure counts
 */
export async function runJobs(jobs, { slots, durations, report, mayBegin = () => true, mayRetry = () => true }) {
  /** Jobs to run again, each with its first result. @type {[Job, JobResult][]} */
  const failed = [];
  /** @param {Job} job @param {boolean} retry */
  const run = async (job, retry) => {
    if (!retry && !mayBegin()) return report.leftOut(job.name, 'too late to begin');
    const result = await job.run();
    const { wall = 0, cpu = 0, again } = result;
    if (!retry || passed(result)) durations.add(job.name, wall, cpu);
    if (!retry && !passed(result) && !job.steady) {
      report.willRetry(job, result);
      return void failed.push(...(again ?? [job]).map((one) => /** @type {[Job, JobResult]} */ ([one, result])));
    }
    if (retry && passed(result)) report.flaky(job);
    if (job.budget && cpu > job.budget)
      result.failures = [...(result.failures ?? []), `it took ${cpu.toFixed(0)} s of CPU, and may take ${job.budget}`];
    if (job.budget && cpu > job.budget) result.counts = { ...result.counts, failed: result.counts.failed + 1 };
    report.add(job.name, result.counts, { ...result, seconds: wall });
  };
  const longestFirst = (/** @type {Job} */ a, /** @type {Job} */ b) =>
    Number(!!b.first) - Number(!!a.first) || durations.expected(b.name) - durations.expected(a.name);
  const queue = jobs.filter(({ alone }) => !alone).sort(longestFirst);
  const slot = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await run(job, false);
  };
  await Promise.all(Array.from({ length: slots }, slot));
  for (const job of jobs.filter(({ alone }) => alone)) await run(job, false);
  for (const [job, result] of failed.splice(0)) {
    if (mayRetry()) await run(job, true);
    else report.add(job.name, result.counts, { ...result, seconds: result.wall });
  }
}
