// Counts test results and prints them as they come.

/** @typedef {{passed: number, failed: number, skipped: number}} Counts */

export class Report {
  /** @type {Counts} */
  #total = { passed: 0, failed: 0, skipped: 0 };
  /** @type {string[]} */
  #failures = [];
  /** @type {string[]} */
  #skips = [];

  /** @param {string} suite */
  heading(suite) {
    console.log(`\n=== ${suite}`);
  }

  /**
   * @param {string} name
   * @param {Counts} counts
   * @param {{output?: string, note?: string}} [details] output is shown when something failed
   */
  add(name, counts, { output = '', note = '' } = {}) {
    for (const key of /** @type {const} */ (['passed', 'failed', 'skipped'])) this.#total[key] += counts[key];
    if (counts.failed) {
      if (output) console.log(output.trimEnd());
      this.#failures.push(note ? `${name}: ${note}` : name);
    }
    if (counts.skipped) this.#skips.push(`${name}: ${counts.skipped}`);
    const numbers = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
    console.log(`${counts.failed ? 'FAILED' : 'ok    '} ${name}: ${numbers}${note ? ` (${note})` : ''}`);
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
   * Prints the last line.
   * @param {boolean} dataPresent tests may skip only for want of the shared data
   * @returns {number} the exit status
   */
  finish(dataPresent) {
    if (dataPresent && this.#skips.length) this.fail('skipped tests', `shared data is present, yet: ${this.#skips.join(', ')}`);
    if (this.#failures.length) console.log(`\nfailed:\n${this.#failures.map((line) => `  ${line}`).join('\n')}`);
    const { passed, failed, skipped } = this.#total;
    console.log(`\n${passed} passed, ${failed} failed, ${skipped} skipped`);
    return failed || !passed ? 1 : 0;
  }
}
