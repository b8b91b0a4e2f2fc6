// Tests of reads of Blobs to which a browser does not respond.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readBlob } from '../../js/shared/blob-bytes.js';
import { createEngine } from '../../js/engine/create.js';
import { fromBlob } from '../../js/index.js';
import { openReader } from '../../js/storage/sources/reader.js';
import { openSource } from '../../js/storage/sources/index.js';
import { setTimeouts } from './timeouts.mjs';

const BYTES = Uint8Array.from({ length: 1000 }, (_, i) => i);

/** A Blob of which some reads never end, as in a worker of Firefox. */
class HangingBlob extends Blob {
  reads = 0;
  /** @param {number} hanging  reads that never end, from the first on */
  constructor(hanging) {
    super([BYTES]);
    this.hanging = hanging;
  }
  /** @param {number} from @param {number} to @override */
  slice(from, to) {
    if (this.reads++ >= this.hanging) return super.slice(from, to);
    return /** @type {any} */ ({ arrayBuffer: () => new Promise(() => {}) });
  }
}

test('a read that does not settle is started again, as often as necessary', async (t) => {
  setTimeouts(t, { blobRead: 1 });
  const blob = new HangingBlob(3);
  assert.deepEqual(await readBlob(blob, 5, 20), BYTES.slice(5, 20));
  assert.ok(blob.reads >= 4);
});

test('a timeout beyond the range of timers starts no second read', async (t) => {
  /** @type {unknown[]} */
  const waits = [];
  t.mock.method(globalThis, 'setTimeout', (/** @type {unknown} */ _, /** @type {unknown} */ ms) => void waits.push(ms));
  for (const blobRead of [2 ** 31, 1e12, Infinity, 2 ** 31 - 1]) {
    setTimeouts(t, { blobRead });
    assert.deepEqual(await readBlob(new HangingBlob(0)), BYTES);
  }
  assert.deepEqual(waits, [2 ** 31 - 1]);
});

test('a successful read runs once; a failed read rejects immediately', async (t) => {
  setTimeouts(t, { blobRead: Infinity });
  const blob = new HangingBlob(0);
  assert.deepEqual(await readBlob(blob), BYTES);
  assert.deepEqual(await readBlob(blob, 990, 2000), BYTES.slice(990));
  assert.equal(blob.reads, 2);
  const unreadable = /** @type {any} */ ({
    size: 4,
    slice: () => ({ arrayBuffer: () => Promise.reject(new Error('gone')) }),
  });
  await assert.rejects(readBlob(unreadable), /^Error: gone$/);
});

test('models from Blobs are read with retries, complete and in pages', async (t) => {
  setTimeouts(t, { blobRead: 1 });
  const source = await openSource(fromBlob(new HangingBlob(1)));
  const pieces = [];
  for await (const piece of source.stream(10, 500)) pieces.push(...piece);
  assert.deepEqual(Uint8Array.from(pieces), BYTES.slice(10, 500));
  const reader = await openReader(fromBlob(new HangingBlob(2)));
  assert.deepEqual(await reader.read(7, 100, () => new Uint8Array(0)), BYTES.slice(7, 107));
});

test('an abort immediately ends a wait for a read or a handle, and starts no other read', async (t) => {
  setTimeouts(t, { blobRead: 1 });
  const engine = await createEngine({ threads: 1 });
  const never = { kind: 'file', name: 'x.bq4', getFile: () => new Promise(() => {}) };
  const late = new Blob([BYTES]);
  /** @type {Record<string, () => any>} */
  const sources = {
    'a Blob': () => new HangingBlob(Infinity),
    'a handle': () => never,
    'a handle of such a Blob': () => ({ ...never, getFile: async () => new HangingBlob(Infinity) }),
    'a folder': () => [Object.assign(new HangingBlob(Infinity), { name: 'config.json' }), late],
    'a list': () => [new HangingBlob(Infinity), late],
  };
  for (const [name, source] of Object.entries(sources))
    for (const call of /** @type {const} */ (['load', 'plan'])) {
      const controller = new AbortController();
      const given = source();
      const end = engine[call](given, { signal: controller.signal });
      let isSettled = false;
      end.catch(() => {}).finally(() => (isSettled = true));
      // Some turns, in which reads are begun anew.
      for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
      assert.ok(!isSettled, `${name}: ${call} waits`);
      controller.abort(new Error('enough'));
      await assert.rejects(end, { message: 'enough' }, `${name}: ${call}`);
    }
  await engine.close();
});
