// Counts test results and prints them as they come.

/** @typedef {{passed: number, failed: number, skipped: number}} Counts */

/** Most failures of a suite that are named at the end. */
const SHOWN = 20;
/** Characters shown of each. */
const LENGTH = 600;

/**
 * The tests that failed, of what node's tap reporter writes: groups whose members failed are left out.
 * @param {string} tap
 * @returns {string[]} for each its name, place and message
 */
export function failuresIn(tap) {
  const found = [];
  for (const [, name, , yaml] of tap.matchAll(/^ *not ok \d+ - (.*)\n( *)---\n([^]*?)\n\2\.\.\.$/gm)) {
    if (/failureType: 'subtestsFailed'/.test(yaml)) continue;
    const place = /location: '(.*?)'/.exec(yaml)?.[1] ?? '';
    const message = /error: (?:\|-\n([^]*?)\n *code:|(.*))/.exec(yaml);
    const text = (message?.[1] ?? message?.[2] ?? '')
      .split('\n')
      .map((line) => line.trim())
      .join('\n');
    found.push(`${name} (${place.split('/').slice(-1)[0]})\n${text}`.slice(0, LENGTH));
  }
  return found;
}

export class Report {
  /** @type {Counts} */
  #total = { passed: 0, failed: 0, skipped: 0 };
  /** Lines for the end, and what failed in each. @type {{ line: string, failures: readonly string[] }[]} */
  #failures = [];
  /** @type {string[]} */
  #skips = [];
  /** What was not run, and why. @type {string[]} */
  #leftOut = [];
  /** Jobs that failed and then passed, with what failed. @type {{ name: string, failures: readonly string[] }[]} */
  #flaky = [];
  /** What failed the first time, by job. @type {Map<string, import('./jobs.mjs').JobResult>} */
  #retried = new Map();
  #noteFlaky;

  /** @param {(name: string) => boolean} [noteFlaky]  notes that a job was flaky; whether it was before, within a week */
  constructor(noteFlaky = () => false) {
    this.#noteFlaky = noteFlaky;
  }

  /** @param {string} suite */
  heading(suite) {
    console.log(`\n=== ${suite}`);
  }

  /**
   * @param {string} name
   * @param {Counts} counts
   * @param {{output?: string, note?: string, failures?: readonly string[], seconds?: number}} [details]  `output` is shown when
   *   something failed, `failures` once more at the end, so that the last lines tell what it was
   */
  add(name, counts, { output = '', note = '', failures = [], seconds } = {}) {
    for (const key of /** @type {const} */ (['passed', 'failed', 'skipped'])) this.#total[key] += counts[key];
    if (counts.failed) {
      if (output) console.log(output.trimEnd());
      this.#failures.push({ line: note ? `${name}: ${note}` : name, failures });
    }
    if (counts.skipped) this.#skips.push(`${name}: ${counts.skipped}`);
    const numbers = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
    const time = seconds === undefined ? '' : `, ${seconds.toFixed(1)} s`;
    console.log(`${counts.failed ? 'FAILED' : 'ok    '} ${name}: ${numbers}${time}${note ? ` (${note})` : ''}`);
  }

  /**
   * A job that failed runs again.
   * @param {import('./jobs.mjs').Job} job
   * @param {import('./jobs.mjs').JobResult} result
   */
  willRetry({ name }, result) {
    console.log(result.output.trimEnd());
    console.log(`FAILED ${name}, runs once more, alone`);
    this.#retried.set(name, result);
  }

  /**
   * A job that failed has passed now: a fault of the test or of the product that shows itself by luck.
   * @param {import('./jobs.mjs').Job} job
   */
  flaky({ name }) {
    const { failures = [], note = '' } = this.#retried.get(name) ?? {};
    if (this.#noteFlaky(name)) this.fail(name, 'FLAKY for the second time within a week');
    this.#flaky.push({ name, failures: failures.length ? failures : [note] });
  }

  /**
   * One test.
   * @param {string} name
   * @param {boolean} passed
   * @param {{output?: string, note?: string}} [details]
   */
  one(name, passed, details) {
    this.add(name, { passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: 0 }, details);
  }

  /**
   * Something that kept tests from running.
   * @param {string} name
   * @param {string} why
   */
  fail(name, why) {
    this.one(name, false, { note: why });
  }

  /**
   * A suite or a job that was not run; no test of it counts.
   * @param {string} name
   * @param {string} why
   */
  leftOut(name, why) {
    this.#leftOut.push(`${name} (${why})`);
  }

  /**
   * Prints the last line.
   * @param {boolean} dataPresent tests may skip only for want of the shared data
   * @returns {number} the exit status
   */
  finish(dataPresent) {
    if (dataPresent && this.#skips.length)
      this.fail('skipped tests', `shared data is present, yet: ${this.#skips.join(', ')}`);
    if (this.#failures.length) console.log('\nfailed:');
    for (const { line, failures } of this.#failures) {
      console.log(`  ${line}`);
      for (const what of failures.slice(0, SHOWN)) console.log(`    ${what.replaceAll('\n', '\n      ')}`);
      if (failures.length > SHOWN) console.log(`    and ${failures.length - SHOWN} more`);
    }
    if (this.#leftOut.length) console.log(`\nleft out: ${this.#leftOut.join(', ')}`);
    for (const { name, failures } of this.#flaky) {
      console.log(`\nFLAKY ${name}: failed, and passed alone`);
      for (const what of failures.slice(0, SHOWN)) console.log(`    ${what.replaceAll('\n', '\n      ')}`);
    }
    const { passed, failed, skipped } = this.#total;
    console.log(`\n${passed} passed, ${failed} failed, ${skipped} skipped`);
    return failed || !passed ? 1 : 0;
  }
}
