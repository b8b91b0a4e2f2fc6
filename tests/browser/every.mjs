// A group of tests for each browser; one that can't be had here is a skipped test that says why.
import { describe, test } from 'node:test';
import { NAMES, skip } from './browsers.mjs';

/** @param {(name: import('./browsers.mjs').Name) => void} declare  tests and hooks @param {readonly import('./browsers.mjs').Name[]} [names] */
export async function everyBrowser(declare, names = NAMES) {
  // All reasons before the first group: node:test takes a pause between groups for the end of the file.
  const reasons = await Promise.all(names.map(skip));
  for (const [i, name] of names.entries()) {
    const reason = reasons[i];
    if (reason) test(name, { skip: reason });
    else describe(name, () => declare(name));
  }
}
