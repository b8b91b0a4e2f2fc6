// One engine for all tabs, in Node: each tab is an engine of `bq4/shared` here, or a thread that can be frozen and killed.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createWorkerEngine, fromUrl } from '../../js/index.js';
import { createSharedEngine } from '../../js/tabs/index.js';
import { faultServer } from '../server/faults.mjs';
import { BIG, prompt } from './counted.mjs';
import { tinyModel } from './fixture.mjs';

const bytes = await tinyModel({ config: BIG, type: 'bq4' });

/** A place of its own for a test: tabs that find each other, a server with a model, a cache. @param {import('node:test').TestContext} t */
async function place(t) {
  const server = await faultServer(bytes);
  const path = mkdtempSync(join(tmpdir(), 'bq4-shared-'));
  /** @type {Worker[]} */
  const workers = [];
  /** @type {import('../../js/index.js').SharedEngine[]} */
  const engines = [];
  t.after(async () => {
    for (const engine of engines) await engine.close();
    await server.close();
    rmSync(path, { recursive: true, force: true });
  });
  const worker = () => {
    const made = new Worker(new URL('../../js/worker.js', import.meta.url));
    workers.push(made);
    return made;
  };
  return {
    server,
    /** Those that were started, one for each leader. */
    workers,
    /** @param {import('../../js/index.js').SharedOptions} [options] */
    async tab(options) {
      const engine = await createSharedEngine({ name: t.name, threads: 1, cache: path, worker, ...options });
      engines.push(engine);
      return engine;
    },
    /** @param {import('../../js/index.js').SharedEngine} engine @param {import('../../js/index.js').LoadOptions} [options] */
    load: (engine, options) => engine.load(fromUrl(server.url, { retryDelay: 1 }), { batch: 8, ...options }),
  };
}

/** What an engine of one's own gives. @param {number} maxTokens */
async function alone(maxTokens) {
  const engine = await createWorkerEngine({ threads: 1 });
  try {
    const model = await engine.load(bytes, { batch: 8 });
    return await model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens });
  } finally {
    await engine.close();
  }
}

test('two tabs share one engine and one load', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  assert.deepEqual([one.info.leads, two.info.leads, two.info.shared], [true, false, true]);
  assert.equal(two.info.build, one.info.build);
  const models = await Promise.all([here.load(one), here.load(two)]);
  const sent = here.server.requests.length;
  const third = await here.load(await here.tab());
  assert.equal(here.server.requests.length, sent, 'who comes later asks for nothing');
  const wanted = await alone(20);
  for (const model of [...models, third]) {
    const result = await model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens: 20 });
    assert.deepEqual([result.ids, result.text], [wanted.ids, wanted.text]);
  }
  assert.equal(here.workers.length, 1);
});

test('parts come in another tab as they are read, and leaving the loop or an abort ends the generation', async (t) => {
  const here = await place(t);
  await here.tab();
  const model = await here.load(await here.tab());
  const session = await model.createSession();
  const run = session.generate(prompt, { temperature: 0, maxTokens: 50 });
  let parts = 0;
  for await (const _ of run) if (++parts === 5) break;
  assert.equal(run.result?.ids.length, 5);
  const controller = new AbortController();
  const other = session.generate(prompt, { temperature: 0, maxTokens: 50, signal: controller.signal });
  await assert.rejects(
    async () => {
      for await (const _ of other) controller.abort();
    },
    { name: 'AbortError' },
  );
  assert.equal(other.result?.ids.length, 1);
  assert.deepEqual((await session.tokens()).slice(0, prompt.length), prompt);
  await assert.rejects(model.generate([1, 2, 3], { maxTokens: 2 }).done(), { code: 'NO_SESSION' });
});

test('the leader closes amid a reply: another tab leads, the reply goes on with the same tokens, nothing is fetched again', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  await here.load(one);
  const model = await here.load(two);
  const wanted = await alone(40);
  here.server.forget();
  const run = model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens: 40 });
  /** @type {number[]} */
  const ids = [];
  let restarts = 0;
  two.events.addEventListener('restarted', () => restarts++);
  for await (const { id } of run) if (ids.push(id) === 10) await one.close();
  assert.deepEqual(ids, wanted.ids);
  assert.deepEqual([run.result?.text, run.result?.reason], [wanted.text, wanted.reason]);
  assert.deepEqual([two.info.leads, restarts, here.workers.length], [true, 1, 2]);
  assert.deepEqual(here.server.requests, [], 'the cache has it all');
});
