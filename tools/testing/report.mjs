// Counts test results and prints each as soon as it is known.

/** @typedef {{passed: number, failed: number, skipped: number}} Counts */

/** Largest number of failures of a suite that the summary lists. */
const LISTED_FAILURES = 20;
/** Largest number of characters printed of a failure. */
const FAILURE_CHARACTERS = 600;

/**
 * Finds the failed tests in the output of Node's TAP reporter. Groups that failed only because of their members are omitted.
 * @param {string} tap
 * @returns {string[]}  name, location and message of each
 */
export function failuresIn(tap) {
  const failures = [];
  for (const [, name, , yaml] of tap.matchAll(/^ *not ok \d+ - (.*)\n( *)---\n([^]*?)\n\2\.\.\.$/gm)) {
    if (/failureType: 'subtestsFailed'/.test(yaml)) continue;
    const location = /location: '(.*?)'/.exec(yaml)?.[1] ?? '';
    const message = /error: (?:\|-\n([^]*?)\n *code:|(.*))/.exec(yaml);
    const text = (message?.[1] ?? message?.[2] ?? '')
      .split('\n')
      .map((line) => line.trim())
      .join('\n');
    failures.push(`${name} (${location.split('/').slice(-1)[0]})\n${text}`.slice(0, FAILURE_CHARACTERS));
  }
  return failures;
}

export class Report {
  /** @type {Counts} */
  #total = { passed: 0, failed: 0, skipped: 0 };
  /** Failed jobs: the line of the summary, and messages of the failed tests. @type {{ line: string, failures: readonly string[] }[]} */
  #failures = [];
  /** @type {string[]} */
  #skips = [];
  /** Suites and jobs that were not run, with the reason. @type {string[]} */
  #notRun = [];
  /** Jobs that failed and then passed, with their failures in the first run. @type {{ name: string, failures: readonly string[] }[]} */
  #flaky = [];
  /** Results of the first run of jobs that failed, by name. @type {Map<string, import('./jobs.mjs').JobResult>} */
  #retried = new Map();
  #noteFlaky;

  /** @param {(name: string) => boolean} [noteFlaky]  records a flaky job; returns whether it was flaky in the last week */
  constructor(noteFlaky = () => false) {
    this.#noteFlaky = noteFlaky;
  }

  /** Prints a heading. @param {string} suite */
  heading(suite) {
    console.log(`\n=== ${suite}`);
  }

  /**
   * @param {string} name
   * @param {Counts} counts
   * @param {{output?: string, note?: string, failures?: readonly string[], seconds?: number}} [details]  `output` is printed
   *   if a test failed; `failures` are printed in the summary, so that the last lines contain the cause
   */
  add(name, counts, { output = '', note = '', failures = [], seconds } = {}) {
    for (const key of /** @type {const} */ (['passed', 'failed', 'skipped'])) this.#total[key] += counts[key];
    if (counts.failed) {
      if (output) console.log(output.trimEnd());
      this.#failures.push({ line: note ? `${name}: ${note}` : name, failures });
    }
    if (counts.skipped) this.#skips.push(`${name}: ${counts.skipped}`);
    const numbers = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
    const duration = seconds === undefined ? '' : `, ${seconds.toFixed(1)} s`;
    console.log(`${counts.failed ? 'FAILED' : 'ok    '} ${name}: ${numbers}${duration}${note ? ` (${note})` : ''}`);
  }

  /**
   * Prints the output of a failed job that will run again.
   * @param {import('./jobs.mjs').Job} job
   * @param {import('./jobs.mjs').JobResult} result
   */
  willRetry({ name }, result) {
    console.log(result.output.trimEnd());
    console.log(`FAILED ${name}, will run again, alone`);
    this.#retried.set(name, result);
  }

  /**
   * Records a job that failed and passed in its second run: the test or the product has a fault that appears sometimes.
   * @param {import('./jobs.mjs').Job} job
   */
  flaky({ name }) {
    const { failures = [], note = '' } = this.#retried.get(name) ?? {};
    if (this.#noteFlaky(name)) this.fail(name, 'FLAKY for the second time within a week');
    this.#flaky.push({ name, failures: failures.length ? failures : [note] });
  }

  /**
   * Adds the result of a single test.
   * @param {string} name
   * @param {boolean} passed
   * @param {{output?: string, note?: string}} [details]
   */
  one(name, passed, details) {
    this.add(name, { passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: 0 }, details);
  }

  /**
   * Adds a failure that prevented tests from running.
   * @param {string} name
   * @param {string} why
   */
  fail(name, why) {
    this.one(name, false, { note: why });
  }

  /**
   * Records a suite or a job that was not run. Its tests are not counted.
   * @param {string} name
   * @param {string} why
   */
  leftOut(name, why) {
    this.#notRun.push(`${name} (${why})`);
  }

  /**
   * Prints the summary.
   * @param {boolean} dataPresent  whether the shared data is present; skipped tests then count as a failure
   * @returns {number} the exit status
   */
  finish(dataPresent) {
    if (dataPresent && this.#skips.length)
      this.fail('skipped tests', `expected none since the shared data is present, found ${this.#skips.join(', ')}`);
    if (this.#failures.length) console.log('\nfailed:');
    for (const { line, failures } of this.#failures) {
      console.log(`  ${line}`);
      for (const failure of failures.slice(0, LISTED_FAILURES))
        console.log(`    ${failure.replaceAll('\n', '\n      ')}`);
      if (failures.length > LISTED_FAILURES) console.log(`    and ${failures.length - LISTED_FAILURES} more`);
    }
    if (this.#notRun.length) console.log(`\nnot run: ${this.#notRun.join(', ')}`);
    for (const { name, failures } of this.#flaky) {
      console.log(`\nFLAKY ${name}: failed, and passed alone`);
      for (const failure of failures.slice(0, LISTED_FAILURES))
        console.log(`    ${failure.replaceAll('\n', '\n      ')}`);
    }
    const { passed, failed, skipped } = this.#total;
    console.log(`\n${passed} passed, ${failed} failed, ${skipped} skipped`);
    return failed || !passed ? 1 : 0;
  }
}
