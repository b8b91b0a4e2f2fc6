// A server of another origin misbehaves, in every browser: loading ends with the right tokens or with a typed error that
// says what to do, and the same engine in the same page then loads the good model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { PROMPT } from '../js/engine-suite.mjs';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { start } from './browsers.mjs';
import { everyBrowser } from './every.mjs';
import { host } from './host.mjs';

/** @typedef {import('../server/faults.mjs').Fault} Fault */
/** @typedef {Awaited<ReturnType<typeof faultServer>>} Server */
/** @typedef {{ code: string, message: string, hint: string, offset: number | null, status: number | null } | { ids: number[] }} Outcome */

const PATH = '/model.bq4';
const bytes = await tinyModel();
const size = bytes.length;
/** In the weights, beyond what a plan reads. */
const LATE = size - 30_000;

/**
 * What goes wrong, how it ends ('ok' or a code of BqError, of these), and what else must then be true.
 * @type {[string, Server['faults'] | ((server: Server) => Fault[]), string[], ((server: Server, outcome: any) => void)?][]}
 */
const CASES = [
  ['nothing: GETs only, one small range and the rest', [], ['ok'], (server) => {
    assert.deepEqual(server.requests.map(({ method, range }) => [method, range]), [['GET', 'bytes=0-65535'], ['GET', `bytes=65536-${size - 1}`]]);
  }],
  ['answers 200 to ranges: one request', [{ status: 200 }], ['ok'], (server) => assert.equal(server.requests.length, 1)],
  ['a slow server, in small pieces', [{ bytesPerSecond: 2_000_000 }], ['ok']],
  ['headers exposed', [{ expose: true }], ['ok']],
  ['a redirect to another origin', (server) => [{ port: 0, redirect: server.origins[1] + PATH }], ['ok']],
  ['a redirect to signed addresses, each good for one request', (server) => [{ sign: 1, redirect: server.origins[1] + PATH }], ['ok']],
  ['gzip of the whole file, to those who accept it', [({ headers }) => (/gzip/.test(String(headers['accept-encoding'])) ? { status: 200, gzip: true } : {})], ['ok']],
  // With a Range header browsers ask for no compression; Chromium then refuses an answer that has it.
  ['gzip of the whole file, to all', [{ status: 200, gzip: true }], ['ok', 'NETWORK']],
  ...[403, 404, 405, 429, 500, 503].map((status) => /** @type {any} */ ([`answers ${status}`, [{ status }], ['HTTP_STATUS'],
    (/** @type {Server} */ _, /** @type {any} */ outcome) => assert.equal(outcome.status, status)])),
  ['answers 416', [{ status: 416 }], ['TRUNCATED']],
  ['a page of HTML', [{ html: true }], ['NOT_A_MODEL']],
  ['a page of HTML after the first range', [{ nth: 1, html: true }], ['NOT_A_MODEL', 'CHANGED', 'TRUNCATED', 'CHECKSUM', 'FORMAT']],
  ['nobody may read it: no CORS header', [{ cors: false }], ['NETWORK']],
  ['the connection is refused', [{ refuse: true }], ['NETWORK']],
  ['a connection that breaks', [{ drop: LATE }], ['NETWORK'], (_, outcome) => assert.ok(outcome.offset <= LATE)],
  ['a connection that breaks, whole file', [{ status: 200, drop: LATE }], ['NETWORK']],
  ['a connection that is reset', [{ reset: LATE }], ['NETWORK']],
  ['a connection that breaks in what a plan reads', [{ drop: 5000 }], ['NETWORK']],
  ['a body that ends too early, as if it were whole', [{ truncate: LATE }], ['TRUNCATED', 'NETWORK']],
  ['a body that ends too early, with no length', [{ truncate: LATE, length: 'none' }], ['TRUNCATED', 'NETWORK']],
  ['a body that ends too early, the length is wrong', [{ truncate: LATE, length: 'whole' }], ['TRUNCATED', 'NETWORK']],
  ['a wrong byte in the weights', [{ flip: LATE }], ['CHECKSUM'], (_, outcome) => assert.ok(outcome.offset <= LATE)],
  ['a wrong byte at the start', [{ flip: 100 }], ['CHECKSUM', 'FORMAT', 'SHAPE']],
  ['ranges that begin too late, unseen', [{ shift: 3 }], ['NOT_A_MODEL', 'FORMAT', 'NETWORK']],
  ['ranges that begin too late, seen', [{ shift: 3, expose: true }], ['NETWORK']],
  ['another model after the first range', [{ nth: 1, file: '/other.bq4' }], ['CHANGED', 'CHECKSUM']],
  ['a longer file after the first range', [{ expose: true }, { nth: 1, file: '/longer.bq4' }], ['CHANGED']],
  ['a longer file after the first range, unseen, the rest the same', [{ nth: 1, file: '/longer.bq4' }], ['ok']],
  // WebKit takes the bytes as they are.
  ['says gzip and is not', [{ gzip: 'lie' }], ['ok', 'NETWORK']],
  ['the range is one of the compressed file', [{ gzip: 'encoded' }], ['NETWORK', 'TRUNCATED', 'NOT_A_MODEL', 'FORMAT', 'CHECKSUM']],
];

/** Loads and generates in the page with its one engine. @param {import('./browsers.mjs').Page} page @param {string} url @returns {Promise<Outcome>} */
const outcome = (page, url) => page.evaluate(async ([url, prompt]) => {
  const js = '/js/index.js';
  const { createWorkerEngine, fromUrl } = await import(js);
  const engine = /** @type {any} */ (globalThis).engine ??= await createWorkerEngine();
  try {
    const model = await engine.load(fromUrl(url));
    const session = await model.createSession();
    const { ids } = await session.generate(prompt, { temperature: 0, maxTokens: 12 }).done();
    await model.close();
    return { ids };
  } catch (error) {
    const { name, code, message, hint, offset = null, details } = /** @type {any} */ (error);
    return { code: code ?? name, message, hint, offset, status: details?.status ?? null };
  }
}, [url, PROMPT]);

/** @param {() => boolean} condition */
async function until(condition) {
  for (const start = Date.now(); !condition(); await sleep(5)) assert.ok(Date.now() - start < 20_000, `waited in vain for ${condition}`);
}

await everyBrowser((name) => {
  /** @type {Server} */
  let server;
  /** @type {Server} */
  let good;
  /** @type {import('./browsers.mjs').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof host>>} */
  let site;
  /** @type {import('./browsers.mjs').Page} */
  let page;
  /** @type {number[]} */
  let expected;

  before(async () => {
    server = await faultServer({ [PATH]: bytes, '/other.bq4': await tinyModel({ seed: 2 }), '/longer.bq4': Buffer.concat([bytes, bytes]) });
    good = await faultServer({ [PATH]: bytes });
    site = await host();
    browser = await start(name);
    page = await browser.open(site.url);
    const first = await outcome(page, good.at(PATH));
    assert.ok('ids' in first, JSON.stringify(first));
    expected = first.ids;
  });
  after(async () => {
    await browser?.close();
    await Promise.all([server, good, site].map((made) => made?.close()));
  });
  const stillGood = async () => assert.deepEqual(await outcome(page, good.at(PATH)), { ids: expected }, 'the page still works');

  for (const [what, faults, ends, check] of CASES) {
    test(what, async () => {
      server.faults = typeof faults === 'function' ? faults(server) : faults;
      server.forget();
      const seen = await outcome(page, server.at(PATH));
      const end = 'code' in seen ? seen.code : 'ok';
      assert.ok(ends.includes(end), `${end}: ${'code' in seen ? seen.message : ''}`);
      if ('ids' in seen) assert.deepEqual(seen.ids, expected);
      else {
        assert.match(seen.message, /\w \w/);
        assert.match(seen.hint, /\w \w/);
      }
      assert.ok(server.requests.every(({ method }) => method === 'GET'), 'no preflight, no HEAD');
      check?.(server, seen);
      await stillGood();
    });
  }

  /** @type {[string, Fault, number][]}  the last: how far the body has got when it is left */
  const stalls = [
    ['never answers', { silent: true }, 0],
    ['stalls while the plan is read', { stall: 1000 }, 1000],
    ['stalls in the weights', { stall: LATE }, LATE - 65536],
  ];
  for (const [what, fault, sent] of stalls) {
    test(`a server that ${what} is left by an abort`, async () => {
      server.faults = [fault];
      server.forget();
      await page.evaluate((url) => {
        const controller = new AbortController();
        const js = '/js/index.js';
        const loading = import(js).then(({ fromUrl }) => /** @type {any} */ (globalThis).engine.load(fromUrl(url), { signal: controller.signal }))
          .then(() => 'loaded', (error) => error.name);
        Object.assign(globalThis, { controller, loading });
      }, server.at(PATH));
      const last = () => server.requests.at(-1);
      await until(() => last()?.end === 'open' && last()?.sent === sent);
      assert.equal(await page.evaluate(() => {
        const { controller, loading } = /** @type {any} */ (globalThis);
        controller.abort();
        return loading;
      }), 'AbortError');
      await until(() => last()?.end === 'left');
      await stillGood();
    });
  }

  test('nothing on the page complained', async () => {
    // The browsers' own words about answers that were not to be had are no complaint of ours.
    assert.deepEqual((await page.trouble()).filter((line) => !line.includes(server.origins[0])), []);
  });
});
