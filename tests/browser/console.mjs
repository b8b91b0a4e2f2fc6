// Messages and errors of pages. An uncaught error, an unhandled rejection, and a violation of the Content-Security-Policy fail the test
// during which they occur. Other messages, and a picture of each page, are reported when a test fails.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { afterEach } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inTime } from '../waiting.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FAILED = join(ROOT, 'build', 'reports', 'failed');
/** Maximum number of stored messages of a page; earlier ones are discarded. */
const MAX_MESSAGES = 100;
/** Time limit of requests to a page, in seconds. */
const ANSWER_TIMEOUT_SECONDS = 5;
/** Prefix of console messages with which a page reports violations of its policy; some browsers do not report them to their drivers. */
const POLICY_PREFIX = 'policy: ';

/**
 * @typedef {object} WatchedPage
 * @property {() => string} address
 * @property {() => Promise<Uint8Array>} picture
 * @property {(() => Promise<string[]>) | undefined} look  returns all faults of the page so far, if its driver sends no events
 * @property {number} looked   number of these faults that earlier calls have returned
 * @property {string[]} faults
 * @property {string[]} messages
 * @property {boolean} fresh  opened in the present test
 * @property {boolean} closed
 */

/** Pages that are open, or were closed in the present test. @type {Set<WatchedPage>} */
const pages = new Set();
/** Faults that the present test expects. @type {RegExp[]} */
let expected = [];
let watching = false;

/** Allows faults of pages that match a pattern, until the end of the present test. @param {...RegExp} patterns */
export function expectFaults(...patterns) {
  expected.push(...patterns);
}

/** @param {Pick<WatchedPage, 'address' | 'picture' | 'look'>} access @returns {WatchedPage} */
function createRecord({ address, picture, look }) {
  const page = { address, picture, look, looked: 0, faults: [], messages: [], fresh: true, closed: false };
  if (watching) pages.add(page);
  return page;
}

/**
 * Watches a page whose driver sends events: Playwright's or Puppeteer's.
 * @param {{ url: () => string, screenshot: () => Promise<Uint8Array>, on: (event: any, listener: (value: any) => void) => unknown }} driverPage
 * @param {(error: any) => boolean} [isFault]  whether an error of the page is an uncaught one
 */
export function watchPage(driverPage, isFault = () => true) {
  const page = createRecord({
    address: () => driverPage.url(),
    picture: () => driverPage.screenshot(),
    look: undefined,
  });
  driverPage.on('close', () => (page.closed = true));
  driverPage.on('pageerror', (error) =>
    (isFault(error) ? page.faults : page.messages).push(`exception: ${error?.stack ?? error}`),
  );
  driverPage.on('console', (message) => {
    const text = message.text();
    if (text.startsWith(POLICY_PREFIX)) page.faults.push(text);
    else page.messages.push(`${message.type()}: ${text}`);
    if (page.messages.length > MAX_MESSAGES) page.messages.shift();
  });
}

/**
 * Watches a page whose driver sends no events. `look` returns all faults that the page has collected so far.
 * @param {Pick<WatchedPage, 'address' | 'picture'> & { look: () => Promise<string[]> }} access
 * @returns {() => void}  to be called when the page is closed
 */
export function pollPage(access) {
  const page = createRecord(access);
  return () => (page.closed = true);
}

/** Prints messages of the pages of a failed test, and saves pictures of them. @param {string} name  of the test */
async function reportPages(name) {
  const file = basename(process.argv[1] ?? 'test');
  let n = 0;
  const testPages = [...pages].filter(({ fresh, faults, messages }) => fresh || faults.length || messages.length);
  for (const page of testPages.length ? testPages : pages) {
    console.log(`a page of "${name}" at ${page.address()}:`);
    for (const text of [...page.faults, ...page.messages]) console.log(`  ${text}`);
    if (page.closed) continue;
    try {
      const picture = await inTime('a picture', page.picture(), { seconds: ANSWER_TIMEOUT_SECONDS });
      const path = join(FAILED, `${file}-${name.replace(/\W+/g, '-').slice(0, 80)}-${++n}.png`);
      mkdirSync(FAILED, { recursive: true });
      writeFileSync(path, picture);
      console.log(`  its picture: ${relative(ROOT, path)}`);
    } catch (error) {
      console.log(`  no picture: ${/** @type {Error} */ (error).message.split('\n')[0]}`);
    }
  }
}

/** Faults of a page since the last call. @param {WatchedPage} page @returns {Promise<string[]>} */
async function faultsOf(page) {
  if (!page.look) return page.faults;
  const all = await inTime('its faults', page.look(), { seconds: ANSWER_TIMEOUT_SECONDS }).catch(() => []);
  const fresh = all.slice(page.looked);
  const faults = fresh.filter((text) => !text.startsWith('console: '));
  page.messages.push(...fresh.filter((text) => !faults.includes(text)));
  page.looked = Math.max(page.looked, all.length);
  return faults;
}

/** Adds a hook that fails tests with faults of pages. A test file calls it before its first test; pages opened afterwards are watched. */
export function failOnFaults() {
  if (watching) return;
  watching = true;
  afterEach(async (t) => {
    // The types of Node lack these properties.
    const { name, error } = /** @type {{ name: string, error?: Error }} */ (t);
    /** @type {string[]} */
    const faults = [];
    for (const page of pages) {
      const unexpected = (await faultsOf(page)).filter((text) => !expected.some((pattern) => pattern.test(text)));
      faults.push(...unexpected.map((text) => `${page.address()}: ${text}`));
    }
    if (error || faults.length) await reportPages(name);
    expected = [];
    for (const page of pages) {
      page.faults = [];
      page.messages = [];
      page.fresh = false;
      if (page.closed) pages.delete(page);
    }
    assert.deepEqual(faults, [], 'uncaught errors of pages, or violations of their policies');
  });
}
