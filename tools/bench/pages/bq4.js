// bq4, by its public interface.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { randomInteger } from './page.js';

/** Opens a model. @param {import('./page.js').Options} options @returns {Promise<import('./page.js').Opened>} */
export async function open({ model: url, threads, contextTokens, shape, variant, kv }) {
  const start = performance.now();
  const engine = await createWorkerEngine(/** @type {any} */ ({ build: variant, threads: threads || 'auto' }));
  const info = /** @type {any} */ (engine.info);
  if (threads && (info.threads ?? 1) !== threads)
    throw new Error(
      `unsupported: expected ${threads} threads, found ${info.threads ?? 1}. ${info.threadsReason ?? ''}`,
    );
  if (variant && info.build !== variant)
    throw new Error(`unsupported: expected the build ${variant}, found ${info.build}`);
  const engineMs = performance.now() - start;
  let model;
  try {
    model = await engine.load(fromUrl(new URL(url, location.href)), /** @type {any} */ ({ contextTokens, kv }));
  } catch (error) {
    if (/** @type {any} */ (error).code === 'ARGUMENT')
      throw new Error(`unsupported: ${/** @type {any} */ (error).message}`);
    throw error;
  }
  const readyTime = performance.now();
  /** @type {import('../../../js/index.js').Session} */
  let session;
  const randomToken = () => 300 + randomInteger(shape.vocab - 600);

  /** Measures a prompt and the tokens after it. @param {number} prompt @param {number} tokens */
  async function measure(prompt, tokens) {
    // The first token differs in each call, so the session reuses nothing.
    const ids = Array.from({ length: prompt }, randomToken);
    const generation = session.generate(ids, { temperature: 0, maxTokens: tokens + 1, speculate: false });
    const { timings, usage, tokens: output } = await generation.result;
    if (usage.cachedTokens !== 0)
      throw new Error(`expected a new prompt, found ${usage.cachedTokens} of its tokens in the KV cache`);
    // The first token belongs to the prefill. With random weights an end token may end a reply early.
    return {
      prefillMs: timings.prefillMs,
      decodeMs: timings.decodeMs,
      promptTokens: usage.promptTokens,
      tokens: output.length - 1,
    };
  }

  /** Measures with another prompt if an end token ended the reply early. @param {number} prompt @param {number} tokens */
  async function measureComplete(prompt, tokens) {
    for (let tries = 0; tries < 5; tries++) {
      const result = await measure(prompt, tokens);
      if (result.tokens === tokens) return result;
    }
    throw new Error('expected a reply without an end token, found one in five attempts');
  }

  const facts = /** @type {Record<string, any>} */ ({
    build: info.build,
    threads: info.threads,
    timings: info.timings,
    engineMs,
    modelMs: readyTime - start - engineMs,
    heap: (await model.memory()).total,
    weightBytes: model.info.weightBytes,
    kvBytes: model.info.kvBytes,
  });
  return {
    measure: measureComplete,
    /**
     * Measures the first prompt, including the creation of its session, and the same arithmetic immediately afterwards, when it is warm.
     * Later the clock frequency of the machine may differ.
     */
    start: async () => {
      const start = performance.now();
      session = await model.createSession();
      await measure(16, 0);
      const startMs = performance.now() - start;
      const warmMs = [];
      for (let i = 0; i < 15; i++) warmMs.push((await measure(16, 0)).prefillMs);
      return { startMs, warm16Ms: warmMs.slice(10).sort((a, b) => a - b)[2] };
    },
    facts,
    close: () => engine.close(),
  };
}
