// Measures a GGUF file in bq4 or in wllama: loading, prefill and decode; or, if the file is in the cache, the time from opening the
// runtime to the first token. In LiteRT-LM it measures the model in its own format, in transformers.js a model of the same shape.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { openLiteRt } from './litert.js';
import { open as openTjs } from './tjs.js';
import { measureTokens, openWllama2, openWllama3 } from './wllama.js';

/** Returns a text that depends on the seed. @param {number} seed @param {number} words */
function makeText(seed, words) {
  const vocabulary = [
    'river',
    'window',
    'green',
    'letter',
    'morning',
    'stone',
    'paper',
    'winter',
    'garden',
    'silver',
    'music',
    'table',
  ];
  return `${seed} ${Array.from({ length: words }, (_, i) => vocabulary[(i * 7 + i * i * seed + seed) % vocabulary.length]).join(' ')}`;
}

/** @typedef {{ prefill: number, decode: number, promptTokens: number }} Rates  tokens per second */
/** `first`: generates one token. @typedef {{ measure: (text: string, tokens: number) => Promise<Rates>, first: (text: string) => Promise<void>, close: () => Promise<any> }} Runtime */

/** Opens bq4. @param {string} url @param {boolean} usesCache @returns {Promise<Runtime>} */
async function openBq4(url, usesCache) {
  const engine = await createWorkerEngine(/** @type {any} */ ({ threads: 1, cache: usesCache ? 'auto' : false }));
  // Activations have 8 bits, as in wllama.
  const model = await engine.load(fromUrl(new URL(url, location.href)), { contextTokens: 1024, activations: 'i8' });
  const session = await model.createSession();
  return {
    measure: async (text, tokens) => {
      const {
        timings,
        usage,
        tokens: ids,
      } = await session.generate(text, {
        temperature: 0,
        maxTokens: tokens + 1,
        stopTokens: [],
        speculate: false,
      }).result;
      const computedTokens = usage.promptTokens - usage.cachedTokens;
      return {
        prefill: (computedTokens / timings.prefillMs) * 1e3,
        decode: ((ids.length - 1) / timings.decodeMs) * 1e3,
        promptTokens: computedTokens,
      };
    },
    first: async (text) => void (await session.generate(text, { temperature: 0, maxTokens: 1 }).result),
    close: () => engine.close(),
  };
}

/** Opens version 3 of wllama. @param {string} url @param {boolean} usesCache @param {string} version @returns {Promise<Runtime>} */
async function openWllamaRuntime3(url, usesCache, version) {
  const { wllama } = await openWllama3(version);
  const options = { n_threads: 1, n_ctx: 1024, n_parallel: 1, n_gpu_layers: 0 };
  if (usesCache) await wllama.loadModelFromUrl(new URL(url, location.href).href, { ...options, useCache: true });
  else await wllama.loadModel([await (await fetch(url)).blob()], options);
  const complete = async (/** @type {string} */ prompt, /** @type {number} */ tokens) => {
    /** @type {any} */
    let timings;
    await wllama.createCompletion({
      prompt,
      max_tokens: tokens,
      n_predict: tokens,
      stream: true,
      temperature: 0,
      top_k: 1,
      ignore_eos: true,
      cache_prompt: false,
      timings_per_token: true,
      onData: (/** @type {any} */ chunk) => {
        if (chunk.timings) timings = chunk.timings;
      },
    });
    return timings;
  };
  return {
    measure: async (text, tokens) => {
      // The first token is sampled from the logits of the prompt; predicted_ms is the time of the other tokens.
      const {
        prompt_n: promptTokens,
        prompt_ms: prompt,
        predicted_n: n,
        predicted_ms: decode,
      } = await complete(text, tokens + 1);
      return { prefill: (promptTokens / prompt) * 1e3, decode: ((n - 1) / decode) * 1e3, promptTokens };
    },
    first: async (text) => void (await complete(text, 1)),
    close: () => wllama.exit(),
  };
}

/** Opens version 2 of wllama. @param {string} url @param {boolean} usesCache @param {string} version @returns {Promise<Runtime>} */
async function openWllamaRuntime2(url, usesCache, version) {
  const { wllama } = await openWllama2(version);
  const options = { n_threads: 1, n_ctx: 1024, n_batch: 512 };
  if (usesCache) await wllama.loadModelFromUrl(new URL(url, location.href).href, { ...options, useCache: true });
  else await wllama.loadModel([await (await fetch(url)).blob()], options);
  return {
    measure: async (text, tokens) => ratesOf(await measureTokens(wllama, await wllama.tokenize(text), tokens)),
    first: async (text) => void (await measureTokens(wllama, await wllama.tokenize(text), 0)),
    close: () => wllama.exit(),
  };
}

/** Opens LiteRT-LM. @param {string} url @returns {Promise<Runtime>} */
const openLiteRtRuntime = async (url) => ({
  ...(await openLiteRt(url)),
  first: () => Promise.reject(new Error('expected bq4 or wllama: LiteRT-LM has no cache')),
});

/** Opens transformers.js. @param {string} model  address of a folder @param {number} prompt  number of tokens @returns {Promise<Runtime>} */
async function openTransformers(model, prompt) {
  const transformers = await openTjs(
    /** @type {any} */ ({ model, threads: 1, precision: 'q8', shape: { vocab: 49152 } }),
  );
  return {
    measure: async (_, tokens) => ratesOf(await transformers.measure(prompt, tokens)),
    first: () => Promise.reject(new Error('expected bq4 or wllama: transformers.js loads this model without a cache')),
    close: () => transformers.close(),
  };
}

/** Returns tokens per second. @param {import('./page.js').Measured} measured @returns {Rates} */
const ratesOf = ({ prefillMs, decodeMs, promptTokens, tokens }) => ({
  prefill: (promptTokens / prefillMs) * 1e3,
  decode: (tokens / decodeMs) * 1e3,
  promptTokens,
});

/**
 * Measures a runtime.
 * @param {{ peer: 'bq4' | 'wllama' | 'litert' | 'tjs', version?: string, model: string, seed: number, isWarm: boolean, prompt: number, tokens: number }} options
 *   `isWarm`: whether the file is in the cache; then the time to the first token is measured
 */
export async function runBenchmark({ peer, version = '', model, seed, isWarm, prompt, tokens }) {
  const start = performance.now();
  const runtime = await (peer === 'bq4'
    ? openBq4(model, isWarm)
    : peer === 'tjs'
      ? openTransformers(model, prompt)
      : peer === 'litert'
        ? openLiteRtRuntime(model)
        : (version.startsWith('2.') ? openWllamaRuntime2 : openWllamaRuntime3)(model, isWarm, version));
  if (isWarm) {
    await runtime.first('The capital of France is');
    const firstMs = performance.now() - start;
    await runtime.close();
    return { firstMs };
  }
  const loadMs = performance.now() - start;
  await runtime.measure(makeText(seed, 8), 4); // warm-up
  const { prefill, decode } = await runtime.measure(makeText(seed + 1, prompt - 8), tokens);
  await runtime.close();
  return { loadMs, prefill, decode };
}
