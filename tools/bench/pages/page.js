// The page of the benchmarks. It loads the module of a runtime, which exports either `open(options)`, whose promise resolves when the
// runtime is ready for a prompt, or `runBenchmark(options)`, which makes all measurements itself.

/**
 * @typedef {object} Options
 * @property {'bq4' | 'limit' | 'wllama' | 'ort' | 'tjs'} runtime
 * @property {string} version
 * @property {string} model     address of the model on this server
 * @property {number} threads
 * @property {number} contextTokens
 * @property {Record<string, any>} shape
 * @property {string} [precision]
 * @property {string} [variant]
 * @property {string} [kv]
 */

/**
 * @typedef {object} Measured
 * @property {number} prefillMs  time of the complete prompt
 * @property {number} decodeMs   time of `tokens` steps after it
 * @property {number} promptTokens  number of prompt tokens that the runtime reports
 * @property {number} tokens        number of tokens decoded in decodeMs
 */

/**
 * @typedef {object} Opened
 * @property {(prompt: number, tokens: number) => Promise<Measured>} measure  arguments: numbers of tokens
 * @property {() => Promise<Record<string, any>>} [start]  measures the first prompt
 * @property {() => Promise<void>} close
 * @property {Record<string, any>} [facts]
 */

/** State of the random number generator for prompts, the same in each page. */
let randomState = 12345;
/** Returns a random integer from 0 to below a limit. @param {number} limit */
export const randomInteger = (limit) =>
  ((randomState = (Math.imul(randomState, 1103515245) + 12345) >>> 0) >>> 8) % limit;

/** The runtime after `prepare`. @type {{ options: Options, runBenchmark?: (options: Options) => Promise<any>, runtime?: Opened, loadMs?: number }} */
let state;

/** Opens a runtime. @param {Options} options */
async function prepare(options) {
  if (!crossOriginIsolated) throw new Error('expected a cross-origin isolated page');
  const { open, runBenchmark } = await import(`./${options.runtime}.js`);
  state = { options, runBenchmark };
  if (runBenchmark) return;
  const start = performance.now();
  state.runtime = await open(options);
  state.loadMs = performance.now() - start;
}

/** Warms up and measures each cell once. @param {{ prompt: number, tokens: number }[]} cells */
async function run(cells) {
  const { options, runBenchmark, loadMs } = state;
  if (runBenchmark) return runBenchmark(options);
  const runtime = /** @type {Opened} */ (state.runtime);
  const firstPrompt = runtime.start && (await runtime.start());
  const warmUp = await runtime.measure(Math.min(32, options.contextTokens - 16), Math.min(8, cells[0].tokens));
  // Browsers optimize code while it runs, so fast runtimes warm up longer.
  if (warmUp.prefillMs + warmUp.decodeMs < 1500) await runtime.measure(cells[0].prompt, 8);
  const results = [];
  for (const { prompt, tokens } of cells) {
    const result = await runtime.measure(prompt, tokens);
    if (result.promptTokens !== prompt)
      throw new Error(`expected ${prompt} prompt tokens, found ${result.promptTokens}`);
    if (result.tokens !== tokens) throw new Error(`expected ${tokens} decoded tokens, found ${result.tokens}`);
    results.push({ prompt, ...result });
  }
  await runtime.close();
  return { facts: { loadMs, ...firstPrompt, ...runtime.facts }, cells: results };
}

Object.assign(globalThis, { prepare, run, benchReady: true });
