// Runs the jobs of a test run: several at once, the longest first, then one by one the jobs that must run alone. A job that
// failed is run again, alone.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** @typedef {import('./report.mjs').Counts} Counts */

/**
 * @typedef {object} JobResult
 * @property {Counts} counts
 * @property {string} output
 * @property {string} [note]
 * @property {string[]} [failures]  name, location and message of each failed test
 * @property {number} [wall]  seconds
 * @property {number} [cpu]   CPU seconds of all its processes
 * @property {Job[]} [again]  jobs to run again instead of this one, if only a part of it failed
 */

/**
 * @typedef {object} Job
 * @property {string} suite
 * @property {string} name     the same in every run: the key of its recorded duration
 * @property {boolean} [alone] whether no other job may run at the same time: it uses all cores, or measures time
 * @property {boolean} [first] whether it runs before the others: it is quick and finds most faults
 * @property {boolean} [steady]  whether its result depends only on its input, so that a failed run is not repeated
 * @property {number} [budget] limit in CPU seconds; a job that exceeds it has failed. Default: no limit
 * @property {() => Promise<JobResult>} run
 */

/** Assumed duration in seconds of a job without a recorded or estimated one. */
const DEFAULT_SECONDS = 15;

/** Durations of jobs by name, kept in a file between runs. */
export class Durations {
  #file;
  /** @type {Record<string, { wall: number, cpu: number }>} */
  #recorded = {};
  /** Durations measured in this run. @type {Map<string, { wall: number, cpu: number }>} */
  #measured = new Map();
  /** @type {Readonly<Record<string, number>>} */
  #estimates;

  /**
   * @param {string} file
   * @param {Readonly<Record<string, number>>} [estimates]  seconds by job name, used until a job has run on this machine
   */
  constructor(file, estimates = {}) {
    this.#file = file;
    this.#estimates = estimates;
    if (existsSync(file)) this.#recorded = JSON.parse(readFileSync(file, 'utf8'));
  }

  /** Returns the expected duration of a job in seconds. @param {string} name */
  expected(name) {
    return this.#recorded[name]?.wall ?? this.#estimates[name] ?? DEFAULT_SECONDS;
  }

  /** Records the duration of a job. @param {string} name @param {number} wall  seconds @param {number} cpu  seconds */
  add(name, wall, cpu) {
    const rounded = { wall: Math.round(wall * 10) / 10, cpu: Math.round(cpu * 10) / 10 };
    this.#measured.set(name, rounded);
    this.#recorded[name] = rounded;
  }

  /** Writes the durations to the file. */
  save() {
    mkdirSync(dirname(this.#file), { recursive: true });
    const sortedDurations = Object.fromEntries(Object.entries(this.#recorded).sort(([a], [b]) => (a < b ? -1 : 1)));
    writeFileSync(this.#file, `${JSON.stringify(sortedDurations, null, 1)}\n`);
  }

  /** Returns the jobs of this run with the highest CPU time, one line each. @param {number} count */
  slowest(count) {
    const sortedJobs = [...this.#measured].sort(([, a], [, b]) => b.cpu - a.cpu || b.wall - a.wall);
    return sortedJobs
      .slice(0, count)
      .map(([name, { wall, cpu }]) => `${cpu.toFixed(1).padStart(8)} s CPU ${wall.toFixed(1).padStart(8)} s  ${name}`);
  }
}

/** Whether no test failed. @param {JobResult} result */
const isPassed = ({ counts }) => counts.failed === 0;

/**
 * Runs jobs and adds their results to the report.
 * @param {readonly Job[]} jobs
 * @param {object} options
 * @param {number} options.slots  number of jobs that run at the same time
 * @param {Durations} options.durations
 * @param {import('./report.mjs').Report} options.report
 * @param {() => boolean} [options.mayBegin]  whether another job may still be started; other jobs are reported as not run
 * @param {() => boolean} [options.mayRetry]  whether a failed job may still be run again; otherwise its failure counts
 */
export async function runJobs(jobs, { slots, durations, report, mayBegin = () => true, mayRetry = () => true }) {
  /** Jobs to run again, each with its first result. @type {[Job, JobResult][]} */
  const failedJobs = [];
  /** Runs a job and adds its result to the report. @param {Job} job @param {boolean} isRetry */
  const runJob = async (job, isRetry) => {
    if (!isRetry && !mayBegin()) return report.leftOut(job.name, 'the time limit for starting jobs is over');
    const result = await job.run();
    const { wall = 0, cpu = 0, again } = result;
    if (!isRetry || isPassed(result)) durations.add(job.name, wall, cpu);
    if (!isRetry && !isPassed(result) && !job.steady) {
      report.willRetry(job, result);
      return void failedJobs.push(
        ...(again ?? [job]).map((failedJob) => /** @type {[Job, JobResult]} */ ([failedJob, result])),
      );
    }
    if (isRetry && isPassed(result)) report.flaky(job);
    if (job.budget && cpu > job.budget)
      result.failures = [
        ...(result.failures ?? []),
        `expected at most ${job.budget} s of CPU time, found ${cpu.toFixed(0)} s`,
      ];
    if (job.budget && cpu > job.budget) result.counts = { ...result.counts, failed: result.counts.failed + 1 };
    report.add(job.name, result.counts, { ...result, seconds: wall });
  };
  const longestFirst = (/** @type {Job} */ a, /** @type {Job} */ b) =>
    Number(!!b.first) - Number(!!a.first) || durations.expected(b.name) - durations.expected(a.name);
  const queue = jobs.filter(({ alone }) => !alone).sort(longestFirst);
  const runQueue = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await runJob(job, false);
  };
  await Promise.all(Array.from({ length: slots }, runQueue));
  for (const job of jobs.filter(({ alone }) => alone)) await runJob(job, false);
  for (const [job, result] of failedJobs.splice(0)) {
    if (mayRetry()) await runJob(job, true);
    else report.add(job.name, result.counts, { ...result, seconds: result.wall });
  }
}
