// wllama 2.x and 3.x on the CPU, used as their guides describe; greedy, without a cache between prompts.
import { randomInteger } from './page.js';

/** Folders of wllama's versions, without the version. */
const PACKAGE_PREFIX = '/build/bench/peers/node_modules/wllama-';
const SILENT_LOGGER = { debug() {}, log() {}, warn() {}, error() {} };

/** Opens a model. @param {import('./page.js').Options} options @returns {Promise<import('./page.js').Opened>} */
export async function open({ version, model, threads, contextTokens, shape }) {
  const isVersion2 = version.startsWith('2.');
  const blob = await (await fetch(model)).blob();
  const { wllama, Wllama } = await (isVersion2 ? openWllama2 : openWllama3)(version);
  await wllama.loadModel(
    [blob],
    isVersion2
      ? { n_threads: threads, n_ctx: contextTokens, n_batch: 512 }
      : { n_threads: threads, n_ctx: contextTokens, n_parallel: 1, n_gpu_layers: 0 },
  );
  const threadCount = wllama.getNumThreads?.() ?? threads;
  if (threadCount !== threads) throw new Error(`expected ${threads} threads, found ${threadCount}`);
  const measure = isVersion2 ? measureVersion2 : measureVersion3;
  return {
    measure: (prompt, tokens) => measure(wllama, prompt, tokens, shape.vocab),
    facts: { multithread: wllama.isMultithread(), llamaCpp: Wllama.getLibllamaVersion?.() },
    close: () => wllama.exit(),
  };
}

/** Loads version 2. @param {string} version */
export async function openWllama2(version) {
  const folder = `${PACKAGE_PREFIX}${version}/esm`;
  const { Wllama } = await import(`${folder}/index.js`);
  const wasm = {
    'single-thread/wllama.wasm': `${folder}/single-thread/wllama.wasm`,
    'multi-thread/wllama.wasm': `${folder}/multi-thread/wllama.wasm`,
  };
  return { Wllama, wllama: new Wllama(wasm, { logger: SILENT_LOGGER }) };
}

/** Loads version 3. @param {string} version */
export async function openWllama3(version) {
  const folder = `${PACKAGE_PREFIX}${version}/esm`;
  const { Wllama } = await import(`${folder}/index.js`);
  const wllama = new Wllama({ default: `${folder}/wasm/wllama.wasm` }, { logger: SILENT_LOGGER });
  wllama.setCompat(null); // disables the build for other browsers, which is on a CDN
  return { Wllama, wllama };
}

/** Measures version 2 token by token, by its low-level interface. @param {any} wllama @param {number} prompt @param {number} tokens @param {number} vocab */
const measureVersion2 = (wllama, prompt, tokens, vocab) =>
  measureTokens(
    wllama,
    Array.from({ length: prompt }, () => 300 + randomInteger(vocab - 600)),
    tokens,
  );

/** Measures a prompt and the tokens after it. @param {any} wllama @param {number[]} promptTokens @param {number} tokens @returns {Promise<import('./page.js').Measured>} */
export async function measureTokens(wllama, promptTokens, tokens) {
  await wllama.kvClear();
  await wllama.samplingInit({ temp: 0, top_k: 1 }, []);
  const start = performance.now();
  const { nPast } = await wllama.decode(promptTokens, {});
  const prefillEnd = performance.now();
  let cachedTokens = nPast;
  for (let i = 0; i < tokens; i++) {
    const { token } = await wllama.samplingSample();
    await wllama.samplingAccept([token]);
    ({ nPast: cachedTokens } = await wllama.decode([token], {}));
  }
  const end = performance.now();
  return {
    prefillMs: prefillEnd - start,
    decodeMs: end - prefillEnd,
    promptTokens: nPast,
    tokens: cachedTokens - nPast,
  };
}

/**
 * Measures a completion of version 3 by the times that wllama reports, which exclude work of the page. Version 3 accepts text only. In the
 * vocabulary of these models, each code point is one token.
 * @param {any} wllama @param {number} prompt @param {number} tokens
 */
async function measureVersion3(wllama, prompt, tokens) {
  const text = Array.from({ length: prompt }, () => String.fromCodePoint(0x4e00 + 300 + randomInteger(16000))).join('');
  /** @type {any} */
  let timings;
  await wllama.createCompletion({
    prompt: text,
    max_tokens: tokens + 1,
    n_predict: tokens + 1,
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
  // The first token is sampled from the logits of the prompt; predicted_ms is the time of the other tokens.
  return {
    prefillMs: timings.prompt_ms,
    decodeMs: timings.predicted_ms,
    promptTokens: timings.prompt_n,
    tokens: timings.predicted_n - 1,
  };
}
