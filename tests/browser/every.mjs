// A group of tests for each browser; one that can't be had here is a skipped test that says why.
import { after, before, describe, test } from 'node:test';
import { NAMES, skip, start } from './browsers.mjs';
import { host, ISOLATED } from './host.mjs';

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

/**
 * A group of tests on a site as any host serves it, and one on a site whose pages are isolated.
 * @param {import('./browsers.mjs').Name} name
 * @param {(here: { isolated: boolean, open: () => Promise<import('./browsers.mjs').Page> }) => void} declare  tests; `open` gives a new
 *   page of the site
 */
export function everyHost(name, declare) {
  for (const [kind, headers] of Object.entries({ 'as any host serves it': {}, isolated: ISOLATED })) {
    describe(`a page ${kind}`, () => {
      /** @type {import('./browsers.mjs').Browser} */
      let browser;
      /** @type {Awaited<ReturnType<typeof host>>} */
      let site;
      before(async () => {
        browser = await start(name);
        site = await host(headers);
      });
      after(async () => {
        await browser?.close();
        await site?.close();
      });
      declare({ isolated: headers === ISOLATED, open: () => browser.open(site.url) });
    });
  }
}
