// A group of tests for each browser; one that can't be had here is a skipped test that says why.
import { describe, test } from 'node:test';
import { NAMES, skip } from './browsers.mjs';

/** @param {(name: import('./browsers.mjs').Name) => void} declare  tests and hooks @param {readonly import('./browsers.mjs').Name[]} [names] */
export async function everyBrowser(declare, names = NAMES) {
  for (const name of names) {
    const reason = await skip(name);
    if (reason) test(name, { skip: reason });
    else describe(name, () => declare(name));
  }
}
