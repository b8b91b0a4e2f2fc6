// onnxruntime-web: the KV cache comes back to JavaScript and goes in again at every step, as in any web app without a
// GPU; the argmax is in JavaScript.
import { random } from './page.js';

const AT = '/build/bench/peers/node_modules/onnxruntime-web/dist/';

/** @param {import('./page.js').Options} options @returns {Promise<import('./page.js').Opened>} */
export async function open({ model, threads, shape }) {
  const ort = await import(`${AT}ort.wasm.min.mjs`);
  Object.assign(ort.env.wasm, { wasmPaths: AT, numThreads: threads });
  ort.env.logLevel = 'error';
  const bytes = new Uint8Array(await (await fetch(model)).arrayBuffer());
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });
  if (ort.env.wasm.numThreads !== threads) throw new Error(`${ort.env.wasm.numThreads} threads, not ${threads}`);
  const { layers, hidden, heads, kv_heads: kvHeads = heads, vocab } = shape;
  const names = Array.from({ length: layers }, (_, i) => ['key', 'value'].map((part) => `${i}.${part}`)).flat();
  const tensor = (/** @type {number[]} */ values) =>
    new ort.Tensor('int64', BigInt64Array.from(values, BigInt), [1, values.length]);

  /** @param {number} prompt @param {number} tokens */
  async function measure(prompt, tokens) {
    /** @type {Record<string, any>} */
    let past = Object.fromEntries(
      names.map((name) => [
        `past_key_values.${name}`,
        new ort.Tensor('float32', new Float32Array(0), [1, kvHeads, 0, hidden / heads]),
      ]),
    );
    let ids = Array.from({ length: prompt }, () => 3 + random(vocab - 10));
    let held = 0;
    const times = [performance.now()];
    for (let step = 0; step <= tokens; step++) {
      held += ids.length;
      const items = await session.run({
        input_ids: tensor(ids),
        attention_mask: tensor(new Array(held).fill(1)),
        ...past,
      });
      const logits = items.logits.data;
      let best = 0;
      for (let i = 1; i < vocab; i++) if (logits[i] > logits[best]) best = i;
      past = Object.fromEntries(names.map((name) => [`past_key_values.${name}`, items[`present.${name}`]]));
      ids = [best];
      times.push(performance.now());
    }
    const inCache = past['past_key_values.0.key'].dims[2];
    return {
      prefillMs: times[1] - times[0],
      decodeMs: times[tokens + 1] - times[1],
      promptTokens: inCache - tokens,
      tokens: times.length - 2,
    };
  }
  return { measure, facts: { version: ort.env.versions?.web }, close: async () => session.release() };
}
