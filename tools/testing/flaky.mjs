// Records flaky tests: tests that failed and then passed. A test that is flaky twice within a week counts as failed.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const WEEK_MS = 7 * 24 * 3600 * 1000;

/**
 * Records that a test or job was flaky at `now`.
 * @param {string} file   JSON file of the records; outside of the build folder, so that it survives a new checkout
 * @param {string} name
 * @param {number} [now]  in ms since 1970
 * @returns {boolean}  whether it was already flaky within the last week
 */
export function noteFlaky(file, name, now = Date.now()) {
  /** @type {Record<string, number[]>} */
  let records = {};
  try {
    if (existsSync(file)) records = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    // The file is incomplete if a run was killed while writing it. It is replaced below.
  }
  const recentTimes = (records[name] ?? []).filter((time) => now - time < WEEK_MS);
  records[name] = [...recentTimes, now];
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(records, null, 1)}\n`);
  return recentTimes.length > 0;
}
