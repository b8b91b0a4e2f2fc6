// An engine beside which its own calls are timed without the JavaScript around them: see host.mjs.
import { createEngine, fromUrl } from '/js/node.js';
import { Wasm } from '/js/wasm/wasm.js';

const TOKENS = 24;
const GREEDY = { temperature: 0, maxTokens: TOKENS + 1, seed: 1 };
const PROMPT = Array.from({ length: 128 }, (_, i) => 500 + ((i * 37) % 5000));

/** @type {any} */
let session;
/** @type {any} */
let wasm;
let handle = 0;
let scratch = 0;

/** Milliseconds a token of a whole generation. @param {object} options @param {() => boolean} [aborted] */
async function generation(options, aborted) {
  const { timings, usage } = await session.generate(PROMPT, { ...GREEDY, ...options }, aborted).result;
  return timings.decodeMs / (usage.completionTokens - 1);
}

/** Milliseconds a token of the calls alone. @param {number} workUnits  per call; 0: all of a token */
async function calls(workUnits) {
  await session.generate(PROMPT, { ...GREEDY, maxTokens: 1 }).result;
  let ms = 0;
  for (let i = 0; i <= TOKENS; i++) {
    const start = performance.now();
    wasm.check('bqw_session_sample', handle, scratch, scratch + 40, scratch + 48);
    if (i === TOKENS) {
      ms += performance.now() - start;
      break;
    }
    wasm.check('bqw_session_append', handle, wasm.u32(scratch + 48, 1)[0]);
    while (wasm.check('bqw_session_run', handle, workUnits) !== 0);
    ms += performance.now() - start;
  }
  return ms / TOKENS;
}

const shared = new Int32Array(typeof SharedArrayBuffer === 'function' ? new SharedArrayBuffer(4) : new ArrayBuffer(4));
/** @type {Record<string, () => Promise<number>>} */
const MODES = {
  'a token in one call': () => calls(0),
  'a call per slice': () => calls(1),
  'generate, abort by flag': () => generation({}, () => Atomics.load(shared, 0) === 1),
  'generate, abort by signal': () => generation({ signal: new AbortController().signal }),
};

onmessage = async ({ data: { rounds, threads, model } }) => {
  const { call } = Wasm.prototype;
  Wasm.prototype.call = function (name, ...args) {
    if (name === 'bqw_session_run') [wasm, handle] = [this, args[0]];
    return call.call(this, name, ...args);
  };
  const engine = await createEngine({ build: 'relaxed', threads });
  session = await (await engine.load(fromUrl(model), { contextTokens: 2048, kv: 'i8' })).createSession();
  await session.generate(PROMPT, GREEDY).result;
  Wasm.prototype.call = call;
  scratch = wasm.alloc(64);
  wasm.bytes(scratch, 64).fill(0);
  const seen = Object.fromEntries(Object.keys(MODES).map((name) => [name, /** @type {number[]} */ ([])]));
  for (let round = -1; round < rounds; round++)
    for (const [name, run] of Object.entries(MODES)) {
      const ms = await run();
      if (round >= 0) seen[name].push(ms);
    }
  postMessage(seen);
};
