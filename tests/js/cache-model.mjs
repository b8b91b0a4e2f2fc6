// Random loads through the cache, from a server that misbehaves, with files of the cache damaged and deleted between them, compared with a
// small model: which versions of a file each address has had, which of their chunks are kept, and so which bytes may be asked for, which
// tokens may come, and when a load may fail at all.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEngine, fromUrl } from '../../js/node.js';
import { openStore } from '../../js/storage/cache/index.js';
import { faultServer } from '../server/faults.mjs';
import { drawFrom } from './random-numbers.mjs';
import { tinyModel } from './fixture.mjs';
import { xxh64 } from './xxh64.mjs';

/** @typedef {import('../server/faults.mjs').Fault} Fault */
/** `pieces`: its prefix and its chunks, with their XXH64. @typedef {{ bytes: Uint8Array, prefixBytes: number, ids: string, pieces: [Uint8Array, bigint][] }} Version */

const CHUNK = 1 << 20;
const PATHS = ['/one.bq4', '/two.bq4'];
const CONFIG = { layers: 4, hidden: 128, ffn: 512, heads: 4, kv_heads: 2 };
const QUICK = { retries: 2, retryDelay: 1 };
/** How a load that could not go well ends. */
const CODES = ['NETWORK', 'HTTP_STATUS', 'TRUNCATED', 'CHANGED', 'CHECKSUM', 'NOT_A_MODEL', 'FORMAT', 'EXPIRED'];

/** Files of 4 MB, and what each says. @returns {Promise<Version[]>} */
export async function makeVersions() {
  const engine = await createEngine({ threads: 1 });
  const versions = [];
  for (const seed of [1, 2, 3]) {
    const bytes = await tinyModel({ config: CONFIG, seed });
    const prefixBytes = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(24, true));
    const model = await engine.load({ kind: 'bytes', bytes });
    const cuts = [0];
    for (let at = prefixBytes; at < bytes.length; at += CHUNK) cuts.push(at);
    const parts = cuts.map((at, k) => bytes.subarray(at, cuts[k + 1]));
    const pieces = parts.map((part) => /** @type {[Uint8Array, bigint]} */ ([part, xxh64(part)]));
    versions.push({ bytes, prefixBytes, ids: await message(model), pieces });
    await model.close();
  }
  await engine.close();
  return versions;
}

/** @param {any} model */
async function message(model) {
  const { tokens } = await model.generate('the quick', { temperature: 0, maxTokens: 4 }).result;
  return tokens.join();
}

/** What a server may do wrong: `healed` are those after which a load goes well. @param {(n: number) => number} next @param {number} size */
function faultOf(next, size) {
  const at = next(size);
  /** @type {[healed: boolean, faults: Fault[]][]} */
  const kinds = [
    [true, []],
    [true, []],
    [true, [{ status: 200 }]],
    [true, [{ drop: at, times: 1 }]],
    [true, [{ flip: Math.max(at, 20_000), times: 1 }]],
    [true, [{ nth: next(4), status: 503 }]],
    [true, [{ truncate: at, times: 1 }]],
    [false, [{ drop: at }]],
    [false, [{ flip: Math.max(at, 20_000) }]],
    [false, [{ status: 404 }]],
    [false, [{ nth: [1, 2, 3, 4, 5, 6], status: 500 }]],
    [false, [{ html: true }]],
  ];
  const [healed, faults] = kinds[next(kinds.length)];
  return { healed, faults };
}

/** All files of a folder. @param {string} folder @returns {string[]} */
const filesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

/** @param {Uint8Array} a @param {Uint8Array} b */
const same = (a, b) => Buffer.from(a).equals(b);

/**
 * @param {number} seed @param {number} length  steps
 * @param {Version[]} versions
 */
export async function runCacheSequence(seed, length, versions) {
  const next = drawFrom(seed);
  const folder = mkdtempSync(join(tmpdir(), 'bq4-cache-model-'));
  const server = await faultServer({ [PATHS[0]]: versions[0].bytes, [PATHS[1]]: versions[1].bytes });
  const urls = PATHS.map((path) => server.at(path));
  /** Of each address: what is there now, and all that was there. */
  const state = PATHS.map((_, i) => ({ now: versions[i], had: new Set([versions[i]]) }));
  const log = /** @type {string[]} */ ([]);
  const create = () => createEngine({ build: 'simd128', threads: 1, cache: { backend: 'file', path: folder } });
  let engine = await create();
  /** Whether anything in the folder was changed by others than the cache. */
  let harmed = false;

  /** XXH64 of what is a part of a version; else a hash of nothing. @param {Uint8Array} bytes */
  const hash = (bytes) => versions.flatMap(({ pieces }) => pieces).find(([part]) => same(part, bytes))?.[1] ?? 0n;

  /** What of a file is kept and whole, by address, as an entry of its own finds it. @param {number} i @returns {Promise<{ version: Version | undefined, chunks: Set<number> }>} */
  const kept = async (i) => {
    const store = await openStore({ backend: 'file', path: folder, hash });
    try {
      const found = await store.find(urls[i]);
      if (!found) return { version: undefined, chunks: new Set() };
      const version = versions.find(({ bytes }) => same(bytes.subarray(0, found.prefixBytes), found.prefix));
      assert.ok(version && state[i].had.has(version), 'a prefix that is kept is one that the address has had');
      const entry = await store.open({ url: urls[i], ...found });
      /** @type {Set<number>} */
      const chunks = new Set();
      for (let c = 0; c < entry.chunks; c++) {
        const bytes = entry.has(c) ? await entry.read(c) : null;
        if (!bytes || !(await entry.intact(c, bytes))) continue;
        assert.ok(same(bytes, version.pieces[1 + c][0]), `chunk ${c} is kept, and is one of another file`);
        chunks.add(c);
      }
      await entry.close();
      return { version, chunks };
    } finally {
      await store.close();
    }
  };

  /** @type {Record<string, () => Promise<void>>} */
  const steps = {
    async load() {
      const i = next(2);
      const { now, had } = state[i];
      const before = await kept(i);
      const { healed, faults } = faultOf(next, now.bytes.length);
      log.push(
        `load ${i} ${JSON.stringify(faults)} with ${[...before.chunks]} of version ${before.version ? versions.indexOf(before.version) : '-'}`,
      );
      server.faults = faults;
      server.forget();
      const complete = before.version && before.chunks.size === before.version.pieces.length - 1;
      try {
        const model = await engine.load(fromUrl(urls[i], QUICK));
        const ids = await message(model);
        await model.close();
        const version = versions.find((one) => one.ids === ids);
        assert.ok(version, 'tokens of no version');
        assert.ok(
          version === now || (version === before.version && had.has(version)),
          'tokens of a version that was not there',
        );
        const after = await kept(i);
        assert.equal(after.version, version, 'what was loaded is kept');
        if (!harmed || version === before.version)
          assert.equal(after.chunks.size, version.pieces.length - 1, 'all of it');
        // What was kept and is whole is not asked for again.
        if (version === before.version && !faults.length)
          for (const { range, path } of server.requests) {
            const [, from, to] = /bytes=(\d+)-(\d*)/.exec(range ?? '') ?? [];
            if (path !== PATHS[i] || !from || Number(to) < version.prefixBytes) continue;
            const first = Math.floor((Number(from) - version.prefixBytes) / CHUNK);
            assert.ok(first < 0 || !before.chunks.has(first), `chunk ${first} was asked for, and was there`);
          }
        if (complete && !harmed) assert.deepEqual(server.requests, [], 'all was there: nothing is asked for');
      } catch (/** @type {any} */ error) {
        if (error.code === 'ERR_ASSERTION') throw error;
        assert.ok(CODES.includes(error.code), `${error.code ?? error.stack}`);
        const changed = before.version && before.version !== now;
        assert.ok(
          !healed || changed,
          `${error.code}: a load that nothing stands in the way of fails: ${error.message}`,
        );
        assert.ok(!complete || harmed, `${error.code}, although all was there`);
      }
    },
    async replace() {
      const i = next(2);
      const version = versions[next(versions.length)];
      log.push(`replace ${i} by version ${versions.indexOf(version)}`);
      state[i].now = version;
      state[i].had.add(version);
      server.files[PATHS[i]] = version.bytes;
    },
    async damage() {
      const files = filesIn(folder).filter((path) => statSync(path).size > 0);
      if (!files.length) return;
      const path = files[next(files.length)];
      const { size } = statSync(path);
      const how = next(3);
      log.push(`damage ${how} ${path.slice(folder.length)} of ${size}`);
      harmed = true;
      if (how === 0) {
        const bytes = readFileSync(path);
        bytes[next(size)] ^= 1 << next(8);
        writeFileSync(path, bytes);
      } else if (how === 1) truncateSync(path, next(size));
      else rmSync(path);
    },
    async delete() {
      const list = await engine.store.list();
      if (!list.length) return;
      const { key } = list[next(list.length)];
      log.push(`delete ${key}`);
      await engine.store.delete(key);
      assert.ok(!(await engine.store.list()).some((file) => file.key === key), 'what was deleted is gone');
    },
    async abort() {
      const i = next(2);
      log.push(`abort ${i}`);
      server.faults = [];
      const controller = new AbortController();
      const least = next(4_000_000);
      const onProgress = (/** @type {{ loaded: number }} */ { loaded }) => loaded >= least && controller.abort();
      const loading = engine.load(fromUrl(urls[i], QUICK), { signal: controller.signal, onProgress });
      await loading.then(
        (model) => model.close(),
        (error) => assert.ok(error.name === 'AbortError' || error.code === 'CHANGED', String(error)),
      );
    },
    async restart() {
      log.push('restart');
      await engine.close();
      engine = await create();
    },
  };
  const names = ['load', 'load', 'load', 'load', 'abort', 'abort', 'replace', 'damage', 'delete', 'restart'];
  try {
    for (let n = 0; n < length; n++) {
      await steps[names[next(names.length)]]();
      for (const { cachedBytes, fileBytes } of await engine.store.list()) assert.ok(cachedBytes <= fileBytes);
      for (const i of [0, 1]) await kept(i);
    }
  } catch (/** @type {any} */ error) {
    error.message = `BQ4_SEED=${seed}: ${error.message}\nafter\n  ${log.slice(-12).join('\n  ')}`;
    throw error;
  } finally {
    await engine.close();
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
