// What pages say while a test runs. An uncaught error, a rejection that nothing handles, and a violation of the content security
// policy fail the test in whose time they come; all else that a page says, and its picture, is kept for a test that fails.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { afterEach } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inTime } from '../waiting.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FAILED = join(ROOT, 'build', 'reports', 'failed');
/** Messages of a page that are kept, the last ones. */
const MAX_MESSAGES = 100;
/** Seconds that a page of a failed test may take to answer. */
const ANSWER = 5;
/** How a page tells of a violation of its policy, which some browsers tell their drivers in no other way. */
const POLICY = 'policy: ';

/**
 * @typedef {object} Watched
 * @property {() => string} address
 * @property {() => Promise<Uint8Array>} picture
 * @property {(() => Promise<string[]>) | undefined} look  all faults so far, where a browser has to be asked
 * @property {number} looked   of them, those that were looked at
 * @property {string[]} faults
 * @property {string[]} messages
 * @property {boolean} fresh  opened in the present test
 * @property {boolean} closed
 */

/** Pages that are open, or were closed in the present test. @type {Set<Watched>} */
const pages = new Set();
/** Faults that the present test expects. @type {RegExp[]} */
let expected = [];
let watching = false;

/** The present test expects faults of its pages that match. @param {...RegExp} patterns */
export function expectFaults(...patterns) {
  expected.push(...patterns);
}

/** @param {Pick<Watched, 'address' | 'picture' | 'look'>} how @returns {Watched} */
function watched({ address, picture, look }) {
  const page = { address, picture, look, looked: 0, faults: [], messages: [], fresh: true, closed: false };
  if (watching) pages.add(page);
  return page;
}

/**
 * Watches a page of a driver that tells what happens on it, Playwright or Puppeteer.
 * @param {{ url: () => string, screenshot: () => Promise<Uint8Array>, on: (event: any, hear: (value: any) => void) => unknown }} driven
 * @param {(error: any) => boolean} [isFault]  whether an error of the page is one that nothing has caught
 */
export function watchPage(driven, isFault = () => true) {
  const page = watched({ address: () => driven.url(), picture: () => driven.screenshot(), look: undefined });
  driven.on('close', () => (page.closed = true));
  driven.on('pageerror', (error) =>
    (isFault(error) ? page.faults : page.messages).push(`exception: ${error?.stack ?? error}`),
  );
  driven.on('console', (message) => {
    const text = message.text();
    if (text.startsWith(POLICY)) page.faults.push(text);
    else page.messages.push(`${message.type()}: ${text}`);
    if (page.messages.length > MAX_MESSAGES) page.messages.shift();
  });
}

/**
 * Watches a page that has to be asked: `look` says all that it has noted so far.
 * @param {Pick<Watched, 'address' | 'picture'> & { look: () => Promise<string[]> }} how
 * @returns {() => void}  to be called when it is closed
 */
export function watchAsked(how) {
  const page = watched(how);
  return () => (page.closed = true);
}

/** What pages of a failed test have said, and how they look. @param {string} name  of the test */
async function report(name) {
  const file = basename(process.argv[1] ?? 'test');
  let n = 0;
  const concerned = [...pages].filter(({ fresh, faults, messages }) => fresh || faults.length || messages.length);
  for (const page of concerned.length ? concerned : pages) {
    console.log(`a page of "${name}" at ${page.address()}:`);
    for (const text of [...page.faults, ...page.messages]) console.log(`  ${text}`);
    if (page.closed) continue;
    try {
      const picture = await inTime('a picture', page.picture(), { seconds: ANSWER });
      const path = join(FAILED, `${file}-${name.replace(/\W+/g, '-').slice(0, 80)}-${++n}.png`);
      mkdirSync(FAILED, { recursive: true });
      writeFileSync(path, picture);
      console.log(`  its picture: ${relative(ROOT, path)}`);
    } catch (error) {
      console.log(`  no picture: ${/** @type {Error} */ (error).message.split('\n')[0]}`);
    }
  }
}

/** Faults of a page since this was last asked. @param {Watched} page @returns {Promise<string[]>} */
async function faultsOf(page) {
  if (!page.look) return page.faults;
  const all = await inTime('its faults', page.look(), { seconds: ANSWER }).catch(() => []);
  const fresh = all.slice(page.looked);
  const faults = fresh.filter((text) => !text.startsWith('console: '));
  page.messages.push(...fresh.filter((text) => !faults.includes(text)));
  page.looked = Math.max(page.looked, all.length);
  return faults;
}

/** For each file of tests, once, before its first test or group: pages that are opened from now on are watched. */
export function failOnFaults() {
  if (watching) return;
  watching = true;
  afterEach(async (t) => {
    const { name, error } = /** @type {{ name: string, error?: Error }} */ (t); // newer than the types of Node
    /** @type {string[]} */
    const faults = [];
    for (const page of pages) {
      const unexpected = (await faultsOf(page)).filter((text) => !expected.some((pattern) => pattern.test(text)));
      faults.push(...unexpected.map((text) => `${page.address()}: ${text}`));
    }
    if (error || faults.length) await report(name);
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
