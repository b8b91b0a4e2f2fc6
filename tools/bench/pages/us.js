// bq4, through its public interface.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { random } from './page.js';

/** @param {import('./page.js').Options} options @returns {Promise<import('./page.js').Opened>} */
export async function open({ model: url, threads, context, shape, variant, kv }) {
  const since = performance.now();
  const engine = await createWorkerEngine(/** @type {any} */ ({ build: variant, threads: threads || 'auto' }));
  const info = /** @type {any} */ (engine.info);
  if (threads && (info.threads ?? 1) !== threads)
    throw new Error(`unsupported: ${info.threads ?? 1} threads, not ${threads}. ${info.threadsReason ?? ''}`);
  if (variant && info.build !== variant) throw new Error(`unsupported: kernels ${info.build}, not ${variant}`);
  const engineMs = performance.now() - since;
  let model;
  try {
    model = await engine.load(
      fromUrl(new URL(url, location.href)),
      /** @type {any} */ ({ contextTokens: context, kv }),
    );
  } catch (error) {
    if (/** @type {any} */ (error).code === 'ARGUMENT')
      throw new Error(`unsupported: ${/** @type {any} */ (error).message}`);
    throw error;
  }
  const ready = performance.now();
  /** @type {import('../../../js/index.js').Session} */
  let session;
  const step = () => random(shape.vocab - 600);

  /** @param {number} prompt @param {number} tokens */
  async function measure(prompt, tokens) {
    // The first token is another one each time, so nothing is reused.
    const ids = Array.from({ length: prompt }, () => 300 + step());
    const generation = session.generate(ids, { temperature: 0, maxTokens: tokens + 1, speculate: false });
    const { timings, usage, tokens: output } = await generation.result;
    if (usage.cachedTokens !== 0) throw new Error('the prompt was in the KV cache already');
    // The first token comes with the prefill; the end token of random weights ends a reply, rarely.
    return {
      prefillMs: timings.prefillMs,
      decodeMs: timings.decodeMs,
      promptTokens: usage.promptTokens,
      tokens: output.length - 1,
    };
  }

  /** Again with another prompt where an end token came early. @param {number} prompt @param {number} tokens */
  async function measureWhole(prompt, tokens) {
    for (let tries = 0; tries < 5; tries++) {
      const result = await measure(prompt, tokens);
      if (result.tokens === tokens) return result;
    }
    throw new Error('random weights chose the end token five times');
  }

  const facts = /** @type {Record<string, any>} */ ({
    build: info.build,
    threads: info.threads,
    timings: info.timings,
    engineMs,
    modelMs: ready - since - engineMs,
    heap: (await model.memory()).total,
    weightBytes: model.info.weightBytes,
    kvBytes: model.info.kvBytes,
  });
  return {
    measure: measureWhole,
    /** The very first prompt, its session included, and the same arithmetic as soon as it is warm: later the machine may have another clock. */
    start: async () => {
      const start = performance.now();
      session = await model.createSession();
      await measure(16, 0);
      const startMs = performance.now() - start;
      const warm = [];
      for (let i = 0; i < 15; i++) warm.push((await measure(16, 0)).prefillMs);
      return { startMs, warm16Ms: warm.slice(10).sort((a, b) => a - b)[2] };
    },
    facts,
    close: () => engine.close(),
  };
}
