// Tests of downloads: every fault of a real HTTP server ends with the same tokens or a typed error, and no valid byte is fetched twice.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createEngine, fromUrl } from '../../js/node.js';
import { CHUNK_BYTES } from '../../js/shared/sections.js';
import { Chunks, MAX_LIVE } from '../../js/storage/load/chunks.js';
import { tinyModel } from './fixture.mjs';
import { timeout } from '../../js/shared/timeouts.js';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';

const MiB = 1 << 20;
/** A model of about 17 MB: 17 chunks, five ranges; each layer is longer than a chunk. */
const SIZES = { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 };
const bytes = await tinyModel({ config: SIZES });
const other = await tinyModel({ config: SIZES, seed: 2 });
const prefix = Number(new DataView(bytes.buffer).getBigUint64(24, true));
const chunks = Math.ceil((bytes.length - prefix) / MiB);
const engine = await createEngine({ build: 'simd128', threads: 1 });
after(() => engine.close());
const QUICK = { retries: 3, retryDelay: 1, timeout: 60_000 };

/** @param {any} model */
async function tokens(model) {
  const session = await model.createSession();
  const { tokens: ids } = await session.generate('the quick brown fox', { temperature: 0, maxTokens: 6 }).result;
  await session.close();
  return ids.join();
}

const expected = await (async () => {
  const model = await engine.load(bytes);
  const ids = await tokens(model);
  await model.close();
  return ids;
})();

/** Loads, checks the tokens, and returns the number of received bytes. */
async function good(server, options = {}, source = {}) {
  const model = await engine.load(fromUrl(server.url, { ...QUICK, ...source }), options);
  assert.equal(await tokens(model), expected);
  await model.close();
}

/** @param {any} faults @param {any} [file] */
async function serving(t, faults, file = bytes) {
  const server = await faultServer(file, faults);
  t.after(server.close);
  return server;
}

const span = ({ range }) => {
  const [, from, to] = /bytes=(\d+)-(\d*)/.exec(range);
  return [Number(from), to ? Number(to) + 1 : bytes.length];
};

test('the model is large enough for these tests', () => assert.ok(chunks >= 12 && prefix < 65536));

test('ranges: the file once, in order, several in flight, no byte twice', async (t) => {
  const server = await serving(t, {});
  await good(server);
  let at = 0;
  for (const [from, to] of server.requests.map(span).sort(([a], [b]) => a - b)) {
    assert.equal(from, at);
    at = to;
  }
  assert.equal(at, bytes.length);
  assert.ok(server.requests.length > 3);
});

test('the bytes in JavaScript are bounded, also if they are not read', async (t) => {
  let release = () => {};
  /** @type {Promise<void>} */
  const hold = new Promise((resolve) => (release = resolve));
  // The first chunk comes last: the ranges after it fill up and wait.
  const server = await serving(t, ({ from }) => (from > 0 && from < MiB ? { hold: 0, until: hold } : undefined));
  const seen = [];
  let most = 0;
  const { release: let_go, take } = Chunks.prototype;
  t.after(() => Object.assign(Chunks.prototype, { release: let_go, take }));
  Chunks.prototype.release = function () {
    most = Math.max(most, this.live);
    return let_go.call(this);
  };
  Chunks.prototype.take = function (c) {
    const taken = take.call(this, c);
    most = Math.max(most, this.live);
    return taken;
  };
  const model = engine.load(fromUrl(server.url, QUICK), {
    onProgress: (p) => seen.push(p.loaded),
  });
  let asked = -1;
  await until('the requests to end', async () => {
    const before = asked;
    // A request of another kind on the same connection, which is answered after all earlier ones.
    for (let trip = 0; trip < 3; trip++) await (await fetch(server.at('/other'), { method: 'HEAD' })).arrayBuffer();
    asked = server.asked().length;
    return asked === before && seen.length > 0;
  });
  assert.ok(asked <= 1 + MAX_LIVE / 4 + 2, 'no more ranges than may be held, or wait');
  assert.ok(Math.max(...seen) <= MAX_LIVE * CHUNK_BYTES + 65536);
  release();
  await (await model).close();
  assert.ok(most > 4 && most <= MAX_LIVE, `${most} chunks at once`);
});

test('a server that ignores ranges: one response, read once', async (t) => {
  const server = await serving(t, { status: 200 });
  await good(server);
  assert.equal(server.requests.length, 1);
});

test('a redirect is followed for every range', async (t) => {
  const target = await serving(t, {});
  const server = await serving(t, { redirect: target.url });
  await good(server);
  assert.ok(server.requests.length > 2 && server.requests.length === target.requests.length);
});

/** Temporary faults: [name, faults, maximum number of additional requests] */
const passing = {
  'a 503 for every third request': ({ n }) => (n % 3 === 1 ? { status: 503 } : undefined),
  'a 429 at first': ({ n }) => (n === 0 ? { status: 429 } : undefined),
  'a connection that is reset at first': ({ n }) => (n < 2 ? { refuse: true } : undefined),
  'ranges that break in the middle, once each': ({ n, from }) =>
    n % 2 && from ? { drop: { after: 700_000 } } : undefined,
  'an answer that breaks, then ranges': ({ n }) => (n ? undefined : { status: 200, drop: 3 * MiB + 5 }),
  'an answer that breaks, then another whole one': ({ n }) => ({ status: 200, ...(!n && { drop: 3 * MiB + 5 }) }),
  'a server that stalls': ({ n }) => (n === 2 ? { stall: { after: 100_000 } } : undefined),
  'a server that stalls, without ranges': ({ n }) => ({ status: 200, ...(!n && { stall: 5_000_000 }) }),
  'ranges that end early as if all were well': ({ n }) => (n === 2 ? { truncate: { after: 1000 } } : undefined),
  'ranges that are answered no more': ({ n }) => (n > 2 ? { status: 200 } : undefined),
  'ranges that are never answered, only the whole file': ({ range }) => (range ? { refuse: true } : undefined),
  'ranges that begin elsewhere': { shift: 3 },
  'ranges that are compressed': ({ range }) => (range ? { gzip: true } : undefined),
  'a byte that is wrong once in each chunk': (
    (hit) =>
    ({ from }) => {
      const chunk = Math.floor((from - prefix) / MiB);
      if (!from || hit.has(chunk)) return undefined;
      hit.add(chunk);
      return { flip: from + 1234 };
    }
  )(new Set()),
  'a wrong byte in the prefix, once': ({ n }) => (n === 0 ? { flip: 300 } : undefined),
  'a page of a captive portal in between': ({ n }) => (n === 3 ? { html: true } : undefined),
};
for (const [what, faults] of Object.entries(passing)) {
  test(`${what}: the same tokens`, async (t) => {
    const server = await serving(t, faults);
    await good(server, {}, /stalls|answered/.test(what) ? { timeout: 1000 } : {});
  });
}

test('a complete response that breaks continues with ranges at the same offset', async (t) => {
  const server = await serving(t, ({ n }) => (n ? undefined : { status: 200, drop: 3 * MiB }));
  await good(server);
  const [from] = span(server.requests[1]);
  assert.ok(from > 2 * MiB && from <= 3 * MiB, `it asked from ${from}`);
});

/** Faults that retries cannot repair. @type {Record<string, [faults: import('../server/faults.mjs').Rule, code: string, file?: () => Uint8Array]>} */
const final = {
  'always a 404': [{ status: 404 }, 'HTTP_STATUS'],
  'always a 503': [{ status: 503 }, 'HTTP_STATUS'],
  'a signed address that expires': [({ n }) => (n > 2 ? { status: 403 } : undefined), 'EXPIRED'],
  'a connection that always breaks at the same place': [{ drop: 5 * MiB }, 'NETWORK'],
  'a file that ends early, with ranges': [{}, 'TRUNCATED', () => bytes.subarray(0, 5 * MiB)],
  'a file that ends early, without': [{ status: 200 }, 'TRUNCATED', () => bytes.subarray(0, 5 * MiB)],
  'a page of HTML': [{ html: true }, 'NOT_A_MODEL'],
  'another file from some range on': [({ n }) => (n > 2 ? { file: other } : undefined), 'CHANGED'],
  'a shorter file from some range on': [
    ({ n }) => (n > 2 ? { file: bytes.subarray(0, 9 * MiB) } : undefined),
    'CHANGED',
  ],
};
for (const [what, [faults, code, file]] of Object.entries(final)) {
  test(`${what} is ${code}`, async (t) => {
    const server = await serving(t, faults, file?.());
    await assert.rejects(
      engine.load(fromUrl(server.url, QUICK)),
      (/** @type {any} */ e) => e.code === code && e.hint !== '',
    );
    assert.ok(server.requests.length < 20, `${server.requests.length} requests`);
  });
}

test('a byte that is always wrong: a retry, then the next mirror, then an error with its offset', async (t) => {
  const bad = 6 * MiB + 17;
  const server = await serving(t, { flip: bad });
  const chunk = prefix + Math.floor((bad - prefix) / MiB) * MiB;
  const asked = (s) => s.requests.map(span).filter(([from, to]) => from === chunk && to === chunk + MiB).length;
  await assert.rejects(
    engine.load(fromUrl(server.url, QUICK)),
    (/** @type {any} */ e) => e.code === 'CHECKSUM' && e.offset === chunk,
  );
  assert.equal(asked(server), 1, 'fetched again once');
  const mirror = await serving(t, {});
  await good(server, {}, { mirrors: [mirror.url] });
  assert.ok(mirror.requests.map(span).some(([from, to]) => from === chunk && to === chunk + MiB));
  assert.ok(
    mirror.requests.map(span).every(([from]) => from === 0 || from >= chunk),
    'nothing good is fetched again',
  );
});

test('mirrors: a failing one is left, one with another file is skipped, files are not mixed', async (t) => {
  const dead = await serving(t, ({ n }) => (n > 2 ? { status: 500 } : undefined));
  const wrong = await serving(t, {}, other);
  const right = await serving(t, {});
  await good(dead, {}, { mirrors: [wrong.url, right.url] });
  assert.equal(wrong.requests.length, 1, 'only its first bytes were looked at');
  const another = await serving(t, ({ n }) => (n > 2 ? { status: 500 } : undefined));
  await assert.rejects(engine.load(fromUrl(another.url, { ...QUICK, mirrors: [wrong.url] })), { code: 'HTTP_STATUS' });
});

test('without hashes, a file that changes at the end is detected', async (t) => {
  const strip = (file) => {
    const at = Buffer.from(file.subarray(0, prefix)).indexOf('HASH');
    const out = file.slice();
    out.set(new TextEncoder().encode('CARE'), at);
    return out;
  };
  void strip; // the name of a section is part of the header's checksum; v1 files have no hashes
  const { reseal } = await import('./reseal.mjs');
  const [a, b] = [reseal(strip(bytes)), reseal(strip(other))];
  const server = await serving(t, ({ n }) => (n > 2 ? { file: b } : undefined), a);
  await assert.rejects(engine.load(fromUrl(server.url, QUICK)), { code: 'CHANGED' });
});

/** ETags that network nodes have for the same bytes, by the number of the request. @type {Record<string, (n: number) => Record<string, string>>} */
const names = {
  'another ETag in each answer': (n) => ({ etag: `"${n}"` }),
  'two ETags, in turn': (n) => ({ etag: n % 2 ? '"a"' : '"b"' }),
  'weak and strong': (n) => ({ etag: n % 2 ? '"a"' : 'W/"a"' }),
  'another date in each answer': (n) => ({ 'last-modified': new Date(1e12 + n * 1e6).toUTCString() }),
  'an ETag or a date': (n) => (n % 2 ? { etag: '"a"' } : { 'last-modified': 'Sat, 01 Jan 2000 00:00:00 GMT' }),
};
for (const [what, headers] of Object.entries(names)) {
  test(`nodes with different ETags for the same bytes, ${what}: hashes decide, and no byte is fetched twice`, async (t) => {
    const server = await serving(t, ({ n }) => ({ headers: headers(n) }));
    await good(server);
    const sum = server.requests.map(span).reduce((all, [from, to]) => all + to - from, 0);
    assert.equal(sum, bytes.length);
  });
}

test('a file with another ETag from some range on is CHANGED', async (t) => {
  const server = await serving(t, ({ n }) =>
    n > 2 ? { file: other, headers: { etag: '"b"' } } : { headers: { etag: '"a"' } },
  );
  await assert.rejects(engine.load(fromUrl(server.url, QUICK)), { code: 'CHANGED' });
});

/** Servers that never send the requested bytes. Each is left after some retries. @type {Record<string, import('../server/faults.mjs').Rule>} */
const endless = {
  'ranges from elsewhere, whatever is asked': { status: 206, shift: 5, expose: true },
  'ranges from elsewhere, unseen': { status: 206, shift: 5 },
  'more than was asked for': { length: 'whole', status: 206, total: 7, expose: true },
  'nothing at all': { truncate: { after: 0 }, length: 'none' },
  'an answer that breaks at once': { drop: { after: 0 } },
  'a reset at once': { reset: { after: 0 } },
  'compressed ranges': { gzip: true, expose: true },
  'ranges that claim to be compressed': { gzip: 'lie', expose: true },
};
for (const [what, fault] of Object.entries(endless)) {
  for (const [when, from] of /** @type {const} */ ([
    ['from the first request on', 0],
    ['once the header has come', 2],
  ])) {
    test(`a server that always sends ${what}, ${when}: an error, or the file, after a bounded number of requests`, async (t) => {
      const server = await serving(t, ({ n }) => (n >= from ? fault : undefined));
      await good(server).catch((error) => {
        assert.equal(error.name, 'BqError');
        assert.ok(error.code !== 'TRAP' && error.hint, `${error.code}: ${error.message}`);
      });
      assert.ok(server.requests.length < 40, `${server.requests.length} requests`);
      const sent = server.requests.reduce((all, request) => all + request.sent, 0);
      assert.ok(sent < 8 * bytes.length, `${sent} bytes of ${bytes.length}`);
    });
  }
}

test('unlimited waits: a timeout of Infinity, or a very long delay, sets no timer that ends immediately', async (t) => {
  const server = await serving(t, { drop: 5 * MiB, times: 1 });
  /** @type {Error[]} */
  const warnings = [];
  const note = (/** @type {Error} */ warning) => warnings.push(warning);
  process.on('warning', note);
  t.after(() => process.off('warning', note));
  await good(server, {}, { timeout: Infinity, retryDelay: 1 });
  assert.deepEqual(warnings.map(String), []);
  // With such a delay the second try never comes: the first failure waits until the abort.
  const other = await serving(t, { drop: 5 * MiB });
  const controller = new AbortController();
  const loading = engine.load(fromUrl(other.url, { ...QUICK, retryDelay: 1_000_000_000 }), {
    signal: controller.signal,
    onProgress: ({ retries: failures }) => failures && controller.abort(),
  });
  await assert.rejects(loading, { name: 'AbortError' });
  assert.throws(() => fromUrl(server.url, { retryDelay: Infinity }), { code: 'ARGUMENT' });
});

test('at the last byte all layers but one are computed', async (t) => {
  const last = prefix + (chunks - 1) * MiB;
  for (const ranges of [true, false]) {
    let release = () => {};
    /** @type {Promise<void>} */
    const hold = new Promise((resolve) => (release = resolve));
    const server = await serving(t, { ...(!ranges && { status: 200 }), hold: last, until: hold });
    const model = await engine.load(fromUrl(server.url, QUICK), { streaming: true });
    const session = await model.createSession();
    const reply = session.generate('x'.repeat(100), { temperature: 0, maxTokens: 1 }).result;
    reply.catch(() => {});
    const batches = Math.ceil(101 / 32);
    const least = (SIZES.layers - 1) * batches;
    const workUnits = async () => (await session.stats()).workUnits;
    await until('all layers but one', async () => (await workUnits()) >= least, { state: workUnits });
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve)); // one layer takes one unit
    assert.equal(await workUnits(), least, 'the last layer waits for its last bytes');
    release();
    await reply;
    await model.loaded;
    await model.close();
  }
});

test('pause sends no further requests; resume continues at the same offset', async (t) => {
  for (const ranges of [true, false]) {
    // The rest is sent when the model is paused.
    let release = () => {};
    const until = new Promise((resolve) => (release = () => resolve(undefined)));
    const held = { hold: prefix + 4.5 * MiB, until };
    const server = await serving(t, { ...(!ranges && { status: 200 }), step: 16384, ...held });
    const seen = [];
    const model = await engine.load(fromUrl(server.url, { ...QUICK, retries: 50 }), {
      streaming: true,
      onProgress: (p) => seen.push(p),
    });
    await model.pauseDownload();
    // Bytes sent before the pause may still be in transit.
    const roundTrips = async () => {
      for (let trip = 0; trip < 3; trip++) await (await fetch(server.at('/other'), { method: 'HEAD' })).arrayBuffer();
    };
    await roundTrips();
    const before = server.asked().length;
    assert.equal(seen.at(-1).phase, 'paused');
    release();
    await roundTrips();
    assert.equal(server.asked().length, before);
    assert.ok(seen.at(-1).loaded <= prefix + 5 * MiB, 'of what came later nothing is read');
    await model.resumeDownload();
    await model.loaded;
    assert.equal(await tokens(model), expected);
    assert.deepEqual(
      seen.map((p) => p.loaded),
      seen.map((p) => p.loaded).sort((a, b) => a - b),
    );
    await model.close();
  }
});

test('progress has a rate and the remaining time', async (t) => {
  const server = await serving(t, { step: 16384 });
  const seen = [];
  await (await engine.load(fromUrl(server.url, QUICK), { onProgress: (p) => seen.push(p) })).close();
  const middle = seen.filter((p) => p.phase === 'download' && p.loaded > MiB);
  assert.ok(middle.length > 0 && middle.every((p) => p.bytesPerSecond > 0 && p.etaMs >= 0));
});

test('progress of a stalled download ends with all received bytes; no event follows its end', async (t) => {
  const arrived = prefix + 9.5 * MiB;
  const server = await serving(t, { hold: arrived });
  const controller = new AbortController();
  /** @type {number[]} */
  const seen = [];
  const loading = assert.rejects(
    engine.load(fromUrl(server.url, QUICK), {
      signal: controller.signal,
      onProgress: ({ loaded }) => seen.push(loaded),
    }),
    { name: 'AbortError' },
  );
  await until('all that has come', () => seen.at(-1) === arrived, { state: () => seen.at(-1) });
  controller.abort();
  await loading;
  const { length } = seen;
  await new Promise((resolve) => setTimeout(resolve, 1 + timeout('progress'))); // after the interval of progress
  assert.equal(seen.length, length);
});

test('abort at any time ends all requests', async (t) => {
  for (const when of [0, 1, 2, 4]) {
    const server = await serving(t, { stall: { after: 300_000 } });
    const controller = new AbortController();
    const loading = assert.rejects(engine.load(fromUrl(server.url, QUICK), { signal: controller.signal }), {
      name: 'AbortError',
    });
    await until(`${when} requests`, () => server.requests.length >= when);
    controller.abort();
    await loading;
  }
  const server = await serving(t, { stall: { after: 10 } });
  const planning = new AbortController();
  const plan = engine.plan(fromUrl(server.url, { timeout: 60_000 }), { signal: planning.signal });
  const aborted = assert.rejects(plan, { name: 'AbortError' });
  await until('the first bytes', () => server.requests[0]?.sent > 0);
  planning.abort();
  await aborted;
});
