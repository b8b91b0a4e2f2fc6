// A model-based test of the cache: random loads from a server with faults, while files of the cache are damaged and deleted. The model has
// the versions of the file that each address has served and their stored chunks. From these follow the bytes that may be requested, the
// tokens that may be generated, and whether a load may fail.
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
/**
 * A version of a file. `ids`: tokens that its model generates; `parts`: its header and its chunks, each with its XXH64.
 * @typedef {{ bytes: Uint8Array, prefixBytes: number, ids: string, parts: [Uint8Array, bigint][] }} Version
 */

const CHUNK = 1 << 20;
const PATHS = ['/one.bq4', '/two.bq4'];
const CONFIG = { layers: 4, hidden: 128, ffn: 512, heads: 4, kv_heads: 2 };
const QUICK = { retries: 2, retryDelay: 1 };
/** Codes of errors of a load that fails because of faults. */
const CODES = ['NETWORK', 'HTTP_STATUS', 'TRUNCATED', 'CHANGED', 'CHECKSUM', 'NOT_A_MODEL', 'FORMAT', 'EXPIRED'];

/** Three files of 4 MB. @returns {Promise<Version[]>} */
export async function makeVersions() {
  const engine = await createEngine({ threads: 1 });
  const versions = [];
  for (const seed of [1, 2, 3]) {
    const bytes = await tinyModel({ config: CONFIG, seed });
    const prefixBytes = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(24, true));
    const model = await engine.load({ kind: 'bytes', bytes });
    const starts = [0];
    for (let at = prefixBytes; at < bytes.length; at += CHUNK) starts.push(at);
    const parts = starts
      .map((at, k) => bytes.subarray(at, starts[k + 1]))
      .map((part) => /** @type {[Uint8Array, bigint]} */ ([part, xxh64(part)]));
    versions.push({ bytes, prefixBytes, ids: await generateTokens(model), parts });
    await model.close();
  }
  await engine.close();
  return versions;
}

/** @param {any} model */
async function generateTokens(model) {
  const { tokens } = await model.generate('the quick', { temperature: 0, maxTokens: 4 }).result;
  return tokens.join();
}

/** Random faults of a server. `recoverable`: a load succeeds in spite of them. @param {(n: number) => number} next @param {number} size  of the file */
function randomFaults(next, size) {
  const at = next(size);
  /** @type {[recoverable: boolean, faults: Fault[]][]} */
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
  const [recoverable, faults] = kinds[next(kinds.length)];
  return { recoverable, faults };
}

/** All files of a folder. @param {string} folder @returns {string[]} */
const filesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

/** @param {Uint8Array} a @param {Uint8Array} b */
const same = (a, b) => Buffer.from(a).equals(b);

/**
 * Runs a random sequence of steps and compares the cache with the model after each.
 * @param {number} seed @param {number} length  number of steps
 * @param {Version[]} versions
 */
export async function runCacheSequence(seed, length, versions) {
  const next = drawFrom(seed);
  const folder = mkdtempSync(join(tmpdir(), 'bq4-cache-model-'));
  const server = await faultServer({ [PATHS[0]]: versions[0].bytes, [PATHS[1]]: versions[1].bytes });
  const urls = PATHS.map((path) => server.at(path));
  /** For each address, the version that it serves, and all versions that it has served. */
  const state = PATHS.map((_, i) => ({ current: versions[i], history: new Set([versions[i]]) }));
  const log = /** @type {string[]} */ ([]);
  const create = () => createEngine({ build: 'simd128', threads: 1, cache: { backend: 'file', path: folder } });
  let engine = await create();
  /** Whether the test has damaged files in the folder. */
  let damaged = false;

  /** XXH64 of a part of a version; 0 for other bytes. @param {Uint8Array} bytes */
  const hash = (bytes) => versions.flatMap(({ parts }) => parts).find(([part]) => same(part, bytes))?.[1] ?? 0n;

  /** The stored, intact chunks of an address, read with a store of its own. @param {number} i @returns {Promise<{ version: Version | undefined, chunks: Set<number> }>} */
  const readCache = async (i) => {
    const store = await openStore({ backend: 'file', path: folder, hash });
    try {
      const file = await store.find(urls[i]);
      if (!file) return { version: undefined, chunks: new Set() };
      const version = versions.find(({ bytes }) => same(bytes.subarray(0, file.prefixBytes), file.prefix));
      assert.ok(
        version && state[i].history.has(version),
        'expected the stored header of a version that the address has served',
      );
      const entry = await store.open({ url: urls[i], ...file });
      /** @type {Set<number>} */
      const chunks = new Set();
      for (let c = 0; c < entry.chunks; c++) {
        const bytes = entry.has(c) ? await entry.read(c) : null;
        if (!bytes || !(await entry.intact(c, bytes))) continue;
        assert.ok(same(bytes, version.parts[1 + c][0]), `chunk ${c}: expected the bytes of the version's chunk`);
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
      const { current, history } = state[i];
      const before = await readCache(i);
      const { recoverable, faults } = randomFaults(next, current.bytes.length);
      log.push(
        `load ${i} ${JSON.stringify(faults)} with ${[...before.chunks]} of version ${before.version ? versions.indexOf(before.version) : '-'}`,
      );
      server.faults = faults;
      server.forget();
      const complete = before.version && before.chunks.size === before.version.parts.length - 1;
      try {
        const model = await engine.load(fromUrl(urls[i], QUICK));
        const ids = await generateTokens(model);
        await model.close();
        const version = versions.find((entry) => entry.ids === ids);
        assert.ok(version, `expected the tokens of a version, found ${ids}`);
        assert.ok(
          version === current || (version === before.version && history.has(version)),
          'expected the tokens of the current or of the stored version',
        );
        const after = await readCache(i);
        assert.equal(after.version, version, 'the loaded version is stored');
        if (!damaged || version === before.version)
          assert.equal(after.chunks.size, version.parts.length - 1, 'all of its chunks are stored');
        // Stored, intact chunks are not requested again.
        if (version === before.version && !faults.length)
          for (const { range, path } of server.requests) {
            const [, from, to] = /bytes=(\d+)-(\d*)/.exec(range ?? '') ?? [];
            if (path !== PATHS[i] || !from || Number(to) < version.prefixBytes) continue;
            const first = Math.floor((Number(from) - version.prefixBytes) / CHUNK);
            assert.ok(first < 0 || !before.chunks.has(first), `chunk ${first} was requested, although it was stored`);
          }
        if (complete && !damaged) assert.deepEqual(server.requests, [], 'no request, since all chunks were stored');
      } catch (/** @type {any} */ error) {
        if (error.code === 'ERR_ASSERTION') throw error;
        assert.ok(CODES.includes(error.code), `${error.code ?? error.stack}`);
        const changed = before.version && before.version !== current;
        assert.ok(!recoverable || changed, `expected the load to succeed, found ${error.code}: ${error.message}`);
        assert.ok(!complete || damaged, `${error.code}, although all chunks were stored`);
      }
    },
    async replace() {
      const i = next(2);
      const version = versions[next(versions.length)];
      log.push(`replace ${i} by version ${versions.indexOf(version)}`);
      state[i].current = version;
      state[i].history.add(version);
      server.files[PATHS[i]] = version.bytes;
    },
    async damage() {
      const files = filesIn(folder).filter((path) => statSync(path).size > 0);
      if (!files.length) return;
      const path = files[next(files.length)];
      const { size } = statSync(path);
      const how = next(3);
      log.push(`damage ${how} ${path.slice(folder.length)} of ${size}`);
      damaged = true;
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
      assert.ok(!(await engine.store.list()).some((file) => file.key === key), 'a deleted file is not listed');
    },
    async abort() {
      const i = next(2);
      log.push(`abort ${i}`);
      server.faults = [];
      const controller = new AbortController();
      const minBytes = next(4_000_000);
      const onProgress = (/** @type {{ loaded: number }} */ { loaded }) => loaded >= minBytes && controller.abort();
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
      for (const i of [0, 1]) await readCache(i);
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
