// One GGUF file, in bq4 or in wllama: loading, prefill and decode, or the time from a page whose cache has the file to the first token.
// In transformers.js, a folder of the same shape.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { open as openTjs } from './tjs.js';
import { measureIds, openWllama2, openWllama3 } from './wllama.js';

/** Text of so many words, another for each number. @param {number} seed @param {number} words */
function textOf(seed, words) {
  const list = [
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
  return `${seed} ${Array.from({ length: words }, (_, i) => list[(i * 7 + i * i * seed + seed) % list.length]).join(' ')}`;
}

/** @typedef {{ prefill: number, decode: number, promptTokens: number }} Rates  tokens per second */
/** @typedef {{ measure: (text: string, tokens: number) => Promise<Rates>, first: (text: string) => Promise<void>, close: () => Promise<any> }} Runtime */

/** @param {string} url @param {boolean} cache @returns {Promise<Runtime>} */
async function ours(url, cache) {
  const engine = await createWorkerEngine(/** @type {any} */ ({ threads: 1, cache: cache ? 'auto' : false }));
  // As wllama's, activations are of 8 bits.
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
      const computed = usage.promptTokens - usage.cachedTokens;
      return {
        prefill: (computed / timings.prefillMs) * 1e3,
        decode: ((ids.length - 1) / timings.decodeMs) * 1e3,
        promptTokens: computed,
      };
    },
    first: async (text) => void (await session.generate(text, { temperature: 0, maxTokens: 1 }).result),
    close: () => engine.close(),
  };
}

/** @param {string} url @param {boolean} cache @param {string} version @returns {Promise<Runtime>} */
async function wllama3(url, cache, version) {
  const { wllama } = await openWllama3(version);
  const options = { n_threads: 1, n_ctx: 1024, n_parallel: 1, n_gpu_layers: 0 };
  if (cache) await wllama.loadModelFromUrl(new URL(url, location.href).href, { ...options, useCache: true });
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
      // The first token comes from the prompt's logits: predicted_ms is the time of the others.
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

/** @param {string} url @param {boolean} cache @param {string} version @returns {Promise<Runtime>} */
async function wllama2(url, cache, version) {
  const { wllama } = await openWllama2(version);
  const options = { n_threads: 1, n_ctx: 1024, n_batch: 512 };
  if (cache) await wllama.loadModelFromUrl(new URL(url, location.href).href, { ...options, useCache: true });
  else await wllama.loadModel([await (await fetch(url)).blob()], options);
  return {
    measure: async (text, tokens) => rates(await measureIds(wllama, await wllama.tokenize(text), tokens)),
    first: async (text) => void (await measureIds(wllama, await wllama.tokenize(text), 0)),
    close: () => wllama.exit(),
  };
}

/** @param {string} model  a folder @param {number} prompt  tokens @returns {Promise<Runtime>} */
async function tjs(model, prompt) {
  const opened = await openTjs(/** @type {any} */ ({ model, threads: 1, precision: 'q8', shape: { vocab: 49152 } }));
  return {
    measure: async (_, tokens) => rates(await opened.measure(prompt, tokens)),
    first: () => Promise.reject(new Error('its cache has no such file')),
    close: () => opened.close(),
  };
}

/** @param {import('./page.js').Measured} measured @returns {Rates} */
const rates = ({ prefillMs, decodeMs, promptTokens, tokens }) => ({
  prefill: (promptTokens / prefillMs) * 1e3,
  decode: (tokens / decodeMs) * 1e3,
  promptTokens,
});

/** @param {{ who: 'bq4' | 'wllama' | 'tjs', version?: string, model: string, seed: number, warm: boolean, prompt: number, tokens: number }} options */
export async function whole({ who, version = '', model, seed, warm, prompt, tokens }) {
  const since = performance.now();
  const runtime = await (who === 'bq4'
    ? ours(model, warm)
    : who === 'tjs'
      ? tjs(model, prompt)
      : (version.startsWith('2.') ? wllama2 : wllama3)(model, warm, version));
  if (warm) {
    await runtime.first('The capital of France is');
    const firstMs = performance.now() - since;
    await runtime.close();
    return { firstMs };
  }
  const loadMs = performance.now() - since;
  await runtime.measure(textOf(seed, 8), 4); // warms up
  const { prefill, decode } = await runtime.measure(textOf(seed + 1, prompt - 8), tokens);
  await runtime.close();
  return { loadMs, prefill, decode };
}
