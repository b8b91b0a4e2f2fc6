// An engine in a worker that counts slices and samples, with a model heavy enough that a prompt takes many turns.
import { Worker } from 'node:worker_threads';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { tinyModel } from './fixture.mjs';

export const BIG = { hidden: 128, layers: 6, heads: 4, ffn: 384, context: 1024 };
export const prompt = Array.from({ length: 900 }, (_, i) => 5 + (i % 250));

/** An engine whose worker counts in shared memory. @param {import('node:test').TestContext} t */
export async function counted(t) {
  const counters = new Int32Array(new SharedArrayBuffer(8));
  const worker = new Worker(new URL('./counting-worker.mjs', import.meta.url), { workerData: { counters } });
  const engine = await createWorkerEngine({ build: 'relaxed', threads: 1, worker });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(await tinyModel({ config: BIG, type: 'bq4' })), { batch: 8 });
  const read = () => ({ slices: Atomics.load(counters, 0), samples: Atomics.load(counters, 1) });
  return { engine, model, session: await model.createSession(), read };
}
