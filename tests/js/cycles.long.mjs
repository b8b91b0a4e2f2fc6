// Tests of twenty loads and closes, with threads, cache and paging: heap, threads, open files and storage are the same afterwards. Only
// Linux reports the resources of a process; other systems are skipped.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromUrl } from '../../js/index.js';
import { tinyModel } from './fixture.mjs';
import { faultServer } from '../server/faults.mjs';

const ROUNDS = 20;
const skip = existsSync('/proc/self/task') ? false : 'no /proc';
const bytes = await tinyModel({ config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } });
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

/** Files of the folder that are open. @param {string} folder */
const openFiles = (folder) =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(folder) ? [path] : [];
    } catch {
      return []; // the one that lists them
    }
  });

const threads = () => readdirSync('/proc/self/task').length;
const rss = () => 4096 * Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[1]);

/**
 * What this process has, when all that was let go of has gone: workers and their memory go when the system gets round to it.
 * @param {string} folder
 * @param {{ threads: number, rss: number }} [before]
 */
async function count(folder, before = { threads: Infinity, rss: Infinity }) {
  for (let i = 0; i < 3 || (i < 100 && (threads() > before.threads || rss() > before.rss)); i++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  return { rss: rss(), threads: threads(), files: openFiles(folder) };
}

/** @param {Awaited<ReturnType<typeof count>>} before @param {Awaited<ReturnType<typeof count>>} after @param {number} heap  of one model */
function same(before, after, heap) {
  assert.deepEqual(after.files, []);
  assert.ok(after.threads <= before.threads, `${after.threads} threads, ${before.threads} before`);
  const grown = after.rss - before.rss;
  // What each leaves behind would add up to 20; allocators keep a few, more of them when threads are interrupted.
  assert.ok(
    grown < 5 * heap,
    `${(grown / 2 ** 20).toFixed(1)} MiB more after ${ROUNDS} heaps of ${(heap / 2 ** 20).toFixed(1)} MiB`,
  );
}

/** @param {import('node:test').TestContext} t @param {typeof createEngine} create */
async function setUp(t, create) {
  const path = mkdtempSync(join(tmpdir(), 'bq4-cycles-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  const server = await faultServer(bytes);
  t.after(server.close);
  const source = fromUrl(server.url, { retries: 1, retryDelay: 1 });
  const open = () => create({ build: 'simd128', threads: 2, cache: path });
  const options = { contextTokens: 128, kv: /** @type {const} */ ('i8') };
  /** @param {Awaited<ReturnType<typeof open>>} engine @param {number} round */
  const load = async (engine, round) => {
    const plan = await engine.plan(source, options);
    const budget = plan.heapBytes - Math.floor(plan.weightBytes * 0.4);
    const controller = new AbortController();
    if (round % 5 === 4) setTimeout(() => controller.abort(), round);
    const model = await engine
      .load(source, { ...options, ...(round % 2 && { memoryBudget: budget }), signal: controller.signal })
      .catch((error) => {
        assert.equal(error.name, 'AbortError');
      });
    if (!model) return plan.heapBytes;
    assert.equal(model.info.residency, round % 2 ? 'paged' : 'resident');
    const session = await model.createSession();
    await session.generate('the quick', { maxTokens: 4 }).result;
    assert.ok(openFiles(path).length || !model.info.paging, 'what a paged model reads can be counted');
    await model.close();
    return plan.heapBytes;
  };
  return { path, open, load };
}

test(`${ROUNDS} models in one engine: threads, cache and pages`, { skip }, async (t) => {
  const { path, open, load } = await setUp(t, createEngine);
  const engine = await open();
  t.after(() => engine.close());
  assert.equal(engine.info.threads, 2);
  const heap = await load(engine, 0);
  for (let round = 0; round < 4; round++) await load(engine, round);
  const [before, stored] = [await count(path), await engine.store.usage()];
  for (let round = 0; round < ROUNDS; round++) await load(engine, round);
  same(before, await count(path, before), heap);
  assert.deepEqual(await engine.store.usage(), stored);
  await engine.store.clear();
  assert.deepEqual(await engine.store.list(), [], 'nothing is in use');
});

test(`${ROUNDS} engines in workers, each with a model`, { skip }, async (t) => {
  const { path, open, load } = await setUp(t, createWorkerEngine);
  let heap = 0;
  const round = async (/** @type {number} */ i) => {
    const engine = await open();
    heap = await load(engine, i);
    await engine.close();
  };
  for (let i = 0; i < 4; i++) await round(i);
  const before = await count(path);
  for (let i = 0; i < ROUNDS; i++) await round(i);
  same(before, await count(path, before), heap);
});
