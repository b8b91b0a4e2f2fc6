// An engine in a worker that counts slices and samples, with a model heavy enough that a prompt takes many turns.
import { Worker } from 'node:worker_threads';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { inTime } from '../waiting.mjs';
import { gateOf, SAMPLES, WORK_UNITS, WORDS } from './count-calls.mjs';
import { tinyModel } from './fixture.mjs';
import { setTimeouts } from './timeouts.mjs';

export const BIG = { hidden: 128, layers: 6, heads: 4, ffn: 384, context: 1024 };
export const prompt = Array.from({ length: 900 }, (_, i) => 5 + (i % 250));

/** More than one: the first is answered before the worker goes on. */
const TRIPS = 3;

/** An engine whose worker counts in shared memory. @param {import('node:test').TestContext} t */
export async function counted(t) {
  const counters = new Int32Array(new SharedArrayBuffer(4 * WORDS));
  const worker = new Worker(new URL('./counting-worker.mjs', import.meta.url), { workerData: { counters } });
  const engine = await createWorkerEngine({ build: 'relaxed', threads: 1, worker });
  setTimeouts(t, { workerPing: Infinity, abort: Infinity }); // at its gate it answers nothing
  const gate = gateOf(counters);
  t.after(() => (gate.open(), engine.close()));
  const model = await engine.load(fromBytes(await tinyModel({ config: BIG, type: 'bq4' })), { prefillBatch: 8 });
  const read = () => ({ workUnits: Atomics.load(counters, WORK_UNITS), samples: Atomics.load(counters, SAMPLES) });
  /** A worker that computes has computed something meanwhile: it answers calls between two slices or tokens. */
  const roundTrips = async () => {
    for (let trip = 0; trip < TRIPS; trip++) await inTime('an answer of the worker', model.memory());
  };
  return { engine, model, session: await model.createSession(), read, gate, roundTrips };
}
