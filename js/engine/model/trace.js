/** Where the time of a session goes: what the engine has added up per stage and layer. Loaded when it is asked for. */
import { structs } from '../../wasm/abi.js';

/** @import { StageTrace, TraceOptions } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** bq_stage of c/bq.h. */
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
/** Those that are of no layer. */
const WHOLE = new Set(['host', 'embed', 'head', 'sample']);
const [END, BEGIN, LOOK] = [0, 1, 2];

/** Milliseconds of one look at the clock, which no stage is to pay: 0.1 µs in Node, 1 µs in Chromium, and a token of 30 layers is 330 looks. */
let clock = 0;
function timeClock() {
  if (clock) return;
  const LOOKS = 512;
  const since = performance.now();
  for (let i = 1; i < LOOKS; i++) performance.now();
  clock = (performance.now() - since) / LOOKS;
}

/** @param {Omit<StageTrace, 'GBps'>} row @returns {StageTrace} */
const withRate = (row) => ({ ...row, GBps: row.ms > 0 ? (row.weightBytes + row.kvBytes) / row.ms / 1e6 : 0 });

/** @param {Wasm} wasm @param {number} at @param {number} layers @param {boolean} byLayer */
function rows(wasm, at, layers, byLayer) {
  /** @type {Map<string, Omit<StageTrace, 'GBps'>>} */
  const sums = new Map();
  for (let i = 0; i < layers * STAGES.length; i++) {
    const stage = STAGES[i % STAGES.length];
    const layer = Math.floor(i / STAGES.length);
    const { ms: seen, calls, weight_bytes, kv_bytes, macs } = wasm.read('bqw_stage', at + i * structs.bqw_stage.size);
    if (!calls) continue;
    const ms = Math.max(0, seen - calls * clock);
    const named = byLayer && !WHOLE.has(stage) ? { stage, layer } : { stage };
    const key = `${stage} ${named.layer ?? ''}`;
    const sum = sums.get(key) ?? { ...named, ms: 0, calls: 0, weightBytes: 0, kvBytes: 0, macs: 0 };
    sums.set(key, {
      ...named,
      ms: sum.ms + ms,
      calls: sum.calls + calls,
      weightBytes: sum.weightBytes + weight_bytes,
      kvBytes: sum.kvBytes + kv_bytes,
      macs: sum.macs + macs,
    });
  }
  return [...sums.values()].map(withRate);
}

/** The traces of several sessions as one. @param {StageTrace[][]} all @returns {StageTrace[]} */
export function merged(all) {
  /** @type {Map<string, StageTrace>} */
  const sums = new Map();
  for (const row of all.flat()) {
    const key = `${row.stage} ${row.layer ?? ''}`;
    const sum = sums.get(key);
    sums.set(key, sum ? { ...sum, ...added(sum, row) } : row);
  }
  return [...sums.values()].map(withRate);
}

/** @param {StageTrace} a @param {StageTrace} b */
const added = (a, b) => ({
  ms: a.ms + b.ms,
  calls: a.calls + b.calls,
  weightBytes: a.weightBytes + b.weightBytes,
  kvBytes: a.kvBytes + b.kvBytes,
  macs: a.macs + b.macs,
});

/**
 * What was traced so far, then begins anew or ends.
 * @param {Wasm} wasm
 * @param {number} session  its handle
 * @param {number} layers
 * @param {TraceOptions} options
 * @returns {StageTrace[]}
 */
export function trace(wasm, session, layers, { on, byLayer = false }) {
  timeClock();
  const at = wasm.out('bqw_session_trace', session, LOOK);
  const seen = at ? rows(wasm, at, layers, byLayer) : [];
  if (on !== undefined) wasm.out('bqw_session_trace', session, on ? BEGIN : END);
  return seen;
}
