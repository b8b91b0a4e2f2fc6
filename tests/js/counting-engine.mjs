// An engine in a worker with counters (count-calls.mjs), and a model that is large enough for a prompt of many work units.
import { Worker } from 'node:worker_threads';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { inTime } from '../waiting.mjs';
import { gateOf, SAMPLES, WORK_UNITS, WORDS } from './count-calls.mjs';
import { tinyModel } from './fixture.mjs';
import { setTimeouts } from './timeouts.mjs';

export const BIG = { hidden: 128, layers: 6, heads: 4, ffn: 384, context: 1024 };
export const prompt = Array.from({ length: 900 }, (_, i) => 5 + (i % 250));

/** Number of round trips; the worker can answer the first one before it computes anything. */
const ROUND_TRIPS = 3;

/** Creates the engine, its model and a session; they are closed after the test. @param {import('node:test').TestContext} t */
export async function createCountingEngine(t) {
  const counters = new Int32Array(new SharedArrayBuffer(4 * WORDS));
  const worker = new Worker(new URL('./counting-worker.mjs', import.meta.url), { workerData: { counters } });
  const engine = await createWorkerEngine({ build: 'relaxed', threads: 1, worker });
  setTimeouts(t, { workerPing: Infinity, abort: Infinity }); // While it waits at the gate, the worker does not answer.
  const gate = gateOf(counters);
  t.after(() => (gate.open(), engine.close()));
  const model = await engine.load(fromBytes(await tinyModel({ config: BIG, type: 'bq4' })), { prefillBatch: 8 });
  const read = () => ({ workUnits: Atomics.load(counters, WORK_UNITS), samples: Atomics.load(counters, SAMPLES) });
  /** Waits for several answers of the worker. It answers between two work units, so a running generation has advanced afterwards. */
  const roundTrips = async () => {
    for (let trip = 0; trip < ROUND_TRIPS; trip++) await inTime('an answer of the worker', model.memory());
  };
  return { engine, model, session: await model.createSession(), read, gate, roundTrips };
}
