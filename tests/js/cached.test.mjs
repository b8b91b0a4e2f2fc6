// Tests of loading with a cache: cached bytes are not fetched, damaged ones are, and no problem of the cache fails a load.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromUrl } from '../../js/node.js';
import { tinyModel } from './fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';

const MiB = 1 << 20;
const bytes = await tinyModel({ config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } });
const prefix = Number(new DataView(bytes.buffer).getBigUint64(24, true));
const chunks = Math.ceil((bytes.length - prefix) / MiB);
const QUICK = { retries: 1, retryDelay: 1 };

/** The least that a cache has to do: a Map. */
function mapCache() {
  const files = new Map();
  const cache = {
    files,
    open_: 0,
    full: Infinity,
    find: async (url) => {
      const file = files.get(url);
      if (!file?.prefix) return null;
      const cachedBytes = [...file.parts.values()].reduce((sum, part) => sum + part.length, file.prefixBytes);
      return { ...file, cachedBytes, complete: cachedBytes === file.fileBytes };
    },
    open: async ({ url, fileId, fileBytes, prefixBytes }) => {
      const file = files.get(url) ?? { fileId: String(fileId), fileBytes, prefixBytes, prefix: null, parts: new Map() };
      if (file.fileId !== String(fileId))
        Object.assign(file, { fileId: String(fileId), prefix: null, parts: new Map() });
      files.set(url, file);
      cache.open_++;
      const entry = {
        problem: null,
        chunks: Math.ceil((fileBytes - prefixBytes) / MiB),
        has: (c) => file.parts.has(c),
        read: async (c) => file.parts.get(c)?.slice() ?? null,
        write: async (c, part) => {
          if (file.parts.has(c)) return; // only what was dropped is written again
          if (file.parts.size >= cache.full) return void (entry.problem = new Error('storage is full'));
          file.parts.set(c, part.slice());
        },
        drop: async (c) => void (c === 0xffffffff ? (file.prefix = null) : file.parts.delete(c)),
        writePrefix: async (part) => void (file.prefix = part.slice()),
        close: async () => void cache.open_--,
      };
      return entry;
    },
  };
  return cache;
}

async function setUp(t, faults = {}) {
  const cache = mapCache();
  const engine = await createEngine({ build: 'simd128', threads: 1, cache });
  const server = await faultServer(bytes, faults);
  t.after(() => engine.close());
  t.after(server.close);
  const load = async (options = {}) => {
    const model = await engine.load(fromUrl(server.url, QUICK), options);
    const session = await model.createSession();
    const { tokens: ids } = await session.generate('the quick', { temperature: 0, maxTokens: 4 }).result;
    await model.close();
    return ids.join();
  };
  return { cache, engine, server, load, file: () => cache.files.get(server.url) };
}

test('the second load sends no request, and its plan reports the cached bytes', async (t) => {
  const { cache, engine, server, load, file } = await setUp(t);
  assert.deepEqual((await engine.plan(fromUrl(server.url))).cached, { bytes: 0, complete: false });
  const first = await load();
  assert.equal(file().parts.size, chunks);
  assert.equal(cache.open_, 0, 'closed with the model');
  await server.close();
  assert.deepEqual((await engine.plan(fromUrl(server.url))).cached, { bytes: bytes.length, complete: true });
  assert.equal(await load(), first);
});

test('only missing and damaged chunks are fetched', async (t) => {
  const { server, load, file } = await setUp(t);
  const first = await load();
  server.forget();
  file().parts.delete(3);
  file().parts.delete(4);
  file().parts.get(8)[1000] ^= 1;
  file().parts.set(10, file().parts.get(10).slice(0, 500)); // torn
  assert.equal(await load(), first);
  const asked = server.requests.map(({ range }) => /=(\d+)-(\d+)/.exec(range).slice(1).map(Number));
  const at = (c) => prefix + c * MiB;
  assert.deepEqual(
    asked.sort(([a], [b]) => a - b),
    [
      [at(3), at(5) - 1],
      [at(8), at(9) - 1],
      [at(10), at(11) - 1],
    ],
  );
  server.forget();
  assert.equal(await load(), first);
  assert.equal(server.requests.length, 0, 'it has healed');
});

test('a damaged prefix in the cache is fetched again', async (t) => {
  const { server, load, file } = await setUp(t);
  const first = await load();
  for (const at of [100, prefix - 200]) {
    server.forget();
    file().prefix[at] ^= 1;
    assert.equal(await load(), first);
    assert.ok(server.requests.length > 0 && server.requests.every(({ range }) => range.startsWith('bytes=0-')));
    file().prefix[at] = bytes[at];
  }
});

test('another file at the address of a partly cached one replaces it', async (t) => {
  const { cache, engine, server, load, file } = await setUp(t);
  const first = await load();
  file().parts.delete(5);
  server.files['*'] = await tinyModel({
    config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 },
    seed: 3,
  });
  const streamed = await engine.load(fromUrl(server.url, QUICK), { streaming: true });
  await assert.rejects(streamed.loaded, { code: 'CHANGED' });
  await streamed.close();
  const second = await load();
  assert.notEqual(second, first);
  file().parts.delete(5);
  server.files['*'] = bytes;
  assert.equal(await load(), first, 'found out and loaded anew in one go');
  assert.equal(cache.open_, 0);
});

test('a load after an aborted one continues with the cached chunks', async (t) => {
  const { server, load, file } = await setUp(t, { step: 16384 });
  const controller = new AbortController();
  const stop = ({ loaded }) => loaded > 11 * MiB && controller.abort();
  await assert.rejects(load({ signal: controller.signal, onProgress: stop }), { name: 'AbortError' });
  const kept = [...file().parts.keys()];
  assert.ok(kept.length >= 1 && kept.length < chunks);
  server.forget();
  await load();
  for (const { range } of server.requests) {
    const [from, to] = /=(\d+)-(\d+)/.exec(range).slice(1).map(Number);
    assert.ok(!kept.some((c) => from < prefix + (c + 1) * MiB && to >= prefix + c * MiB), `${range} was there`);
  }
});

test('a full cache fails no load and is reported', async (t) => {
  const { cache, load } = await setUp(t);
  cache.full = 2;
  let last;
  await load({ onProgress: (p) => (last = p) });
  assert.equal(last.phase, 'ready');
  assert.match(last.cacheProblem, /full/);
});

test('20 loads, some of them aborted, leave memory, handles and cache unchanged', async (t) => {
  const { cache, engine, server, load } = await setUp(t);
  await load();
  const count = () => process.getActiveResourcesInfo().filter((name) => name !== 'Timeout' && !/TCP/.test(name)).length;
  let before = count();
  for (let turn = 0; turn < 100; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    before = Math.min(before, count()); // what ends of itself
  }
  for (let i = 0; i < 20; i++) {
    if (i % 4 === 3) {
      const controller = new AbortController();
      // Aborted at one event of its progress after the other, where it has so many.
      let events = (i + 1) / 4;
      const onProgress = () => --events === 0 && controller.abort();
      const loading = engine.load(fromUrl(server.url, QUICK), { signal: controller.signal, onProgress });
      await loading.then(
        (m) => m.close(),
        (e) => assert.equal(e.name, 'AbortError'),
      );
    } else await load();
  }
  await until(`no more than ${before} handles`, () => count() <= before, { state: count });
  assert.equal(cache.open_, 0);
  assert.equal(cache.files.size, 1);
});
