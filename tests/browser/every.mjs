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
 * A site, and a browser, for the tests of the group that this is called in.
 * @param {import('./browsers.mjs').Name} name
 * @param {Record<string, string>} [headers]  of the site's pages
 */
export function oneSite(name, headers = {}) {
  const here = {
    /** @type {import('./browsers.mjs').Browser} */
    browser: /** @type {any} */ (null),
    /** @type {Awaited<ReturnType<typeof host>>} */
    site: /** @type {any} */ (null),
    /** A new page of the site. @param {string} [path] */
    open: (path = '') => here.browser.open(here.site.url + path),
  };
  before(async () => {
    here.browser = await start(name);
    here.site = await host(headers);
  });
  after(async () => {
    await here.browser?.close();
    await here.site?.close();
  });
  return here;
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
      const here = oneSite(name, headers);
      declare({ isolated: headers === ISOLATED, open: () => here.open() });
    });
  }
}
