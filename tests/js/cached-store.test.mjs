// Tests of engines with a real store in a folder: files are loaded once, then read from the store; damaged, shared, listed and deleted
// files.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromUrl } from '../../js/index.js';
import { openStore } from '../../js/storage/cache/index.js';
import { CONFIG, tinyModel } from './fixture.mjs';
import { reseal } from './reseal.mjs';
import { faultServer } from '../server/faults.mjs';
import { v1 } from './v1.mjs';
import { until } from '../waiting.mjs';

const MiB = 1 << 20;
const bytes = await tinyModel({ config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } });
const prefix = Number(new DataView(bytes.buffer).getBigUint64(24, true));
const QUICK = { retries: 1, retryDelay: 1 };
const KINDS = { 'in this thread': createEngine, 'in a worker': createWorkerEngine };

async function setUp(t, create, faults = {}) {
  const path = mkdtempSync(join(tmpdir(), 'bq4-cached-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  const server = await faultServer(bytes, faults);
  t.after(server.close);
  const engine = await create({ build: 'simd128', threads: 1, cache: path });
  t.after(() => engine.close());
  const load = async (options = {}, by = engine) => {
    const model = await by.load(fromUrl(server.url, QUICK), options);
    const session = await model.createSession();
    const { tokens: ids } = await session.generate('the quick', { temperature: 0, maxTokens: 4 }).result;
    await model.close();
    return ids.join();
  };
  const folder = () =>
    join(
      path,
      'models',
      readdirSync(join(path, 'models')).find((name) => !name.endsWith('.lock')),
    );
  return { path, server, engine, load, folder };
}

/** A count once it is as low as it gets: what ends of itself has ended in some turns of the event loop. @param {() => number} count */
async function settled(count) {
  let least = count();
  for (let turn = 0; turn < 100; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    least = Math.min(least, count());
  }
  return least;
}

/** Changes bytes of a file of the store. */
function harm(file, at) {
  const all = readFileSync(file);
  all[at] ^= 1;
  writeFileSync(file, all);
}

for (const [where, create] of Object.entries(KINDS)) {
  test(`${where}: the first load fetches, the second asks for nothing, without a server neither`, async (t) => {
    const { server, engine, load } = await setUp(t, create);
    assert.deepEqual([engine.store.backend, engine.store.reason], ['file', '']);
    assert.deepEqual(await engine.store.list(), []);
    assert.deepEqual((await engine.plan(server.url)).cached, { bytes: 0, complete: false });
    const first = await load();
    server.forget();
    assert.equal(await load(), first);
    assert.deepEqual(server.requests, []);
    await server.close();
    assert.deepEqual((await engine.plan(server.url)).cached, { bytes: bytes.length, complete: true });
    assert.equal(await load(), first);
    const [file] = await engine.store.list();
    assert.deepEqual(
      { ...file, key: '', lastUsed: 0, fileId: '' },
      {
        key: '',
        url: server.url,
        name: 'model.bq4',
        fileId: '',
        fileBytes: bytes.length,
        cachedBytes: bytes.length,
        complete: true,
        pinned: false,
        lastUsed: 0,
      },
    );
    await engine.store.pin(file.key);
    assert.equal((await engine.store.list())[0].pinned, true);
    assert.equal((await engine.store.usage()).cachedBytes, bytes.length);
    await engine.store.delete(file.key);
    assert.deepEqual(await engine.store.list(), []);
    await engine.store.clear();
  });

  test(`${where}: a damaged chunk costs one range, a damaged prefix its bytes`, async (t) => {
    const { server, load, folder } = await setUp(t, create);
    const first = await load();
    server.forget();
    harm(join(folder(), 's0'), 3 * MiB + 99);
    assert.equal(await load(), first);
    assert.deepEqual(
      server.requests.map(({ range }) => range),
      [`bytes=${prefix + 3 * MiB}-${prefix + 4 * MiB - 1}`],
    );
    server.forget();
    assert.equal(await load(), first);
    assert.deepEqual(server.requests, [], 'it has healed');
    harm(join(folder(), 'prefix'), prefix - 200);
    assert.equal(await load(), first);
    assert.ok(
      server.requests.length > 0 && server.requests.every(({ range }) => Number(/=(\d+)-/.exec(range)[1]) < prefix),
      JSON.stringify(server.requests),
    );
    server.forget();
    assert.equal(await load(), first);
    assert.deepEqual(server.requests, [], 'it has healed too');
  });

  test(`${where}: another file at the address replaces the cached one`, async (t) => {
    const { server, engine, load, folder } = await setUp(t, create);
    const first = await load();
    harm(join(folder(), 's0'), 5 * MiB);
    server.files['*'] = await tinyModel({
      config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 },
      seed: 3,
    });
    const second = await load();
    assert.notEqual(second, first);
    assert.equal((await engine.store.list()).length, 1);
    server.forget();
    assert.equal(await load(), second);
    assert.deepEqual(server.requests, []);
  });
}

for (const [where, create] of Object.entries(KINDS)) {
  test(`${where}: a signed address expires in the middle; a new one of the same file fetches only the rest`, async (t) => {
    const { server, engine } = await setUp(t, create);
    const at = (signature) => fromUrl(`${server.origin}/signed/model.bq4?key=${signature}`, QUICK);
    server.faults = ({ url, from }) => (url.endsWith('=old') && from >= prefix + 6 * MiB ? { status: 403 } : undefined);
    await assert.rejects(engine.load(at('old')), { code: 'EXPIRED', hint: /new address/ });
    const [{ cachedBytes, key, complete }] = await engine.store.list();
    assert.equal(complete, false);
    assert.ok(cachedBytes >= prefix + 3 * MiB, `${cachedBytes} bytes kept`);
    server.forget();
    await (await engine.load(at('new'))).close();
    const fetched = server.requests
      .map(({ range }) => /=(\d+)-(\d+)/.exec(range).slice(1).map(Number))
      .filter(([from]) => from >= prefix);
    const bytesFetched = fetched.reduce((sum, [from, to]) => sum + Math.min(to + 1, bytes.length) - from, 0);
    assert.equal(bytesFetched, bytes.length - cachedBytes, 'nothing that was kept');
    assert.ok(server.requests.every(({ url }) => url.endsWith('=new')));
    const list = await engine.store.list();
    assert.deepEqual(
      list.map((file) => [file.key, file.complete]),
      [[key, true]],
      'one file, under both addresses',
    );
    server.forget();
    for (const name of ['old', 'new']) await (await engine.load(at(name))).close();
    assert.deepEqual(server.requests, []);
  });

  test(`${where}: a file that calls itself another one, and is as long, never takes its place`, async (t) => {
    const { server, engine } = await setUp(t, create);
    const evil = await tinyModel({
      config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 },
      seed: 3,
    });
    assert.equal(evil.length, bytes.length);
    evil.set(bytes.subarray(40, 56), 40); // the file's id
    server.files['/evil/model.bq4'] = reseal(evil);
    const messageOf = async (path) => {
      const model = await engine.load(fromUrl(`${server.origin}${path}`, QUICK));
      const { tokens: ids } = await (
        await model.createSession()
      ).generate('the quick', { temperature: 0, maxTokens: 4 }).result;
      await model.close();
      return ids.join();
    };
    const good = await messageOf('/model.bq4');
    const other = await messageOf('/evil/model.bq4');
    assert.notEqual(other, good);
    server.forget();
    assert.equal(await messageOf('/model.bq4'), good);
    assert.equal(await messageOf('/evil/model.bq4'), other);
    assert.deepEqual(server.requests, [], 'both are kept');
    await assert.rejects(engine.store.delete('../..'), { code: 'ARGUMENT' });
  });

  test(`${where}: responses that are not the model are never stored`, async (t) => {
    const { server, engine, load } = await setUp(t, create);
    for (const wrong of [{ html: true }, { status: 500 }, { flip: prefix + 4 * MiB + 7 }]) {
      server.faults = ({ range = '-' }) =>
        Number(range.split('-')[1] || Infinity) > prefix + 4 * MiB ? wrong : undefined;
      await assert.rejects(load(), (/** @type {any} */ error) =>
        ['NOT_A_MODEL', 'CHANGED', 'CHECKSUM', 'TRUNCATED', 'HTTP_STATUS', 'NETWORK'].includes(error.code),
      );
      const [{ cachedBytes }] = await engine.store.list();
      // Beside a damaged chunk others may have come that are not.
      const most = wrong.flip ? bytes.length - MiB : prefix + 4 * MiB;
      assert.ok(cachedBytes <= most, `${cachedBytes} bytes kept`);
    }
    server.faults = [];
    const healed = await load();
    await engine.store.clear();
    assert.equal(await load(), healed);
  });

  test(`${where}: a v1 file is loaded, with a notice that it isn't cached`, async (t) => {
    const { server, engine } = await setUp(t, create);
    const { file, json } = await v1({ ...CONFIG, hidden: 64, ffn: 96 });
    const companion = new TextEncoder().encode(JSON.stringify(json));
    server.faults = ({ path }) => ({ file: path.endsWith('.json') ? companion : file });
    let problem = '';
    const model = await engine.load(server.url, {
      onProgress: ({ cacheProblem }) => (problem = cacheProblem || problem),
    });
    assert.match(problem, /not stored.*hashes/);
    assert.deepEqual(
      [await engine.store.list(), (await engine.plan(server.url)).cached],
      [[], { bytes: 0, complete: false }],
    );
    await model.close();
  });
}

/** @param {Awaited<ReturnType<typeof faultServer>>} server */
function assertFetchedOnce(server) {
  let served = 0;
  for (const { range } of server.requests) {
    const [from, to] = /=(\d+)-(\d+)/.exec(range).slice(1).map(Number);
    if (from >= prefix) served += Math.min(to + 1, bytes.length) - from;
  }
  assert.ok(served <= bytes.length, `${served} bytes were asked for`);
}

test('two loads of one file share a download', async (t) => {
  const { server, load } = await setUp(t, createEngine, { step: 32768 });
  const [one, two] = await Promise.all([load(), load()]);
  assert.equal(one, two);
  assertFetchedOnce(server);
});

test('two loads share a download by any spelling of the folder, also after the program has changed its folder', async (t) => {
  const { path, server, load } = await setUp(t, createEngine, { step: 32768 });
  const folder = process.cwd();
  t.after(() => process.chdir(folder));
  symlinkSync(path, join(path, 'link'));
  process.chdir(path);
  const options = /** @type {const} */ ({ build: 'simd128', threads: 1 });
  const engines = await Promise.all(['.', join(path, 'link')].map((cache) => createEngine({ ...options, cache })));
  t.after(() => Promise.all(engines.map((engine) => engine.close())));
  process.chdir(String(mkdirSync(join(path, 'other'), { recursive: true })));
  await Promise.all(engines.map((engine) => load({}, engine)));
  assertFetchedOnce(server);
  const [{ complete }] = await engines[0].store.list();
  assert.ok(complete);
});

test('chunks that arrive out of order are stored too; an end loses only the chunks in progress', async (t) => {
  const { server, engine } = await setUp(t, createEngine);
  // The first range stops in the first chunk; others come in full, one of their chunks damaged.
  server.faults = ({ from }) => (from === 65536 ? { hold: prefix + MiB / 2 } : { flip: prefix + 5 * MiB + 7 });
  const controller = new AbortController();
  const loading = engine.load(fromUrl(server.url, QUICK), { signal: controller.signal });
  loading.catch(() => {});
  const kept = async () => ((await engine.store.list())[0]?.cachedBytes ?? 0) - prefix;
  await until('seven chunks to be kept', async () => (await kept()) >= 7 * MiB, { state: kept });
  assert.equal(await kept(), 7 * MiB, 'eight beside the first fit in memory, one is damaged');
  controller.abort();
  await assert.rejects(loading, { name: 'AbortError' });
  server.faults = [];
  server.forget();
  await (await engine.load(fromUrl(server.url, QUICK))).close();
  assert.equal(server.sent, bytes.length - prefix - 7 * MiB);
});

test('a load that waits for a header of another one continues when that ends or times out, and can be aborted', async (t) => {
  const file = await tinyModel({ card: `# Long\n${'Noise. '.repeat(60_000)}` });
  const { server, path } = await setUp(t, createEngine);
  server.files['*'] = file;
  const rest = () => server.requests.filter(({ range }) => range.startsWith('bytes=65536-')).length;
  for (const ends of [true, false]) {
    // Where it ends no stall timeout does; where it doesn't, that of the others is at its end at once.
    const engine = await createEngine({
      build: 'simd128',
      threads: 1,
      cache: { path, stallTimeout: ends ? 600_000 : 1 },
    });
    t.after(() => engine.close());
    await engine.store.clear();
    let waiting = 0;
    const store = /** @type {any} */ (engine.store);
    const { turn } = store;
    store.turn = (/** @type {any[]} */ ...args) => (waiting++, turn.apply(store, args).finally(() => waiting--));
    server.forget();
    server.faults = () => (rest() === 1 ? { hold: 65536 } : undefined);
    const controllers = [1, 2, 3].map(() => new AbortController());
    const load = (/** @type {AbortController} */ { signal }) => {
      const loading = engine.load(fromUrl(server.url, QUICK), { signal });
      loading.catch(() => {});
      return loading;
    };
    const first = load(controllers[0]);
    await until('the first to have its turn', () => rest() === 1);
    const [second, third] = [load(controllers[1]), load(controllers[2])];
    if (ends) {
      await until('the others to wait', () => waiting === 2, { state: () => waiting });
      assert.equal(rest(), 1);
    }
    controllers[1].abort();
    await assert.rejects(second, { name: 'AbortError' });
    if (ends) controllers[0].abort();
    await (await third).close();
    controllers[0].abort();
    await assert.rejects(first, { name: 'AbortError' });
    if (ends) assert.equal(rest(), 2);
  }
});

test('a cache that is too small fails no load and is reported', async (t) => {
  const { path, server } = await setUp(t, createEngine);
  const engine = await createEngine({ build: 'simd128', threads: 1, cache: { path, name: 'small', maxBytes: MiB } });
  let last;
  await (await engine.load(server.url, { onProgress: (p) => (last = p) })).close();
  assert.equal(last.phase, 'ready');
  assert.match(last.cacheProblem, /more than maxBytes of the cache/);
  await engine.close();
});

test('an engine closes only a store that it has opened; a worker opens its own store', async (t) => {
  const { path, server } = await setUp(t, createEngine);
  const store = await openStore({ path, name: 'mine' });
  const engine = await createEngine({ build: 'simd128', threads: 1, cache: store });
  assert.equal(engine.store, store);
  const entry = await store.open({
    url: server.url,
    prefix: new Uint8Array(50),
    fileId: '1',
    fileBytes: 100,
    prefixBytes: 50,
  });
  await engine.close();
  assert.equal(await entry.writePrefix(new Uint8Array(50)), true, 'still open');
  await assert.rejects(createWorkerEngine({ cache: store }), { code: 'ARGUMENT' });
  await store.close();
  const without = await createEngine({ threads: 1 });
  assert.equal(without.store, null);
  await without.close();
});

test('20 loads, some of them aborted, leave no handle open and the store unchanged', async (t) => {
  const { server, engine, load } = await setUp(t, createEngine);
  await load();
  const count = () => process.getActiveResourcesInfo().filter((name) => name !== 'Timeout' && !/TCP/.test(name)).length;
  const stored = await engine.store.usage();
  const before = await settled(count);
  for (let i = 0; i < 20; i++) {
    const controller = new AbortController();
    // Aborted at one event of its progress after the other, where it has so many.
    let events = i % 4 === 3 ? (i + 1) / 4 : Infinity;
    const onProgress = () => --events === 0 && controller.abort();
    await load({ signal: controller.signal, onProgress }).catch((error) => assert.equal(error.name, 'AbortError'));
  }
  await until(`no more than ${before} handles`, () => count() <= before, { state: count });
  assert.deepEqual(await engine.store.usage(), stored);
  await engine.store.clear();
  assert.deepEqual(await engine.store.list(), [], 'nothing is in use');
  assert.ok(server.requests.length > 0);
});

for (const [where, create] of Object.entries(KINDS)) {
  test(`${where}: larger than the budget from an address, read from the cache: the same tokens`, async (t) => {
    const { server, engine, load, folder } = await setUp(t, create);
    const options = { contextTokens: 128, kv: /** @type {const} */ ('i8') };
    const first = await load(options);
    const [{ key }] = await engine.store.list();
    await engine.store.delete(key);
    const whole = await engine.plan(server.url, options);
    const budget = whole.heapBytes - Math.floor(whole.weightBytes * 0.4);
    assert.equal((await engine.plan(server.url, { ...options, memoryBudget: budget })).gaveUp.at(-1).what, 'residency');
    for (const there of [false, true]) {
      server.forget();
      const model = await engine.load(server.url, { ...options, memoryBudget: budget });
      assert.equal(server.requests.length === 0, there);
      assert.equal(model.info.residency, 'paged');
      await assert.rejects(engine.store.delete(key), { code: 'IN_USE' }, 'it is read for every token');
      const session = await model.createSession();
      const { tokens: ids } = await session.generate('the quick', { temperature: 0, maxTokens: 4 }).result;
      assert.equal(ids.join(), first);
      await model.close();
    }
    harm(join(folder(), 's0'), 4 * MiB);
    assert.equal(await load({ ...options, memoryBudget: budget }), first, 'healed, then read');
    await engine.store.delete(key);
  });
}

test('a model that fits neither into memory nor into the cache is refused', async (t) => {
  const { path, server } = await setUp(t, createEngine);
  const engine = await createEngine({ build: 'simd128', threads: 1, cache: { path, name: 'small', maxBytes: MiB } });
  const options = { contextTokens: 128, kv: /** @type {const} */ ('i8') };
  const whole = await engine.plan(server.url, options);
  const budget = whole.heapBytes - Math.floor(whole.weightBytes * 0.4);
  await assert.rejects(engine.load(server.url, { ...options, memoryBudget: budget }), {
    code: 'NOMEM',
    message: /more than maxBytes of the cache/,
  });
  await engine.close();
});

test('a store that stores nothing does not hold up loads, also from a server without ranges', async (t) => {
  const { server, load, path } = await setUp(t, createEngine, { status: 200 });
  const expected = await load();
  for (const cache of [
    '/dev/null',
    { path: join(path, 'empty'), maxBytes: 0 },
    { path: join(path, 'small'), maxBytes: MiB },
  ]) {
    const engine = await createEngine({ threads: 1, cache });
    t.after(() => engine.close());
    server.faults = [];
    assert.equal(await load({}, engine), expected);
    server.faults = [{ status: 200 }];
    for (let visits = 0; visits < 2; visits++) assert.equal(await load({}, engine), expected);
  }
});
