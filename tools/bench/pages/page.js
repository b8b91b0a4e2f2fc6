// Runs in the browser under test. Each runtime's module exports `open(options)`, which resolves, ready for a prompt,
// to { measure(prompt, tokens), close(), ...facts }; what is common is here.

/**
 * @typedef {object} Options
 * @property {'us' | 'wllama' | 'ort' | 'tjs'} runtime
 * @property {string} version
 * @property {string} model     where the model lies on this server
 * @property {number} threads
 * @property {number} context
 * @property {Record<string, any>} shape
 * @property {string} [precision]
 * @property {string} [variant]
 * @property {string} [kv]
 */

/**
 * @typedef {object} Measured
 * @property {number} prefillMs  of the whole prompt
 * @property {number} decodeMs   of `tokens` steps after it
 * @property {number} promptTokens  as the runtime counts them
 * @property {number} tokens        that were decoded in decodeMs
 */

/** @typedef {{ measure: (prompt: number, tokens: number) => Promise<Measured>, close: () => Promise<void>, facts?: Record<string, any> }} Opened */

/** Deterministic numbers for made-up prompts. */
let seed = 12345;
/** @param {number} below */
export const random = (below) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % below;

/** Opens, warms up, measures every cell once. @param {{ options: Options, cells: { prompt: number, tokens: number }[] }} visit */
async function run({ options, cells }) {
  if (!crossOriginIsolated) throw new Error('the page is not cross-origin isolated');
  const { open } = await import(`./${options.runtime}.js`);
  const start = performance.now();
  /** @type {Opened} */
  const opened = await open(options);
  const loadMs = performance.now() - start;
  const first = await opened.measure(Math.min(32, options.context - 16), 8);
  // The compiler's better code comes while code runs: those for whom that is quick get more of it.
  if (first.prefillMs + first.decodeMs < 1500) await opened.measure(cells[0].prompt, 8);
  const measured = [];
  for (const { prompt, tokens } of cells) {
    const result = await opened.measure(prompt, tokens);
    if (result.promptTokens !== prompt) throw new Error(`${result.promptTokens} tokens of prompt, not ${prompt}`);
    if (result.tokens !== tokens) throw new Error(`${result.tokens} tokens decoded, not ${tokens}`);
    measured.push({ prompt, ...result });
  }
  await opened.close();
  return { facts: { loadMs, ...opened.facts }, cells: measured };
}

Object.assign(globalThis, { run, benchReady: true });
