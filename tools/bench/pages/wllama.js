// wllama 2.x and 3.x, on the CPU, as their guides say; greedy, nothing cached between prompts.
import { random } from './page.js';

const AT = '/build/bench/peers/node_modules/wllama-';
const quiet = { debug() {}, log() {}, warn() {}, error() {} };

/** @param {import('./page.js').Options} options @returns {Promise<import('./page.js').Opened>} */
export async function open({ version, model, threads, context, shape }) {
  const old = version.startsWith('2.');
  const blob = await (await fetch(model)).blob();
  const { wllama, Wllama } = await (old ? openWllama2 : openWllama3)(version);
  await wllama.loadModel(
    [blob],
    old
      ? { n_threads: threads, n_ctx: context, n_batch: 512 }
      : { n_threads: threads, n_ctx: context, n_parallel: 1, n_gpu_layers: 0 },
  );
  const taken = wllama.getNumThreads?.() ?? threads;
  if (taken !== threads) throw new Error(`${taken} threads, not ${threads}`);
  const measure = old ? measure2 : measure3;
  return {
    measure: (prompt, tokens) => measure(wllama, prompt, tokens, shape.vocab),
    facts: { multithread: wllama.isMultithread(), llamaCpp: Wllama.getLibllamaVersion?.() },
    close: () => wllama.exit(),
  };
}

/** @param {string} version */
export async function openWllama2(version) {
  const folder = `${AT}${version}/esm`;
  const { Wllama } = await import(`${folder}/index.js`);
  const wasm = {
    'single-thread/wllama.wasm': `${folder}/single-thread/wllama.wasm`,
    'multi-thread/wllama.wasm': `${folder}/multi-thread/wllama.wasm`,
  };
  return { Wllama, wllama: new Wllama(wasm, { logger: quiet }) };
}

/** @param {string} version */
export async function openWllama3(version) {
  const folder = `${AT}${version}/esm`;
  const { Wllama } = await import(`${folder}/index.js`);
  const wllama = new Wllama({ default: `${folder}/wasm/wllama.wasm` }, { logger: quiet });
  wllama.setCompat(null); // the CDN's build for other browsers
  return { Wllama, wllama };
}

/** Token by token through the low-level interface. @param {any} wllama @param {number} prompt @param {number} tokens @param {number} vocab */
const measure2 = (wllama, prompt, tokens, vocab) =>
  measureIds(
    wllama,
    Array.from({ length: prompt }, () => 300 + random(vocab - 600)),
    tokens,
  );

/** @param {any} wllama @param {number[]} ids @param {number} tokens @returns {Promise<import('./page.js').Measured>} */
export async function measureIds(wllama, ids, tokens) {
  await wllama.kvClear();
  await wllama.samplingInit({ temp: 0, top_k: 1 }, []);
  const start = performance.now();
  const { nPast } = await wllama.decode(ids, {});
  const between = performance.now();
  let held = nPast;
  for (let i = 0; i < tokens; i++) {
    const { token } = await wllama.samplingSample();
    await wllama.samplingAccept([token]);
    ({ nPast: held } = await wllama.decode([token], {}));
  }
  const end = performance.now();
  return { prefillMs: between - start, decodeMs: end - between, promptTokens: nPast, tokens: held - nPast };
}

/**
 * A completion, timed by wllama itself, which leaves out what the page adds. 3.x takes text only: in these models'
 * vocabulary every code point is one token.
 * @param {any} wllama @param {number} prompt @param {number} tokens
 */
async function measure3(wllama, prompt, tokens) {
  const text = Array.from({ length: prompt }, () => String.fromCodePoint(0x4e00 + 300 + random(16000))).join('');
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
  // The first token comes from the prompt's logits: predicted_ms is the time of the others.
  return {
    prefillMs: timings.prompt_ms,
    decodeMs: timings.predicted_ms,
    promptTokens: timings.prompt_n,
    tokens: timings.predicted_n - 1,
  };
}
