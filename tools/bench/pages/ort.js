// onnxruntime-web on its wasm backend. The KV cache is an output of each step and an input of the next one, as in any web application
// without a GPU. JavaScript computes the argmax of the logits.
import { randomInteger } from './page.js';

/** Folder of onnxruntime-web. */
const PACKAGE_PATH = '/build/bench/peers/node_modules/onnxruntime-web/dist/';

/** Opens a model. @param {import('./page.js').Options} options @returns {Promise<import('./page.js').Opened>} */
export async function open({ model, threads, shape }) {
  const ort = await import(`${PACKAGE_PATH}ort.wasm.min.mjs`);
  Object.assign(ort.env.wasm, { wasmPaths: PACKAGE_PATH, numThreads: threads });
  ort.env.logLevel = 'error';
  const bytes = new Uint8Array(await (await fetch(model)).arrayBuffer());
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });
  if (ort.env.wasm.numThreads !== threads)
    throw new Error(`expected ${threads} threads, found ${ort.env.wasm.numThreads}`);
  const { layers, hidden, heads, kv_heads: kvHeads = heads, vocab } = shape;
  const names = Array.from({ length: layers }, (_, i) => ['key', 'value'].map((part) => `${i}.${part}`)).flat();
  const tensorOf = (/** @type {number[]} */ values) =>
    new ort.Tensor('int64', BigInt64Array.from(values, BigInt), [1, values.length]);

  /** Measures a prompt and the tokens after it. @param {number} prompt @param {number} tokens */
  async function measure(prompt, tokens) {
    /** @type {Record<string, any>} */
    let cache = Object.fromEntries(
      names.map((name) => [
        `past_key_values.${name}`,
        new ort.Tensor('float32', new Float32Array(0), [1, kvHeads, 0, hidden / heads]),
      ]),
    );
    let ids = Array.from({ length: prompt }, () => 3 + randomInteger(vocab - 10));
    let positions = 0;
    const times = [performance.now()];
    for (let step = 0; step <= tokens; step++) {
      positions += ids.length;
      const outputs = await session.run({
        input_ids: tensorOf(ids),
        attention_mask: tensorOf(new Array(positions).fill(1)),
        ...cache,
      });
      const logits = outputs.logits.data;
      let best = 0;
      for (let i = 1; i < vocab; i++) if (logits[i] > logits[best]) best = i;
      cache = Object.fromEntries(names.map((name) => [`past_key_values.${name}`, outputs[`present.${name}`]]));
      ids = [best];
      times.push(performance.now());
    }
    const cachedTokens = cache['past_key_values.0.key'].dims[2];
    return {
      prefillMs: times[1] - times[0],
      decodeMs: times[tokens + 1] - times[1],
      promptTokens: cachedTokens - tokens,
      tokens: times.length - 2,
    };
  }
  return { measure, facts: { version: ort.env.versions?.web }, close: async () => session.release() };
}
