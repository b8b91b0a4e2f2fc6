// transformers.js on its wasm device: generate() with a streamer that notes the time of each token.
import { random } from './page.js';

const AT = '/build/bench/peers/node_modules/@huggingface/transformers/';

/** @param {import('./page.js').Options} options `model` is the folder of a model @returns {Promise<import('./page.js').Opened>} */
export async function open({ model, threads, precision, shape }) {
  const tjs = await import(`${AT}dist/transformers.web.js`);
  const cut = model.lastIndexOf('/');
  Object.assign(tjs.env, {
    allowRemoteModels: false,
    allowLocalModels: true,
    localModelPath: model.slice(0, cut + 1),
    useBrowserCache: false,
    useWasmCache: false,
  });
  Object.assign(tjs.env.backends.onnx.wasm, {
    wasmPaths: `${AT}node_modules/onnxruntime-web/dist/`,
    numThreads: threads,
  });
  const causal = await tjs.AutoModelForCausalLM.from_pretrained(model.slice(cut + 1), {
    dtype: precision,
    device: 'wasm',
    local_files_only: true,
  });

  class Clock extends tjs.BaseStreamer {
    /** @type {number[]} */
    times = [];
    put() {
      this.times.push(performance.now());
    }
    end() {}
  }

  /** @param {number} prompt @param {number} tokens */
  async function measure(prompt, tokens) {
    const ids = BigInt64Array.from({ length: prompt }, () => BigInt(3 + random(shape.vocab - 10)));
    const clock = new Clock();
    const start = performance.now();
    const result = await causal.generate({
      input_ids: new tjs.Tensor('int64', ids, [1, prompt]),
      attention_mask: new tjs.Tensor('int64', new BigInt64Array(prompt).fill(1n), [1, prompt]),
      max_new_tokens: tokens + 1,
      min_new_tokens: tokens + 1,
      do_sample: false,
      streamer: clock,
    });
    const times = clock.times.slice(1); // the first put() is the prompt
    return {
      prefillMs: times[0] - start,
      decodeMs: times[times.length - 1] - times[0],
      promptTokens: result.dims[1] - times.length,
      tokens: times.length - 1,
    };
  }
  return { measure, facts: { version: tjs.env.version }, close: () => causal.dispose() };
}
