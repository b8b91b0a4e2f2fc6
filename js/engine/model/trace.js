/** Reads the time that a session has spent in each stage and layer. Loaded with the first trace. */
import { structs } from '../../wasm/abi.js';

/** @import { StageTrace, TraceOptions } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Names of the stages, in the order of bq_stage in c/bq.h. */
const STAGES = /** @type {const} */ ([
  'host',
  'embed',
  'norm',
  'qkv',
  'kv',
  'attend',
  'o',
  'mlpIn',
  'activate',
  'down',
  'head',
  'sample',
]);
/** Stages that belong to no layer. */
const MODEL_STAGES = new Set(['host', 'embed', 'head', 'sample']);
const [END, BEGIN, READ] = [0, 1, 2];

/**
 * Milliseconds of one reading of the clock, which are subtracted from times; 0: not measured. A reading takes 0.1 µs in
 * Node and 1 µs in Chromium, and a token of 30 layers needs 330 readings.
 */
let clockMs = 0;
function measureClock() {
  if (clockMs) return;
  const READS = 512;
  const since = performance.now();
  for (let i = 1; i < READS; i++) performance.now();
  clockMs = (performance.now() - since) / READS;
}

/** @param {Omit<StageTrace, 'GBps'>} row @returns {StageTrace} */
const withRate = (row) => ({ ...row, GBps: row.ms > 0 ? (row.weightBytes + row.kvBytes) / row.ms / 1e6 : 0 });

/**
 * Reads the records of all stages and sums them up by stage, or by stage and layer.
 * @param {Wasm} wasm @param {number} at @param {number} layers @param {boolean} byLayer
 */
function readRows(wasm, at, layers, byLayer) {
  /** @type {Map<string, Omit<StageTrace, 'GBps'>>} */
  const sums = new Map();
  for (let i = 0; i < layers * STAGES.length; i++) {
    const stage = STAGES[i % STAGES.length];
    const layer = Math.floor(i / STAGES.length);
    const {
      ms: measuredMs,
      calls,
      weight_bytes,
      kv_bytes,
      macs,
    } = wasm.read('bqw_stage', at + i * structs.bqw_stage.size);
    if (!calls) continue;
    const ms = Math.max(0, measuredMs - calls * clockMs);
    const label = byLayer && !MODEL_STAGES.has(stage) ? { stage, layer } : { stage };
    const key = `${stage} ${label.layer ?? ''}`;
    const sum = sums.get(key) ?? { ...label, ms: 0, calls: 0, weightBytes: 0, kvBytes: 0, macs: 0 };
    sums.set(key, {
      ...label,
      ms: sum.ms + ms,
      calls: sum.calls + calls,
      weightBytes: sum.weightBytes + weight_bytes,
      kvBytes: sum.kvBytes + kv_bytes,
      macs: sum.macs + macs,
    });
  }
  return [...sums.values()].map(withRate);
}

/** Adds up the traces of several sessions. @param {StageTrace[][]} traces @returns {StageTrace[]} */
export function mergeTraces(traces) {
  /** @type {Map<string, StageTrace>} */
  const sums = new Map();
  for (const row of traces.flat()) {
    const key = `${row.stage} ${row.layer ?? ''}`;
    const sum = sums.get(key);
    sums.set(key, sum ? { ...sum, ...addRows(sum, row) } : row);
  }
  return [...sums.values()].map(withRate);
}

/** @param {StageTrace} a @param {StageTrace} b */
const addRows = (a, b) => ({
  ms: a.ms + b.ms,
  calls: a.calls + b.calls,
  weightBytes: a.weightBytes + b.weightBytes,
  kvBytes: a.kvBytes + b.kvBytes,
  macs: a.macs + b.macs,
});

/**
 * Returns the trace so far. Then, if `on` is given, starts a new trace or stops tracing.
 * @param {Wasm} wasm
 * @param {number} session  handle of the session
 * @param {number} layers
 * @param {TraceOptions} options
 * @returns {StageTrace[]}
 */
export function readTrace(wasm, session, layers, { on: isOn, byLayer = false }) {
  measureClock();
  const at = wasm.out('bqw_session_trace', session, READ);
  const stages = at ? readRows(wasm, at, layers, byLayer) : [];
  if (isOn !== undefined) wasm.out('bqw_session_trace', session, isOn ? BEGIN : END);
  return stages;
}
