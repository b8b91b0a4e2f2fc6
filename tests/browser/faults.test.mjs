// A faulty server of another origin: a load recovers and has the right tokens, or ends with a typed error with a place and a hint; no range
// is requested more often than allowed; afterwards, the same engine in the same page loads a valid model. All cases run in Chromium, the
// main ones in Firefox, the most limited path in WebKit.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { CONFIG, tinyModel } from '../js/fixture.mjs';
import { v1 } from '../js/v1.mjs';
import { faultServer } from '../server/faults.mjs';
import { barrier, TIMEOUT_SECONDS, until } from '../waiting.mjs';
import { chromiumFirst, start } from './every.mjs';
import { host } from './host.mjs';

/** @typedef {import('../server/faults.mjs').Fault} Fault */
/** @typedef {Awaited<ReturnType<typeof faultServer>>} Server */
/** @typedef {{ code: string, message: string, hint: string, offset: number | null, status: number | null } | { ids: number[], authenticated: boolean }} Outcome */
/**
 * @typedef {object} Case
 * @property {string} what
 * @property {Server['faults'] | ((server: Server) => Server['faults'])} [faults]
 * @property {string | string[]} [ends]  'ok' (the default) or a code of BqError; one of these
 * @property {1 | 2 | 3} [on]  1 (the default): Chromium; 2: and Firefox; 3: and WebKit
 * @property {string} [path]
 * @property {object | ((servers: { server: Server, mirror: Server }) => object)} [source]  options of fromUrl
 * @property {boolean} [uncounted]  browsers ask again by themselves: Firefox up to ten times for every time we do
 * @property {object} [options]  of load
 * @property {(server: Server, outcome: any, mirror: Server) => void} [check]
 */

const MiB = 1 << 20;
const PATH = '/model.bq4';
const SIZES = { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 };
/** A model of about 17 MB: the first bytes, then five ranges. */
const bytes = await tinyModel({ config: SIZES });
const other = await tinyModel({ config: SIZES, seed: 2 });
const size = bytes.length;
const prefix = Number(new DataView(bytes.buffer).getBigUint64(24, true));
/** An offset in the weights, in the middle of a chunk of the third range. */
const LATE = 10 * MiB + 4321;
const LATE_CHUNK = prefix + Math.floor((LATE - prefix) / MiB) * MiB;
const small = await tinyModel();
/** A model with any context length. */
const long = await tinyModel({ config: { context: 16_000_000, hidden: 64, heads: 4, kv_heads: 4 } });
const old = await v1({ ...CONFIG, hidden: 64, ffn: 96 });
const FILES = {
  [PATH]: bytes,
  '/other.bq4': other,
  '/longer.bq4': Buffer.concat([bytes, bytes]),
  '/shorter.bq4': bytes.subarray(0, 9 * MiB),
  '/small.bq4': small,
  '/long.bq4': long,
  '/v1.bq4': old.file,
  '/v1.json': new TextEncoder().encode(JSON.stringify(old.json)),
  '/lonely.bq4': old.file,
};
/** Slow enough that a page reads the bytes before the end; a body that breaks loses unread bytes. */
const READ = { bytesPerSecond: 8_000_000 };
const RETRIES = 2;
/** Without a timeout of responses, except in its own case, which takes that long. */
const QUICK = { retries: RETRIES, retryDelay: 5, timeout: 1000 * TIMEOUT_SECONDS };
const IMPATIENT = { timeout: 2000 };

const integrity = `sha256-${createHash('sha256').update(bytes).digest('base64')}`;

/** The path of a request. @param {{ range?: string }} request */
function span({ range }) {
  const [, from, to] = /bytes=(\d+)-(\d*)/.exec(String(range)) ?? [];
  return [Number(from), to ? Number(to) + 1 : size];
}
/** @param {(request: import('../server/faults.mjs').LoggedRequest) => boolean} when @param {Fault} what */
const from = (when, what) => (/** @type {any} */ request) => (when(request) ? what : undefined);
const later = (/** @type {Fault} */ what) => [from(({ nth }) => nth >= 2, what)];
const resumed = (/** @type {Server} */ server) =>
  assert.ok(
    server.requests.map(span).some(([at]) => at <= LATE && at > prefix + 8 * MiB),
    `it goes on in the middle of a range: ${server.requests.map(span).join(' ')}`,
  );
const status = (/** @type {number} */ n) => (/** @type {Server} */ _, /** @type {any} */ outcome) =>
  assert.equal(outcome.status, n);

/** @type {Case[]} */
const CASES = [
  {
    what: 'nothing: GETs only, no byte twice',
    on: 3,
    check(server) {
      let at = 0;
      for (const [begin, end] of server.requests.map(span).sort(([a], [b]) => a - b)) {
        assert.equal(begin, at);
        at = end;
      }
      assert.equal(at, size);
      assert.ok(server.requests.length > 4);
      // Headers that browsers send for `cache: 'no-store'`.
      assert.ok(server.requests.every(({ headers }) => headers['cache-control'] === 'no-cache'));
    },
  },
  {
    what: '200 instead of 206: one request',
    on: 3,
    faults: [{ status: 200 }],
    check: (server) => assert.equal(server.requests.length, 1),
  },
  { what: 'a slow server, in small pieces', faults: [{ bytesPerSecond: 30_000_000, step: 7777 }] },
  { what: 'headers exposed', on: 2, faults: [{ expose: true }] },
  {
    what: 'a redirect to another origin',
    on: 3,
    faults: (server) => [{ port: 0, redirect: server.origins[1] + PATH }],
  },
  {
    what: 'a redirect to signed addresses, each good for one request',
    on: 2,
    faults: (server) => [{ sign: 1, redirect: server.origins[1] + PATH }],
  },
  { what: 'a redirect by 307', faults: (server) => [{ port: 0, status: 307, redirect: server.origins[1] + PATH }] },
  {
    what: 'gzip of the whole file, to those who accept it',
    on: 2,
    faults: [from(({ headers }) => /gzip/.test(String(headers['accept-encoding'])), { status: 200, gzip: true })],
  },
  { what: 'gzip of the whole file, to all', on: 3, faults: [{ status: 200, gzip: true }] },
  { what: 'gzip on ranges', on: 3, faults: [{ gzip: true }] },
  {
    what: 'ranges of the compressed file',
    on: 2,
    faults: [{ gzip: 'encoded' }],
    ends: ['ok', 'NETWORK', 'TRUNCATED', 'NOT_A_MODEL', 'FORMAT', 'CHECKSUM'],
  },
  // WebKit does not decode the bytes.
  { what: 'says gzip and is not', on: 2, faults: [{ gzip: 'lie' }], ends: ['ok', 'NETWORK'] },

  { what: 'dropped once: goes on at the byte', on: 3, faults: [{ drop: LATE, times: 1, ...READ }], check: resumed },
  { what: 'dropped once, whole file', faults: [{ status: 200, nth: 0, drop: LATE, ...READ }], check: resumed },
  { what: 'dropped once in what a plan reads', on: 2, faults: [{ drop: 5000, times: 1 }] },
  { what: 'reset once', on: 2, faults: [{ reset: LATE, times: 1 }] },
  { what: 'refused once', on: 2, uncounted: true, faults: [{ refuse: true, times: 1 }] },
  { what: 'stalls once', on: 3, faults: [{ stall: LATE, times: 1, ...READ }], source: IMPATIENT, check: resumed },
  { what: 'is silent once', on: 2, faults: [{ silent: true, nth: 2 }], source: IMPATIENT },
  { what: '206 shorter than asked, once', on: 2, faults: [{ truncate: LATE, times: 1, ...READ }], check: resumed },
  {
    what: '206 shorter than asked, no length, once',
    faults: [{ truncate: LATE, length: 'none', times: 1, ...READ }],
    check: resumed,
  },
  {
    what: '206 shorter than asked, wrong length, once',
    faults: [{ truncate: LATE, length: 'whole', times: 1, ...READ }],
    check: resumed,
  },
  {
    what: 'a wrong byte once: its chunk is fetched again',
    on: 3,
    faults: [{ flip: LATE, times: 1 }],
    check(server) {
      assert.deepEqual(
        server.requests.map(span).filter(([at]) => at === LATE_CHUNK),
        [[LATE_CHUNK, LATE_CHUNK + MiB]],
      );
    },
  },
  { what: 'a wrong byte at the start, once', on: 2, faults: [{ flip: 300, times: 1 }] },
  { what: 'a 503 once', on: 3, faults: [{ nth: 2, status: 503 }] },
  { what: 'a 429 at first', faults: [{ nth: 0, status: 429 }] },
  { what: 'a page of a captive portal once', on: 2, faults: [{ nth: 2, html: true }] },
  { what: 'ranges that are answered no more', on: 2, faults: later({ status: 200 }) },
  { what: 'ranges that begin too late, seen', faults: [{ shift: 3, expose: true }] },
  { what: 'a longer file after the first range, unseen, the rest the same', faults: later({ file: '/longer.bq4' }) },

  {
    what: 'always dropped at a byte',
    on: 3,
    faults: [{ drop: LATE, ...READ }],
    ends: 'NETWORK',
    check: (_, { offset }) => assert.ok(offset > LATE - 2 * MiB && offset <= LATE, `at ${offset}`),
  },
  {
    what: 'always dropped, whole file',
    faults: [{ status: 200, drop: LATE }],
    ends: 'NETWORK',
    check: (_, { offset }) => assert.ok(offset > 0 && offset <= LATE),
  },
  {
    what: 'always reset',
    faults: [{ reset: LATE }],
    ends: 'NETWORK',
    check: (_, { offset }) => assert.ok(offset > 65536 && offset <= LATE),
  },
  {
    what: 'always stalls',
    on: 2,
    faults: [{ stall: LATE }],
    source: IMPATIENT,
    ends: 'NETWORK',
    check: (_, { offset }) => assert.equal(offset, LATE),
  },
  { what: 'never answers', faults: [{ silent: true }], source: { timeout: 100 }, ends: 'NETWORK' },
  { what: 'the connection is refused', on: 2, uncounted: true, faults: [{ refuse: true }], ends: 'NETWORK' },
  { what: 'nobody may read it: no CORS header', on: 3, faults: [{ cors: false }], ends: 'NETWORK' },
  { what: 'always 206 shorter than asked', faults: [{ truncate: LATE }], ends: ['TRUNCATED', 'NETWORK'] },
  ...[403, 404, 405, 429, 500, 503].map(
    (n) =>
      /** @type {Case} */ ({
        what: `always ${n}`,
        on: n === 404 || n === 503 ? 2 : 1,
        faults: [{ status: n }],
        ends: 'HTTP_STATUS',
        check: status(n),
      }),
  ),
  {
    what: '405 on ranges',
    on: 2,
    faults: [from(({ range }) => !!range, { status: 405 })],
    ends: 'HTTP_STATUS',
    check: status(405),
  },
  { what: 'always 416', on: 2, faults: [{ status: 416 }], ends: 'TRUNCATED' },
  { what: '416 midway', faults: later({ status: 416 }), ends: ['TRUNCATED', 'CHANGED'] },
  { what: '403 midway', on: 3, faults: later({ status: 403 }), ends: 'EXPIRED', check: status(403) },
  { what: '410 midway', faults: later({ status: 410 }), ends: 'EXPIRED' },
  { what: '500 midway', on: 2, faults: later({ status: 500 }), ends: 'HTTP_STATUS', check: status(500) },
  { what: 'HTML instead of the file', on: 3, faults: [{ html: true }], ends: 'NOT_A_MODEL' },
  {
    what: 'HTML instead of all ranges but the first',
    on: 2,
    faults: later({ html: true }),
    ends: ['NOT_A_MODEL', 'CHANGED', 'TRUNCATED', 'CHECKSUM', 'NETWORK'],
  },
  {
    what: 'a byte always wrong',
    on: 3,
    faults: [{ flip: LATE }],
    ends: 'CHECKSUM',
    check: (_, { offset }) => assert.equal(offset, LATE_CHUNK),
  },
  { what: 'a byte always wrong at the start', on: 2, faults: [{ flip: 300 }], ends: ['CHECKSUM', 'FORMAT'] },
  {
    what: 'ranges that begin too late, unseen',
    faults: [{ shift: 3 }],
    ends: ['ok', 'NOT_A_MODEL', 'FORMAT', 'NETWORK'],
  },
  { what: 'the file is replaced between ranges', on: 3, faults: later({ file: '/other.bq4' }), ends: 'CHANGED' },
  {
    what: 'a shorter file after the first range',
    faults: later({ file: '/shorter.bq4' }),
    ends: ['TRUNCATED', 'CHANGED'],
  },
  {
    what: 'a longer file after the first range, seen',
    on: 2,
    faults: [{ expose: true }, ...later({ file: '/longer.bq4' })],
    ends: 'CHANGED',
  },
  {
    what: 'the same bytes by another ETag',
    faults: [{ expose: true, headers: { etag: '"a"' } }, ...later({ headers: { etag: '"b"' } })],
  },
  {
    what: 'other bytes by another ETag',
    on: 2,
    faults: [{ expose: true, headers: { etag: '"a"' } }, ...later({ file: '/other.bq4', headers: { etag: '"b"' } })],
    ends: 'CHANGED',
  },

  {
    what: 'a byte always wrong, a mirror',
    on: 2,
    faults: [{ flip: LATE }],
    source: ({ mirror }) => ({ mirrors: [mirror.at(PATH)] }),
    check(_, __, mirror) {
      assert.ok(
        mirror.requests.map(span).every(([at]) => at === 0 || at >= LATE_CHUNK),
        'nothing good is fetched again',
      );
    },
  },
  {
    what: 'always dropped, a mirror',
    faults: [{ drop: LATE }],
    source: ({ mirror }) => ({ mirrors: [mirror.at(PATH)] }),
  },
  {
    what: '500 midway; a mirror with another file, a mirror',
    on: 2,
    faults: later({ status: 500 }),
    source: ({ mirror }) => ({ mirrors: [mirror.at('/other.bq4'), mirror.at(PATH)] }),
    check(_, __, mirror) {
      assert.equal(mirror.asked('/other.bq4').length, 1);
    },
  },
  {
    what: '500 midway; only a mirror with another file',
    faults: later({ status: 500 }),
    source: ({ mirror }) => ({ mirrors: [mirror.at('/other.bq4')] }),
    ends: 'HTTP_STATUS',
  },
  {
    what: 'the file that was meant',
    on: 3,
    options: { integrity },
    check: (_, { authenticated }) => assert.equal(authenticated, true),
  },
  {
    what: 'not the file that was meant',
    on: 2,
    faults: [{ file: '/other.bq4' }],
    options: { integrity },
    ends: 'INTEGRITY',
  },
  { what: 'v1 and its companion', on: 2, path: '/v1.bq4' },
  {
    what: 'v1 and its companion, each dropped once',
    path: '/v1.bq4',
    faults: [
      { path: '/v1.bq4', drop: 30_000, times: 1 },
      { path: '/v1.json', drop: 900, times: 1 },
    ],
  },
  { what: 'v1 without a companion', path: '/lonely.bq4', ends: 'UNSUPPORTED' },
];

/**
 * Loads and generates in the page with its engine.
 * @param {import('./browsers.mjs').Page} page @param {string} url @param {object} [source] @param {object} [options] @returns {Promise<Outcome>}
 */
const outcome = (page, url, source = {}, options = {}) =>
  page.evaluate(async ([url, source, options]) => {
    const js = '/js/index.js';
    const { createWorkerEngine, fromUrl } = await import(js);
    const engine = /** @type {any} */ (globalThis.engine ??= await createWorkerEngine({ cache: false }));
    try {
      const model = await engine.load(fromUrl(url, source), options);
      const session = await model.createSession();
      const { tokens: ids } = await session.generate('the quick brown fox', { temperature: 0, maxTokens: 5 }).result;
      await model.close();
      return { ids, authenticated: model.info.authenticated };
    } catch (error) {
      const { name, code, message, hint, offset = null, details } = /** @type {any} */ (error);
      return { code: code ?? name, message, hint, offset, status: details?.status ?? null };
    }
  }, /** @type {const} */ ([url, source, options]));

/**
 * No range is requested more often than `retries` allows; the first bytes once more, to check whether the file has changed.
 * @param {Server} server
 */
function fewRequests(server) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { origin, url, range } of server.requests) {
    const key = `${origin}${url} ${range}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  for (const [key, n] of counts) assert.ok(n <= RETRIES + (/=0-|undefined/.test(key) ? 2 : 1), `${n} times ${key}`);
}

await chromiumFirst((name) => {
  const rank = { chromium: 1, firefox: 2, webkit: 3 }[name];
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
  /** @type {Record<string, number[]>} */
  const expected = {};

  before(async () => {
    server = await faultServer({ ...FILES });
    good = await faultServer({ ...FILES });
    site = await host();
    browser = await start(name);
    page = await browser.open(site.url);
    for (const path of [PATH, '/small.bq4', '/v1.bq4']) {
      const first = await outcome(page, good.at(path));
      assert.ok('ids' in first, JSON.stringify(first));
      expected[path] = first.ids;
    }
  });
  after(async () => {
    await browser?.close();
    await Promise.all([server, good, site].map((output) => output?.close()));
  });
  async function stillGood() {
    const seen = await outcome(page, good.at('/small.bq4'));
    assert.deepEqual('ids' in seen ? seen.ids : seen, expected['/small.bq4'], 'the page still works');
  }
  const allEnded = () =>
    until('the end of all answers', () => server.requests.every(({ end }) => end !== 'open'), {
      state: () => server.requests,
    });
  /** Waits until pending requests have reached the server. */
  async function roundTrips() {
    for (let trip = 0; trip < 3; trip++) await (await fetch(server.at(PATH), { method: 'HEAD' })).arrayBuffer();
  }
  /** @param {Server['faults']} faults */
  function misbehave(faults) {
    server.faults = faults;
    server.forget();
  }

  for (const { what, faults = [], ends = 'ok', on = 1, path = PATH, source = {}, options, uncounted, check } of CASES) {
    if (on < rank) continue;
    test(what, async () => {
      misbehave(typeof faults === 'function' ? faults(server) : faults);
      good.forget();
      const given = typeof source === 'function' ? source({ server, mirror: good }) : source;
      const seen = await outcome(page, server.at(path), { ...QUICK, ...given }, options);
      const end = 'code' in seen ? seen.code : 'ok';
      assert.ok([ends].flat().includes(end), `${end}: ${JSON.stringify(seen)}`);
      if ('ids' in seen) assert.deepEqual(seen.ids, expected[path]);
      else {
        assert.match(seen.message, /\w \w/);
        assert.match(seen.hint, /\w \w/);
      }
      assert.ok(
        server.requests.every(({ method }) => method === 'GET'),
        'no preflight, no HEAD',
      );
      if (!uncounted) fewRequests(server);
      check?.(server, seen, good);
      await stillGood();
    });
  }

  if (rank < 3)
    test('a signed address that expires: EXPIRED; a new address loads', async () => {
      misbehave([{ sign: 3 }]);
      const sign = async () => String((await fetch(server.at(PATH), { redirect: 'manual' })).headers.get('location'));
      const seen = await outcome(page, await sign(), QUICK);
      assert.equal('code' in seen && seen.code, 'EXPIRED', JSON.stringify(seen));
      misbehave([{ sign: 99 }]);
      const again = await outcome(page, await sign(), QUICK);
      assert.deepEqual('ids' in again ? again.ids : again, expected[PATH]);
    });

  /** Starts an operation in the page that ends by an abort of `controller`. @param {'plan' | 'load'} op */
  const begin = (op) =>
    page.evaluate(
      async ([op, url]) => {
        const controller = new AbortController();
        const js = '/js/index.js';
        const { fromUrl } = await import(js);
        const ended = /** @type {any} */ (globalThis).engine[op](fromUrl(url), { signal: controller.signal }).then(
          () => op,
          (/** @type {any} */ error) => error.name,
        );
        Object.assign(globalThis, { controller, ended });
      },
      /** @type {const} */ ([op, server.at(PATH)]),
    );
  const abort = () =>
    page.evaluate(() => {
      const { controller, ended } = /** @type {any} */ (globalThis);
      controller.abort();
      return ended;
    });
  /** @type {[string, 'plan' | 'load', Fault, number][]}  the last: how far the body has got when it is left */
  const stalls = [
    ['a plan, never answered', 'plan', { silent: true }, 0],
    ['a plan', 'plan', { stall: 1000 }, 1000],
    ['a load, in the weights', 'load', { stall: LATE }, -1],
  ];
  for (const [what, op, fault, sent] of stalls) {
    test(`an abort of ${what}`, async () => {
      misbehave([fault]);
      await begin(op);
      const stuck = () =>
        server.requests.find(
          (request) =>
            request.end === 'open' && (sent < 0 ? request.from + request.sent === LATE : request.sent === sent),
        );
      await until('an answer that stalls', stuck, { state: () => server.requests });
      assert.equal(await abort(), 'AbortError');
      await allEnded();
      await stillGood();
    });
  }

  test('a plan from a server without ranges reads some bytes of the response and cancels it', async () => {
    misbehave([{ status: 200, ...READ }]);
    const { fileBytes, name } = await page.evaluate(async (url) => {
      const js = '/js/index.js';
      const { fromUrl } = await import(js);
      return /** @type {any} */ (globalThis).engine.plan(fromUrl(url));
    }, server.at(PATH));
    assert.deepEqual([fileBytes, name], [size, 'tiny']);
    await allEnded();
    assert.deepEqual(
      server.requests.map(({ end }) => end),
      ['left'],
    );
    assert.ok(server.sent < size / 2, `${server.sent} bytes`);
  });

  test('a plan is unknown, with the reason, if memory is not reported, and no if it is too small', async () => {
    misbehave([]);
    const plans = await page.evaluate(async (url) => {
      const js = '/js/index.js';
      const { fromUrl } = await import(js);
      const { deviceMemory = 0 } = /** @type {any} */ (navigator);
      const of = async (/** @type {number} */ context) =>
        (({ fits, fitsReason, heapBytes }) => ({ fits, fitsReason, heapBytes }))(
          await /** @type {any} */ (globalThis).engine.plan(fromUrl(url), { contextTokens: context }),
        );
      return { deviceMemory, some: await of(1_000), much: await of(2_200_000), most: await of(15_000_000) };
    }, server.at('/long.bq4'));
    const { deviceMemory, some, much, most } = plans;
    const plenty = much.heapBytes <= deviceMemory * 2 ** 28;
    assert.deepEqual(
      [some.fits, much.fits, most.fits],
      ['yes', plenty ? 'yes' : 'unknown', 'no'],
      JSON.stringify(plans),
    );
    assert.match(
      much.fitsReason,
      plenty
        ? /at most a quarter of this machine's/
        : deviceMemory
          ? /are more than a quarter of this machine's/
          : /does not report the memory/,
    );
    assert.match(most.fitsReason, /MB/);
  });

  const workUnits = () => page.evaluate(async () => (await /** @type {any} */ (globalThis).session.stats()).workUnits);

  for (const phase of ['prefill', 'decode']) {
    test(`an abort of ${phase}${phase === 'prefill' ? ', while weights are still loading' : ''}`, async () => {
      misbehave(phase === 'prefill' ? [{ stall: LATE }] : []);
      await page.evaluate(
        async ([url, phase]) => {
          const js = '/js/index.js';
          const { fromUrl } = await import(js);
          const model = await /** @type {any} */ (globalThis).engine.load(fromUrl(url), {
            streaming: phase === 'prefill',
          });
          model.loaded?.catch(() => {});
          const session = await model.createSession();
          const controller = new AbortController();
          const run = session.generate('once upon a time '.repeat(5), {
            temperature: 0,
            maxTokens: 50,
            signal: controller.signal,
          });
          let parts = 0;
          const name = (async () => {
            for await (const _ of run) if (++parts === 2) controller.abort();
          })().catch((error) => error.name);
          const ended = name.then(async (name) => {
            await model.close();
            return { name, parts, reason: (await run.result.catch(() => null))?.finishReason };
          });
          Object.assign(globalThis, { session, controller, ended });
        },
        /** @type {const} */ ([server.at(PATH), phase]),
      );
      if (phase === 'prefill') {
        await until('a work unit of the prompt', async () => (await workUnits()) > 0);
        await page.evaluate(() => /** @type {any} */ (globalThis).controller.abort());
      }
      const seen = await page.evaluate(() => /** @type {any} */ (globalThis).ended);
      assert.deepEqual(seen, { name: 'AbortError', parts: phase === 'prefill' ? 0 : 2, reason: 'abort' });
      await allEnded();
      await stillGood();
    });
  }

  if (rank < 3)
    test('pause sends no further requests; resume continues', async () => {
      const rest = barrier();
      misbehave([{ hold: LATE, until: rest.promise }]);
      const paused = await page.evaluate(async (url) => {
        const js = '/js/index.js';
        const { fromUrl } = await import(js);
        const model = await /** @type {any} */ (globalThis).engine.load(fromUrl(url), { streaming: true });
        Object.assign(globalThis, { model });
        await model.pauseDownload();
        return true;
      }, server.at(PATH));
      assert.ok(paused);
      await allEnded();
      const before = server.asked(PATH).filter(({ method }) => method === 'GET').length;
      await page.evaluate(() => /** @type {any} */ (globalThis).model.memory());
      await roundTrips();
      const asked = () => server.asked(PATH).filter(({ method }) => method === 'GET').length;
      assert.equal(asked(), before);
      rest.release();
      const ids = await page.evaluate(async () => {
        const { model } = /** @type {any} */ (globalThis);
        await model.resumeDownload();
        await model.loaded;
        const { tokens: ids } = await (
          await model.createSession()
        ).generate('the quick brown fox', { temperature: 0, maxTokens: 5 }).result;
        await model.close();
        return ids;
      });
      assert.deepEqual(ids, expected[PATH]);
      assert.ok(asked() > before);
      await stillGood();
    });

  test('while the last byte is missing, all layers but one are computed', async () => {
    const last = barrier();
    misbehave([{ stall: size - 1, until: last.promise }]);
    const least = (SIZES.layers - 1) * Math.ceil(101 / 32);
    await page.evaluate(async (url) => {
      const js = '/js/index.js';
      const { fromUrl } = await import(js);
      const model = await /** @type {any} */ (globalThis).engine.load(fromUrl(url), { streaming: true });
      const session = await model.createSession();
      const reply = session.generate('x'.repeat(100), { temperature: 0, maxTokens: 1 }).result;
      reply.catch(() => {});
      Object.assign(globalThis, { model, session, reply });
    }, server.at(PATH));
    await until('all layers but one', async () => (await workUnits()) >= least, { state: workUnits });
    // Each request is answered between two work units: no further unit could be computed.
    for (let trip = 0; trip < 4; trip++)
      assert.equal(await workUnits(), least, 'the last layer waits for its last byte');
    last.release();
    assert.equal(
      await page.evaluate(async () => {
        const { model, reply } = /** @type {any} */ (globalThis);
        const { tokens: ids } = await reply;
        await model.loaded;
        await model.close();
        return ids.length;
      }),
      1,
    );
  });

  test('the bytes that JavaScript holds of a fast download are bounded', async () => {
    const last = barrier();
    // The first chunk comes last: the ranges after it fill up and wait. In a separate page: Chromium allows 125 memories per process, and
    // memories of another page's worker count until they are collected.
    const own = await browser.open(site.url);
    misbehave([from(({ range }) => span({ range })[0] === 65536, { stall: { after: 1000 }, until: last.promise })]);
    await own.evaluate(async (url) => {
      const [js, path] = ['/js/node.js', '/js/storage/load/chunks.js'];
      const { createEngine, fromUrl } = await import(js);
      const { Chunks, MAX_LIVE } = await import(path);
      const seen = { most: 0, limit: MAX_LIVE };
      const { release, take } = Chunks.prototype;
      const count = (/** @type {any} */ chunks) => (seen.most = Math.max(seen.most, chunks.live));
      Chunks.prototype.release = function () {
        count(this);
        return release.call(this);
      };
      Chunks.prototype.take = function (/** @type {number} */ c) {
        const taken = take.call(this, c);
        count(this);
        return taken;
      };
      const local = await createEngine();
      Object.assign(globalThis, { local, seen, loading: local.load(fromUrl(url)) });
    }, server.at(PATH));
    // The page reads nothing more: between two checks it had time, and nothing was sent.
    let sent = -1;
    await until('the transfer to stop', async () => {
      const before = sent;
      await own.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
      sent = server.sent;
      return server.requests.length >= 3 && sent === before;
    });
    assert.ok(server.requests.length <= 1 + 12 / 4 + 2);
    last.release();
    const { most, limit } = await own.evaluate(async () => {
      const { local, loading, seen } = /** @type {any} */ (globalThis);
      await (await loading).close();
      await local.close();
      return seen;
    });
    assert.ok(most > 4 && most <= limit, `${most} chunks at once, ${limit} allowed`);
    await own.close();
  });

  test('the pages report no errors', async () => {
    // The browsers' own messages about failed requests are expected.
    assert.deepEqual(
      (await page.trouble()).filter((line) => !server.origins.some((origin) => line.includes(origin))),
      [],
    );
  });
});
