// Runs in the browser under test. Each runtime's module exports `open(options)`, which resolves, ready for a prompt,
// to { measure(prompt, tokens), close(), ...facts }; what is common is here. Or `whole(options)`, which measures its own way.

/**
 * @typedef {object} Options
 * @property {'us' | 'limit' | 'wllama' | 'ort' | 'tjs'} runtime
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

/**
 * @typedef {object} Opened
 * @property {(prompt: number, tokens: number) => Promise<Measured>} measure
 * @property {() => Promise<Record<string, any>>} [start]  what the very first prompt took
 * @property {() => Promise<void>} close
 * @property {Record<string, any>} [facts]
 */

/** Deterministic numbers for made-up prompts. */
let seed = 12345;
/** @param {number} below */
export const random = (below) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % below;

/** What was prepared. @type {{ options: Options, whole?: (options: Options) => Promise<any>, opened?: Opened, loadMs?: number }} */
let prepared;

/** Makes a runtime ready for a prompt. @param {Options} options */
async function prepare(options) {
  if (!crossOriginIsolated) throw new Error('the page is not cross-origin isolated');
  const { open, whole } = await import(`./${options.runtime}.js`);
  prepared = { options, whole };
  if (whole) return;
  const start = performance.now();
  prepared.opened = await open(options);
  prepared.loadMs = performance.now() - start;
}

/** Warms up, measures every cell once. @param {{ prompt: number, tokens: number }[]} cells */
async function run(cells) {
  const { options, whole, loadMs } = prepared;
  if (whole) return whole(options);
  const opened = /** @type {Opened} */ (prepared.opened);
  const start = opened.start && (await opened.start());
  const first = await opened.measure(Math.min(32, options.context - 16), Math.min(8, cells[0].tokens));
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
  return { facts: { loadMs, ...start, ...opened.facts }, cells: measured };
}

Object.assign(globalThis, { prepare, run, benchReady: true });
