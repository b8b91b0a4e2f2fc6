// Runs in the browser under test: one generation per call, timed by the engine itself.
import { createWorkerEngine, fromUrl } from '../../js/index.js';

let calls = 0;

/** @type {Map<string, { model: any, session: any, engine: any }>} */
const open = new Map();

/**
 * A model, loaded once per variant and kept.
 * @param {{ url: string, variant: 'relaxed' | 'simd128', context: number, kv: 'f32' | 'f16', threads: number }} cell
 */
async function sessionOf(cell) {
  const key = JSON.stringify([cell.url, cell.variant, cell.context, cell.kv, cell.threads]);
  const known = open.get(key);
  if (known) return known;
  const engine = await createWorkerEngine({ variant: cell.variant, threads: cell.threads });
  if (engine.info.threads !== cell.threads) throw new Error(engine.info.threadsReason);
  const since = performance.now();
  const model = await engine.load(fromUrl(cell.url), { context: cell.context, kv: cell.kv });
  const loadMs = performance.now() - since;
  const made = { engine, model, session: await model.createSession(), loadMs, heap: (await model.memory()).total };
  open.set(key, made);
  return made;
}

/**
 * One generation from an empty KV cache: `prompt` tokens, then `tokens` more.
 * @param {{ url: string, variant: 'relaxed' | 'simd128', context: number, kv: 'f32' | 'f16', threads: number, prompt: number, tokens: number }} cell
 */
async function measure(cell) {
  const { session, model, loadMs, heap } = /** @type {any} */ (await sessionOf(cell));
  // Another first token each time, so that nothing is reused.
  const ids = Array.from({ length: cell.prompt }, (_, i) => (i === 0 ? 300 + (++calls % 4000) : 500 + ((i * 37) % 5000)));
  // minP etc. stay off: greedy. End tokens are part of random weights' output like any other, so restarts don't matter.
  const generation = session.generate(ids, { temperature: 0, maxTokens: cell.tokens, seed: 1 });
  const { timings, ids: made } = await generation.done();
  if (timings.reusedTokens !== 0) throw new Error('the prompt was in the KV cache already');
  return {
    prefill: cell.prompt / (timings.prefillMs / 1e3),
    decode: made.length > 1 ? (made.length - 1) / (timings.decodeMs / 1e3) : null,
    tokens: made.length, loadMs, heap, weightBytes: model.info.weightBytes,
  };
}

async function closeAll() {
  for (const { engine } of open.values()) await engine.close();
  open.clear();
}

Object.assign(globalThis, { measure, closeAll, benchReady: true });
