// transformers.js on its wasm device: generate() with a streamer that records the time of each token.
import { randomInteger } from './page.js';

/** Folder of transformers.js. */
const PACKAGE_PATH = '/build/bench/peers/node_modules/@huggingface/transformers/';

/** Opens a model. @param {import('./page.js').Options} options  `model`: address of its folder @returns {Promise<import('./page.js').Opened>} */
export async function open({ model, threads, precision, shape }) {
  const transformers = await import(`${PACKAGE_PATH}dist/transformers.web.js`);
  const slash = model.lastIndexOf('/');
  Object.assign(transformers.env, {
    allowRemoteModels: false,
    allowLocalModels: true,
    localModelPath: model.slice(0, slash + 1),
    useBrowserCache: false,
    useWasmCache: false,
  });
  Object.assign(transformers.env.backends.onnx.wasm, {
    wasmPaths: `${PACKAGE_PATH}node_modules/onnxruntime-web/dist/`,
    numThreads: threads,
  });
  const languageModel = await transformers.AutoModelForCausalLM.from_pretrained(model.slice(slash + 1), {
    dtype: precision,
    device: 'wasm',
    local_files_only: true,
  });

  /** Records the time of each call of `put`. */
  class TokenClock extends transformers.BaseStreamer {
    /** @type {number[]} */
    times = [];
    put() {
      this.times.push(performance.now());
    }
    end() {}
  }

  /** Measures a prompt and the tokens after it. @param {number} prompt @param {number} tokens */
  async function measure(prompt, tokens) {
    const ids = BigInt64Array.from({ length: prompt }, () => BigInt(3 + randomInteger(shape.vocab - 10)));
    const clock = new TokenClock();
    const start = performance.now();
    const result = await languageModel.generate({
      input_ids: new transformers.Tensor('int64', ids, [1, prompt]),
      attention_mask: new transformers.Tensor('int64', new BigInt64Array(prompt).fill(1n), [1, prompt]),
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
  return { measure, facts: { version: transformers.env.version }, close: () => languageModel.dispose() };
}
