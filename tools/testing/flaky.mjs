// Remembers which tests failed and then passed: the second time within a week is a failure.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const WEEK_MS = 7 * 24 * 3600 * 1000;

/**
 * Notes that something was flaky now.
 * @param {string} file   of notes, outside of what is built: it outlives a checkout
 * @param {string} name
 * @param {number} [now]
 * @returns {boolean}  whether it was flaky before, within a week
 */
export function noteFlaky(file, name, now = Date.now()) {
  /** @type {Record<string, number[]>} */
  let notes = {};
  try {
    if (existsSync(file)) notes = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    // A run that was killed has left half a file.
  }
  const recent = (notes[name] ?? []).filter((at) => now - at < WEEK_MS);
  notes[name] = [...recent, now];
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(notes, null, 1)}\n`);
  return recent.length > 0;
}
