// GGUF files have the features of .bq4 files: cache, resuming, verification, order, paging, over real HTTP.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { openAsBlob, readFileSync, writeFileSync } from 'node:fs';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createEngine, fromBlob, fromBytes, fromFile, fromUrl } from '../../js/node.js';
import { readHeader } from '../../js/format/gguf/header.js';
import { openStore } from '../../js/storage/cache/index.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';
import { convertGguf } from '../../bin/convert-gguf.js';
import { tensorTable } from '../../js/format/bq4/names.js';
import { CONVERTERS } from '../../js/format/gguf/block-conversions.js';
import { random } from './fixture.mjs';
import { bytesTokenizer, gguf, ggufName, llamaMetadata, randomGguf, randomParts, SMALL } from './gguf-writer.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-gguf-'));
after(() => rmSync(folder, { recursive: true }));

const config = SMALL;
const file = randomGguf(config);
const path = join(folder, 'model.gguf');
writeFileSync(path, file);
const options = { contextTokens: 64 };

/** @param {import('../../js/shared/types.js').Model} model */
async function idsOf(model) {
  const session = await model.createSession();
  const { tokens: ids } = await session.generate('Once upon a time', { temperature: 0, maxTokens: 6 }).result;
  await model.close();
  return ids.join();
}

let folders = 0;
/**
 * A server, an engine with a cache, and the answer with the complete file.
 * @param {import('node:test').TestContext} t @param {any} [serverOptions]
 */
async function opened(t, serverOptions) {
  const server = await faultServer({ '/model.gguf': file }, serverOptions);
  const cache = join(folder, `cache${folders++}`);
  const engine = await createEngine({ threads: 1, cache });
  t.after(async () => {
    await engine.close();
    await server.close();
  });
  const url = server.at('/model.gguf');
  return {
    server,
    engine,
    cache,
    source: fromUrl(url, { retries: 0 }),
    asked: () => server.asked().map(({ range }) => range ?? 'all'),
  };
}

const plain = await createEngine({ threads: 1 });
after(() => plain.close());
const EXPECTED = await idsOf(await plain.load(fromBytes(file), options));

test('every kind of source gives the same tokens', async () => {
  assert.equal(await idsOf(await plain.load(fromFile(path), options)), EXPECTED);
  assert.equal(await idsOf(await plain.load(fromBlob(await openAsBlob(path)), options)), EXPECTED);
});

test('a second visit sends no request, and plans without the network', async (t) => {
  const { server, engine, source, asked } = await opened(t);
  const seen = /** @type {any[]} */ ([]);
  assert.equal(await idsOf(await engine.load(source, { ...options, onProgress: (p) => seen.push(p) })), EXPECTED);
  assert.ok(seen.every(({ total, cacheProblem }) => total === file.length && !cacheProblem));
  assert.equal(seen.at(-1).loaded, file.length);
  const first = asked().length;
  server.faults = [{ refuse: true }];
  const plan = await engine.plan(source, options);
  assert.deepEqual([plan.cached.complete, plan.name, plan.fileBytes], [true, 'Tiny', file.length]);
  assert.equal(await idsOf(await engine.load(source, options)), EXPECTED);
  assert.equal(asked().length, first);
});

test('no byte of the header is requested twice: not by a load, nor by a load after a plan', async (t) => {
  const large = randomGguf({ ...config, layers: 2, vocab: 40000 }); // a header longer than the first request
  /** @param {string} tag @param {boolean} plans */
  const asked = async (tag, plans) => {
    const server = await faultServer({ '/model.gguf': large }, { headers: { etag: tag }, expose: true });
    t.after(server.close);
    const source = fromUrl(server.at('/model.gguf'), { retries: 0 });
    if (plans) await plain.plan(source, options);
    await (await plain.load(source, options)).close();
    return server
      .asked()
      .map(({ range }) => /** @type {string[]} */ (/(\d+)-(\d+)/.exec(range ?? '')).slice(1).map(Number));
  };
  const [first, ...rest] = await asked('"a"', false);
  assert.deepEqual(first, [0, 65535]);
  assert.ok(
    rest.every(([from]) => from > 65535),
    rest.join(' '),
  );
  const header = rest[0];
  assert.ok(
    rest.slice(1).every(([from]) => from > header[1]),
    rest.join(' '),
  );
  const behind = await asked('"b"', true);
  assert.deepEqual(behind.slice(0, 3), [first, header, first], 'its first bytes tell that it is the same');
  assert.ok(
    behind.slice(3).every(([from]) => from > header[1]),
    behind.join(' '),
  );
});

/** The file of the cache with the first chunks. @param {string} cache */
const segment = (cache) =>
  /** @type {string} */ (
    readdirSync(cache, { recursive: true })
      .map(String)
      .find((name) => name.endsWith('s0'))
  );

test('a damaged chunk in the cache is detected, and only this chunk is fetched again', async (t) => {
  const { engine, cache, source, asked } = await opened(t);
  await (await engine.load(source, options)).close();
  const name = join(cache, segment(cache));
  const bytes = readFileSync(name);
  bytes[1_500_000] ^= 16;
  writeFileSync(name, bytes);
  const before = asked().length;
  assert.equal(await idsOf(await engine.load(source, options)), EXPECTED);
  const again = asked()
    .slice(before)
    .map((range) => /bytes=(\d+)-(\d+)/.exec(range) ?? [])
    .map(([, from, to]) => Number(to) - Number(from) + 1);
  const sum = again.reduce((a, b) => a + b, 0);
  assert.ok(sum > 2 ** 20 - 65536 && sum < 1.2 * 2 ** 20, `${sum} bytes in ${again.length} requests`);
  assert.deepEqual(readFileSync(name)[1_500_000], bytes[1_500_000] ^ 16, 'it was repaired');
});

/** Waits until this number of bytes of a download is cached. @param {import('../../js/shared/types.js').Engine} engine @param {number} bytes */
function untilKept(engine, bytes) {
  const kept = async () => (await engine.store?.list())?.[0]?.cachedBytes ?? 0;
  return until(`${bytes} bytes to be kept`, async () => (await kept()) > bytes, { state: kept });
}

test('a download that breaks continues at the same offset', async (t) => {
  const { server, engine, source, asked } = await opened(t);
  server.faults = [{ hold: 3_600_000 }];
  const stop = new AbortController();
  const half = assert.rejects(engine.load(source, { ...options, signal: stop.signal }), { name: 'AbortError' });
  await untilKept(engine, 2_000_000);
  stop.abort();
  await half;
  server.faults = [];
  const kept = (await engine.plan(source)).cached.bytes;
  assert.ok(kept > 2_000_000, `${kept} bytes are kept`);
  const before = asked().length;
  assert.equal(await idsOf(await engine.load(source, options)), EXPECTED);
  const bytes = asked()
    .slice(before)
    .map((range) => /bytes=(\d+)-(\d+)/.exec(range) ?? [])
    .reduce((sum, [, from, to]) => sum + Number(to) - Number(from) + 1, 0);
  assert.ok(
    bytes < file.length - kept + 300_000,
    `${bytes} bytes were asked for again, ${kept} of ${file.length} were kept`,
  );
});

test('layers are requested in the order of computation, for any order in the file', async (t) => {
  const { server, engine, source } = await opened(t);
  await (await engine.load(source, options)).close();
  const { tensors } = await readHeader(openBytes(file), file.subarray(0, 64));
  const startOf = (/** @type {number} */ layer) =>
    Math.min(...tensors.filter(({ name }) => name.startsWith(`blk.${layer}.`)).map(({ offset }) => offset));
  assert.ok(startOf(10) < startOf(2));
  const from = server.asked().map(({ range }) => Number(/bytes=(\d+)-/.exec(range ?? '')?.[1]));
  assert.ok(
    from.includes(startOf(2)) && from.indexOf(startOf(2)) < from.indexOf(startOf(10)),
    `offsets ${from.join(', ')}; layer 2 at ${startOf(2)}, 10 at ${startOf(10)}`,
  );
});

test('another file at the address: it is not mixed with the rest of the old one', async (t) => {
  const other = randomGguf(config, { seed: 2 });
  const expected = await idsOf(await plain.load(fromBytes(other), options));
  assert.notEqual(expected, EXPECTED);
  for (const headers of [{ etag: '"one"' }, {}]) {
    const { server, engine, source } = await opened(t);
    const longer = Buffer.concat([other, Buffer.alloc(headers.etag ? 0 : 32)]);
    server.faults = [{ hold: 3_600_000, headers, expose: true }];
    const stop = new AbortController();
    const half = assert.rejects(engine.load(source, { ...options, signal: stop.signal }), { name: 'AbortError' });
    await untilKept(engine, 2_000_000);
    stop.abort();
    await half;
    assert.ok((await engine.plan(source)).cached.bytes > 2_000_000);
    server.faults = [{ file: longer, headers: headers.etag ? { etag: '"two"' } : {}, expose: true }];
    assert.equal(await idsOf(await engine.load(source, options)), expected);
    server.faults = [{ refuse: true }];
    assert.equal(await idsOf(await engine.load(source, options)), expected);
  }
});

test('network nodes with different ETags for the same bytes: one response is read to its end', async (t) => {
  for (const from of [0, 2]) {
    const { server, engine, source } = await opened(t);
    server.faults = [({ n }) => ({ headers: { etag: n < from ? '"a"' : `"${n}"` }, expose: true })];
    assert.equal(await idsOf(await engine.load(source, options)), EXPECTED);
    server.faults = [{ refuse: true }];
    assert.equal(await idsOf(await engine.load(source, options)), EXPECTED, 'it is kept');
  }
});

test('replaced during its download by a file with the same header and length, on a server without versions: never a mixture', async (t) => {
  const other = randomGguf(config, { seed: 2 });
  assert.equal(other.length, file.length);
  const expected = await idsOf(await plain.load(fromBytes(other), options));
  assert.notEqual(expected, EXPECTED);
  const { server, engine, source, asked } = await opened(t);
  await engine.load(source, options).then((model) => model.close());
  const ranges = asked().length;
  assert.ok(ranges >= 4, `${ranges} ranges`);
  let refused = 0;
  for (let first = 1; first < ranges; first++) {
    await engine.store?.clear();
    let n = 0;
    server.faults = [() => (n++ >= first ? { file: other } : undefined)];
    const load = async () => idsOf(await engine.load(source, options));
    // If all weights came after the change, it is the other file.
    const outcome = await load().catch((error) => error.code);
    refused += Number(outcome === 'CHANGED');
    assert.ok(['CHANGED', expected].includes(outcome), `from request ${first} on: ${outcome}`);
    assert.equal(await load(), expected);
  }
  assert.ok(refused > 0);
});

test('a file that ends too early, a server without ranges, a header with wrong lengths', async (t) => {
  const { server, engine, source } = await opened(t);
  server.faults = [{ file: file.subarray(0, file.length - 100_000) }];
  await assert.rejects(
    engine.load(source, options),
    (/** @type {any} */ e) => e.code === 'TRUNCATED' && e.offset !== null && e.hint !== '',
  );
  server.faults = [{ status: 200 }];
  assert.equal(await idsOf(await engine.load(source, options)), EXPECTED);
  server.faults = [{ length: 'whole', truncate: 4_000_000 }];
  await assert.rejects(plain.load(source, options), (/** @type {any} */ e) =>
    ['TRUNCATED', 'NETWORK'].includes(e.code),
  );
});

test('a saved session of a file can be restored with the same file from a server that sends no length', async (t) => {
  const { server, source } = await opened(t);
  server.faults = [{ status: 200 }];
  const [model, same] = [await plain.load(fromFile(path), options), await plain.load(source, options)];
  t.after(() => Promise.all([model.close(), same.close()]));
  const [session, other] = [await model.createSession(), await same.createSession()];
  await session.append('Once upon a time');
  await other.restore(await session.save());
  assert.deepEqual(await other.tokens(), await session.tokens());
});

test('within a budget: pages from its repacked copy in the cache, and an error without one', async (t) => {
  const { engine, source } = await opened(t);
  const { heapBytes } = await engine.plan(source, options);
  const budget = heapBytes - 1_500_000;
  for (const from of [fromFile(path), fromBlob(await openAsBlob(path)), fromBytes(file), source])
    await assert.rejects(
      plain.load(from, { ...options, memoryBudget: budget }),
      (/** @type {any} */ e) => e.code === 'NOMEM' && /repacked copy/.test(e.hint),
      from.kind,
    );
  for (const from of [fromBlob(await openAsBlob(path)), fromFile(path), source]) {
    const model = await engine.load(from, { ...options, memoryBudget: budget });
    assert.equal(model.info.residency, 'paged', from.kind);
    const { peak, heap } = await model.memory();
    assert.ok(peak <= heap && model.info.heapBytes <= budget);
    assert.equal(await idsOf(model), EXPECTED, from.kind);
  }
});

test('integrity: the SHA-256 of the file for any conversion; no token comes from another file', async (t) => {
  const integrity = `sha256-${createHash('sha256').update(file).digest('base64')}`;
  const wrong = Buffer.from(file);
  wrong[file.length - 3] ^= 1;
  for (const from of [fromBytes(file), fromFile(path)])
    assert.equal(await idsOf(await plain.load(from, { ...options, integrity })), EXPECTED);
  await assert.rejects(plain.load(fromBytes(wrong), { ...options, integrity }), { code: 'INTEGRITY' });
  const { server, engine, cache, source, asked } = await opened(t);
  server.faults = [{ file: wrong }];
  await assert.rejects(engine.load(source, { ...options, integrity }), { code: 'INTEGRITY' });
  const streaming = await engine.load(source, { ...options, integrity, streaming: true });
  await assert.rejects(
    streaming.createSession().then((session) => session.generate('a', { maxTokens: 1 }).result),
    { code: 'INTEGRITY' },
  );
  await assert.rejects(streaming.loaded, { code: 'INTEGRITY' });
  await streaming.close();
  server.faults = [];
  assert.equal(await idsOf(await engine.load(source, { ...options, integrity })), EXPECTED);
  const before = asked().length;
  for (const asking of [{ integrity }, {}])
    assert.equal(await idsOf(await engine.load(source, { ...options, ...asking })), EXPECTED);
  assert.equal(asked().length, before, 'kept, and known to be the one');
  const name = join(cache, segment(cache));
  const bytes = readFileSync(name);
  bytes[1_500_000] ^= 16;
  writeFileSync(name, bytes);
  assert.equal(
    await idsOf(await engine.load(source, { ...options, integrity })),
    EXPECTED,
    'damaged: all of it is fetched and checked again',
  );
  const { heapBytes } = await engine.plan(source, { ...options, integrity });
  const paged = await engine.load(fromFile(path), { ...options, integrity, memoryBudget: heapBytes - 1_500_000 });
  assert.equal(paged.info.residency, 'paged');
  assert.equal(await idsOf(paged), EXPECTED);
});

/** A file of some more chunks, and its hash. */
const longFile = randomGguf({ ...config, layers: 40 });
const longIntegrity = `sha256-${createHash('sha256').update(longFile).digest('base64')}`;

/**
 * A server with the longer file, and an engine with a cache.
 * @param {import('node:test').TestContext} t @param {object} [sourceOptions]
 */
async function openedLong(t, sourceOptions = { retries: 0 }) {
  const { server, engine, cache } = await opened(t);
  server.files['/long.gguf'] = longFile;
  const source = fromUrl(server.at('/long.gguf'), sourceOptions);
  const loadOptions = { ...options, integrity: longIntegrity };
  /** Returns a function with the first byte of each request from now on. */
  const watchRequests = () => {
    const before = server.asked().length;
    return () =>
      server
        .asked()
        .slice(before)
        .map(({ range }) => Number(/bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0));
  };
  const untilTwoChunks = () =>
    until('two chunks in the cache', async () =>
      ((await engine.store?.list()) ?? []).some(({ cachedBytes }) => cachedBytes > 1_900_000),
    );
  return { server, engine, cache, source, loadOptions, watchRequests, untilTwoChunks };
}

/**
 * An engine with a cache in which a download of the longer file was interrupted after 3 of 6 MB.
 * @param {import('node:test').TestContext} t
 */
async function interrupted(t) {
  const long = await openedLong(t);
  long.server.faults = [{ drop: 3_000_000 }];
  await assert.rejects(long.engine.load(long.source, long.loadOptions), { code: 'NETWORK' });
  long.server.faults = [];
  return { ...long, requested: long.watchRequests() };
}

test('integrity: an interrupted download continues, and the hash is that of both visits', async (t) => {
  const expected = await idsOf(await plain.load(fromBytes(longFile), options));
  {
    const { engine, source, loadOptions, requested } = await interrupted(t);
    const model = await engine.load(source, loadOptions);
    assert.equal(model.info.authenticated, true);
    assert.equal(await idsOf(model), expected);
    assert.ok(requested().length && requested().every((from) => from > 1_500_000), requested().join());
  }
  // The rest of another file: everything is deleted, and the next load starts again.
  const { server, engine, source, loadOptions, requested } = await interrupted(t);
  const wrong = Buffer.from(longFile);
  wrong[longFile.length - 3] ^= 1;
  server.faults = [{ file: wrong }];
  await assert.rejects(engine.load(source, loadOptions), { code: 'INTEGRITY' });
  server.faults = [];
  assert.ok(requested().every((from) => from > 1_500_000));
  assert.deepEqual(await engine.store?.list(), []);
  assert.equal(await idsOf(await engine.load(source, loadOptions)), expected);
});

test('integrity: a download continues only if the state of the hash is intact and belongs to the first missing chunk', async (t) => {
  const expected = await idsOf(await plain.load(fromBytes(longFile), options));
  for (const damage of ['flip', 'missing', 'old']) {
    const { engine, cache, source, loadOptions, requested } = await interrupted(t);
    const names = readdirSync(cache, { recursive: true }).map(String);
    for (const name of names.filter((entry) => /hash[01]$/.test(entry)).map((entry) => join(cache, entry))) {
      const bytes = readFileSync(name);
      if (damage === 'flip') bytes[20] ^= 1;
      if (damage === 'old') bytes[0] -= 2;
      if (damage === 'missing') rmSync(name);
      else writeFileSync(name, bytes);
    }
    assert.equal(await idsOf(await engine.load(source, loadOptions)), expected, damage);
    assert.ok(
      requested().some((from) => from < 100_000),
      `${damage}: starts again`,
    );
  }
});

test('integrity: another engine that waits for the download of the same file continues it when it ends', async (t) => {
  const expected = await idsOf(await plain.load(fromBytes(longFile), options));
  const { server, engine, cache, source, loadOptions, watchRequests, untilTwoChunks } = await openedLong(t);
  let release = () => {};
  server.faults = [{ nth: 1, hold: 3_000_000, until: new Promise((resolve) => (release = () => resolve(undefined))) }];
  const controller = new AbortController();
  const first = engine.load(source, { ...loadOptions, signal: controller.signal });
  const second = await createEngine({ threads: 1, cache });
  t.after(() => second.close());
  await untilTwoChunks();
  const requested = watchRequests();
  let waits = false;
  const waiting = second.load(source, { ...loadOptions, onProgress: ({ loaded }) => (waits ||= loaded > 1_900_000) });
  await until('progress of the second engine', () => waits);
  controller.abort();
  await assert.rejects(first, { name: 'AbortError' });
  release();
  assert.equal(await idsOf(await waiting), expected);
  assert.ok(requested().length && requested().every((from) => from > 1_500_000), requested().join());
});

test('integrity: bytes after the last tensor are hashed, whether the server reports the length or not', async (t) => {
  const expected = await idsOf(await plain.load(fromBytes(longFile), options));
  const padded = Buffer.concat([longFile, Buffer.alloc(1000, 7)]);
  const integrity = `sha256-${createHash('sha256').update(padded).digest('base64')}`;
  for (const total of [undefined, '*']) {
    const { server, engine } = await opened(t);
    server.files['/padded.gguf'] = padded;
    const source = fromUrl(server.at('/padded.gguf'), { retries: 0 });
    server.faults = [{ total, drop: 3_000_000 }];
    await assert.rejects(engine.load(source, { ...options, integrity }), { code: 'NETWORK' });
    server.faults = [{ total }];
    assert.equal(await idsOf(await engine.load(source, { ...options, integrity })), expected);
  }
});

test('integrity: the hash is that of the header from which the load was planned', async (t) => {
  const expected = await idsOf(await plain.load(fromBytes(longFile), options));
  const wrong = Buffer.from(longFile);
  wrong[wrong.indexOf('w100x')] ^= 1;
  const { server, engine, source, loadOptions } = await openedLong(t, { retries: 1, retryDelay: 1 });
  // The header of another file, in an earlier visit, and in an earlier response of this visit.
  server.faults = [{ file: wrong }, { drop: 500_000 }];
  await assert.rejects(engine.load(source, loadOptions), { code: 'NETWORK' });
  server.faults = [];
  await assert.rejects(engine.load(source, loadOptions), { code: 'INTEGRITY' });
  server.faults = [
    { nth: 0, file: wrong },
    { nth: 1, drop: 500_000 },
    { nth: 2, status: 200 },
  ];
  await assert.rejects(engine.load(source, loadOptions), { code: 'INTEGRITY' });
  assert.equal(await idsOf(await engine.load(source, loadOptions)), expected);
});

test('integrity: bytes of a unit that continues in the next chunk are hashed when they are requested again', async (t) => {
  // 8 rows of `ffn_down` are longer than a chunk, so two chunks begin in one unit.
  const wide = randomGguf({ ...config, layers: 1, hidden: 32, heads: 1, kv_heads: 1, ffn: 163_840 });
  const integrity = `sha256-${createHash('sha256').update(wide).digest('base64')}`;
  const expected = await idsOf(await plain.load(fromBytes(wide), options));
  for (const isAttack of [false, true]) {
    const store = await openStore({ path: join(folder, `wide-${isAttack}`) });
    const server = await faultServer({ '/wide.gguf': wide });
    /** Ends the current visit. */
    let controller = new AbortController();
    const open = store.open.bind(store);
    store.open = async (about) => {
      const entry = await open(about);
      const write = entry.write.bind(entry);
      entry.write = (chunk, ...more) => write(chunk, ...more).finally(() => chunk < entry.chunks && controller.abort());
      return entry;
    };
    const engine = await createEngine({ threads: 1, cache: store });
    t.after(async () => {
      await engine.close();
      await store.close();
      await server.close();
    });
    let previous = -1;
    let repeats = 0;
    server.faults = [
      ({ range }) => {
        const from = Number(/bytes=(\d+)-/.exec(range ?? '')?.[1]);
        const isRepeated = from === previous;
        previous = from;
        if (isRepeated) repeats++;
        return isAttack && isRepeated ? { flip: from + 402 } : {};
      },
    ];
    const source = fromUrl(server.at('/wide.gguf'), { retries: 0 });
    // Each of these visits stores one chunk.
    for (let visits = 0; visits < 5; visits++) {
      controller = new AbortController();
      const { signal } = controller;
      await assert.rejects(engine.load(source, { ...options, integrity, signal }), { name: 'AbortError' });
    }
    assert.equal(repeats, 1, 'two chunks begin in one unit');
    controller = new AbortController();
    store.open = open;
    const loading = engine.load(source, { ...options, integrity });
    if (isAttack) await assert.rejects(loading, { code: 'INTEGRITY' });
    else assert.equal(await idsOf(await loading), expected);
  }
});

test('integrity: a download continues only after all stored chunks', async (t) => {
  const expected = await idsOf(await plain.load(fromBytes(longFile), options));
  const { server, engine, cache, source, loadOptions } = await openedLong(t);
  await (await engine.load(source, loadOptions)).close();
  // A damaged record of the last chunk but one, whose state is stored.
  const [name] = readdirSync(cache, { recursive: true }).filter((entry) => /journal$/.test(String(entry)));
  const journal = readFileSync(join(cache, String(name)));
  const records = Array.from({ length: journal.length / 24 }, (_, i) => journal.readUInt32LE(24 * i + 4));
  const last = Math.max(...records.filter((index) => index < 0xfffffff0));
  journal[24 * records.indexOf(last - 1) + 20] ^= 1;
  writeFileSync(join(cache, String(name)), journal);
  const wrong = Buffer.from(longFile);
  for (let at = wrong.length - 2_500_000; at < wrong.length - 100; at += 1000) wrong[at] ^= 1;
  server.faults = [{ file: wrong }];
  await assert.rejects(engine.load(source, loadOptions), { code: 'INTEGRITY' });
  server.faults = [];
  assert.equal(await idsOf(await engine.load(source, loadOptions)), expected);
});

test('integrity: chunks of two responses are not stored in one file', async (t) => {
  const expected = await idsOf(await plain.load(fromBytes(longFile), options));
  const { server, engine, cache, source, loadOptions, untilTwoChunks } = await openedLong(t);
  const wrong = Buffer.from(longFile);
  for (let at = 3_100_000; at < 3_500_000; at += 1000) wrong[at] ^= 1;
  let releaseFirst = () => {};
  let releaseSecond = () => {};
  const first = new Promise((resolve) => (releaseFirst = () => resolve(undefined)));
  const second = new Promise((resolve) => (releaseSecond = () => resolve(undefined)));
  server.faults = [
    { nth: 1, file: wrong, hold: 3_000_000, until: first },
    { nth: 2, hold: 5_000_000, until: second },
  ];
  const stalled = engine.load(source, loadOptions);
  await untilTwoChunks();
  const other = await createEngine({ threads: 1, cache: { path: cache, stallTimeout: 100 } });
  t.after(() => other.close());
  const loading = other.load(source, loadOptions);
  await until('the request of the other engine', () => server.asked().length === 3);
  releaseFirst();
  await assert.rejects(stalled, { code: 'INTEGRITY' });
  releaseSecond();
  assert.equal(await idsOf(await loading), expected);
  await until('the end of the other load', async () => (await other.store?.list().catch(() => null)) !== null);
  assert.ok((await other.store?.list())?.every(({ complete }) => !complete));
  await assert.rejects(engine.load(source, loadOptions), { code: 'INTEGRITY' });
  assert.equal(await idsOf(await engine.load(source, loadOptions)), expected);
});

test('a model in several files: by the address or path of the first one, or as a list; cached completely or not at all', async (t) => {
  const parts = randomParts(config, 3);
  const names = parts.map((_, i) => `m-0000${i + 1}-of-00003.gguf`);
  names.forEach((name, i) => writeFileSync(join(folder, name), parts[i]));
  const { server, engine } = await opened(t);
  names.forEach((name, i) => (server.files[`/${name}`] = parts[i]));
  const url = fromUrl(server.at(`/${names[0]}`), { retries: 0 });
  const sum = parts.reduce((bytes, { length }) => bytes + length, 0);
  const blobs = parts.map((bytes) => new Blob([bytes]));
  const mixed = [fromFile(join(folder, names[0])), ...blobs.slice(1)];
  for (const from of [fromFile(join(folder, names[0])), blobs, mixed, url]) {
    const model = await engine.load(from, options);
    assert.equal(model.info.fileBytes, sum);
    assert.equal(await idsOf(model), EXPECTED);
  }
  server.faults = [{ refuse: true }];
  assert.equal(await idsOf(await engine.load(url, options)), EXPECTED);
  await assert.rejects(
    plain.load(fromBytes(parts[0]), options),
    (/** @type {any} */ e) => e.code === 'FORMAT' && /one of 3 parts/.test(e.message) && /00001-of/.test(e.hint),
  );
  await assert.rejects(
    plain.load(parts.slice(0, 2), options),
    (/** @type {any} */ e) => e.code === 'FORMAT' && /one of 3 parts of a model, but 2 were given/.test(e.message),
  );
  await assert.rejects(
    plain.load([parts[0], parts[2], parts[1]], options),
    (/** @type {any} */ e) => e.code === 'FORMAT' && /is part 3; expected part 2/.test(e.message),
  );
  server.faults = [{ path: `/${names[1]}`, status: 404 }];
  await assert.rejects(plain.load(url, options), { code: 'HTTP_STATUS' });
});

test('a part that was replaced between two visits is never mixed with cached bytes of the earlier one', async (t) => {
  const wide = { ...config, hidden: 384, heads: 6, kv_heads: 6, ffn: 768 };
  const parts = randomParts(wide, 3).map((bytes) => Uint8Array.from(bytes));
  const [first, second, third] = parts.map((_, i) => `/m-0000${i + 1}-of-00003.gguf`);
  const { server, engine } = await opened(t);
  Object.assign(server.files, { [first]: parts[0], [second]: parts[1], [third]: parts[2] });
  // Only weights after the samples at the beginnings of chunks differ, as in a model of which some layers were trained.
  const other = parts[2].slice();
  const isScale = (/** @type {number} */ i) => other[i] === 0 && other[i + 1] === 0x14;
  for (let i = 1_500_000; i + 35 < other.length; i++)
    if (isScale(i) && isScale(i + 34)) for (let k = i + 2; k < i + 34; k++) other[k] ^= 0x55;
  const url = fromUrl(server.at(first), { retries: 0 });
  const version = (/** @type {string} */ tag) => ({ headers: { etag: `"${tag}"` } });
  server.faults = [version('1'), { path: third, drop: Math.floor(parts[2].length * 0.6) }];
  await assert.rejects(engine.load(url, options), { code: 'NETWORK' });
  const [{ cachedBytes }] = await engine.store.list();
  assert.ok(cachedBytes > 8e6, `${cachedBytes} bytes are kept`);
  server.files[third] = other;
  server.faults = [version('1'), { path: third, ...version('2') }];
  assert.equal(
    await idsOf(await engine.load(url, options)),
    await idsOf(await plain.load([parts[0], parts[1], other], options)),
  );
});

test('parts of different models are refused; a fault is reported with its part and the offset there', async () => {
  const parts = randomParts(config, 3).map((bytes) => Uint8Array.from(bytes));
  const of = (/** @type {Uint8Array} */ bytes, /** @type {string} */ name) =>
    new File([/** @type {any} */ (bytes)], `${name}.gguf`);
  const names = ['m-00001-of-00003', 'n-00002-of-00003', 'm-00003-of-00003'];
  await assert.rejects(
    plain.load(
      parts.map((bytes, i) => of(bytes, names[i])),
      options,
    ),
    { code: 'FORMAT', message: /part 2 \(n-00002-of-00003\.gguf\) belongs to another model than part 1 \(m-00001/ },
  );
  const ofFour = Uint8Array.from(randomParts(config, 4)[1]);
  await assert.rejects(plain.load([parts[0], ofFour, parts[2]], options), {
    code: 'FORMAT',
    message: /part 2 .* belongs to another model than part 1/,
  });
  const at = parts[2].findIndex((_, i) => [0, 34, 68].every((k) => parts[2][i + k + 1] === 0x14 && !parts[2][i + k]));
  parts[2].set([0, 0x7c], at + 34); // an infinite scale
  await assert.rejects(
    plain.load(
      parts.map((bytes, i) => of(bytes, `m-0000${i + 1}-of-00003`)),
      options,
    ),
    (/** @type {any} */ e) =>
      e.code === 'FORMAT' &&
      /^m-00003-of-00003\.gguf: tensor ".*" has a scale that is NaN or infinite/.test(e.message) &&
      e.offset >= at + 34 &&
      e.offset < at + 68,
  );
});

/** Blocks of IQ4_XS with factors of 1, which have the values of IQ4_NL. @param {Uint8Array} blocks */
const iq4nlOfIq4xs = (blocks) =>
  Buffer.concat(
    Array.from({ length: blocks.length / 136 }, (_, i) => blocks.subarray(136 * i, 136 * (i + 1))).flatMap((block) =>
      Array.from({ length: 8 }, (_, k) => [block.subarray(0, 2), block.subarray(8 + 16 * k, 24 + 16 * k)]).flat(),
    ),
  );

/**
 * Blocks of Q6_K with the values of codes of `weights`, in units of 2^-shift.
 * @param {Uint8Array} coded  blocks of 146 bytes: nibbles, 16 factors, f16 scale (not subnormal if there is a shift) @param {number[]} weights @param {number} shift
 */
function q6kOfCodes(coded, weights, shift) {
  const out = new Uint8Array((coded.length / 146) * 210);
  for (let from = 0, to = 0; from < coded.length; from += 146, to += 210) {
    for (let k = 0; k < 256; k++) {
      const code = (coded[from + (k >> 5) * 16 + (k & 15)] >> (k & 16 ? 4 : 0)) & 15;
      const q = 32 + (code < 8 ? weights[code] : -weights[code - 8]);
      out[to + (k >> 7) * 64 + (k & 63)] |= (q & 15) << (k & 64 ? 4 : 0);
      out[to + 128 + (k >> 7) * 32 + (k & 31)] |= (q >> 4) << (2 * ((k >> 5) & 3));
    }
    out.set(coded.subarray(from + 128, from + 146), to + 192);
    out[to + 209] -= shift << 2;
  }
  return out;
}

/**
 * Uncommon types: GGUF numbers, bytes of a block and its beginning after a scale of 1/2 (of IQ3_S a subnormal one), and the same values in
 * another type.
 */
const OTHERS = {
  IQ3_S: {
    number: 21,
    bytes: 110,
    head: [1],
    as: 14,
    of: (/** @type {Uint8Array} */ blocks) => q6kOfCodes(CONVERTERS.iq3_s(blocks), [1, 3, 5, 7, 9, 11, 13, 15], 0),
  },
  IQ3_XXS: {
    number: 18,
    bytes: 98,
    head: [0x14],
    as: 14,
    of: (/** @type {Uint8Array} */ blocks) => q6kOfCodes(CONVERTERS.iq3_xxs(blocks), [2, 6, 10, 14, 18, 22, 26, 31], 1),
  },
  IQ1_S: {
    number: 19,
    bytes: 50,
    head: [0x14],
    as: 14,
    of: (/** @type {Uint8Array} */ blocks) => q6kOfCodes(CONVERTERS.iq1_s(blocks), [8, 25, 43, 1, 7, 9, 0, 0], 3),
  },
  IQ4_XS: { number: 23, bytes: 136, head: [0x14, 0xaa, 0xaa, 0x11, 0x11, 0x11, 0x11], as: 20, of: iq4nlOfIq4xs },
};

for (const [type, { number, bytes: size, head, as: same, of }] of Object.entries(OTHERS))
  test(`${type} has the same results as the type with its values: from a file, by ranges, cached, and in a .bq4 file`, async (t) => {
    const next = random(5);
    const sizes = { ...config, layers: 2, hidden: 256, heads: 4, kv_heads: 2, ffn: 512 };
    const tensors = tensorTable({ ...sizes, head_dim: 64 })
      .filter(({ required }) => required)
      .map(({ name, dims }) => {
        if (dims.length === 1)
          return {
            name: ggufName(name),
            dims,
            type: 0,
            bytes: new Uint8Array(Float32Array.from({ length: dims[0] }, () => 1 + 0.2 * next()).buffer),
          };
        const bytes = Uint8Array.from({ length: ((dims[0] * dims[1]) / 256) * size }, () => 128 + 128 * next());
        for (let i = 0; i < bytes.length; i += size) bytes.set([128 + 128 * next(), ...head], i);
        return { name: ggufName(name), dims, type: number, bytes };
      });
    const metadata = { ...llamaMetadata(sizes), ...bytesTokenizer(sizes.vocab) };
    const as = (/** @type {any} */ list) => gguf(metadata, list);
    const stored = as(tensors);
    const other = as(tensors.map((one) => (one.type ? { ...one, type: same, bytes: of(one.bytes) } : one)));
    /** @param {any} source @param {any} [more] */
    const answer = async (source, more) => idsOf(await plain.load(source, { ...options, ...more }));
    const expected = await answer(fromBytes(other));
    assert.equal(await answer(fromBytes(stored)), expected);
    const vector = { name: 'output_norm.weight', dims: [256], type: number, bytes: tensors[0].bytes.subarray(0, size) };
    await assert.rejects(answer(fromBytes(as(tensors.map((one) => (one.name === vector.name ? vector : one))))), {
      code: 'UNSUPPORTED',
      message: new RegExp(`(vector "ln_f.weight" is stored as|"output_norm.weight" is a vector of type) ${type}`, 'i'),
    });
    assert.equal(await answer(fromBytes(stored), { memoryBudget: 2 ** 27 }), expected);
    const { server, engine, asked } = await opened(t);
    server.files['/model.gguf'] = stored;
    const source = fromUrl(server.at('/model.gguf'), { retries: 0 });
    assert.equal(await idsOf(await engine.load(source, options)), expected);
    const first = asked().length;
    assert.equal(await idsOf(await engine.load(source, options)), expected);
    assert.equal(asked().length, first);
    const to = join(folder, `${type}.bq4`);
    await convertGguf(openBytes(stored), to, {});
    assert.equal(await answer(fromFile(to)), expected);
  });

test('a large vocabulary: JavaScript keeps nothing of the header once the weights are loaded', () => {
  const large = { ...config, layers: 1, hidden: 64, heads: 2, kv_heads: 1, ffn: 64, vocab: 200000 };
  const words = join(folder, 'words.gguf');
  writeFileSync(words, randomGguf(large));
  const script = `
    import { createEngine, fromFile } from ${JSON.stringify(new URL('../../js/node.js', import.meta.url).href)};
    const engine = await createEngine({ threads: 1 });
    const model = await engine.load(fromFile(process.argv[1]), { contextTokens: 64 });
    let left = Infinity;
    // Collected in later turns; what is held is held in all of them.
    for (let tries = 0; tries < 100 && left > 1e6; tries++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 20));
      left = process.memoryUsage().arrayBuffers; // without wasm's memory
    }
    console.log(left);
    await engine.close();`;
  const child = spawnSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', script, words], {
    encoding: 'utf8',
  });
  assert.equal(child.stderr, '');
  assert.ok(Number(child.stdout) < 1e6, child.stdout);
});
