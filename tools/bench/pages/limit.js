// Compares decode steps with the time of their matrix products. Measures steps of the engine, products of matrices of the same sizes
// with nothing between them (tests/bench/token.c), and a plain read of the same bytes, alternately in one page. Also measures the stages
// of a step.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { typeNamed } from '../../../js/format/bq4/weight-types.js';
import { randomInteger } from './page.js';
import { measureLoads } from './repack.js';

/** Time of a decode step at a depth in milliseconds, and the stages of its trace: milliseconds and bytes per token. @typedef {{ depth: number, steps: number, stepMs: number, stages: { stage: string, ms: number, weightBytes: number, kvBytes: number }[] }} Traced */

const [PROMPT, TOKENS, ROUNDS] = [128, 24, 5];

/** Returns the median. @param {readonly number[]} list */
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

/** Starts a worker that measures products and reads. @param {{ shape: Record<string, any>, sets: { type: string, head: string, table: string }[] }} options */
async function startLoops({ shape, sets }) {
  const worker = new Worker(new URL('./limit-worker.js', import.meta.url), { type: 'module' });
  /** Sends a message to the worker and returns its reply. @param {any} message @returns {Promise<any>} */
  const callWorker = (message) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message || 'limit-worker.js could not be started'));
      worker.postMessage(message);
    });
  const { layers, hidden, heads, kv_heads: kvHeads = heads, ffn, vocab } = shape;
  const bytes = await callWorker({
    sets: sets.map(({ type, head, table }) => ({
      table,
      dims: [layers, hidden, kvHeads * (hidden / heads), ffn, vocab, typeNamed(type).id, typeNamed(head).id],
    })),
  });
  return {
    bytes: /** @type {number[]} */ (bytes),
    /** Returns the milliseconds of one repetition. @param {'multiply' | 'read'} work @param {number} set @returns {Promise<number>} */
    time: async (work, set) => (await callWorker({ work, set, times: TOKENS })).ms / TOKENS,
    /** Measures repacking of blocks of version 1 to tiles. @returns {Promise<{ ms: number, bytes: number }>}  of one repetition */
    tile: async () => {
      const { ms, bytes } = await callWorker({ work: 'tile', set: 1, times: 5 });
      return { ms: ms / 5, bytes };
    },
    end: () => worker.terminate(),
  };
}

/** Measures a model and its limits. @param {import('./page.js').Options} options */
export async function runBenchmark({ model: url, precision = '', shape, kv, variant, contextTokens }) {
  const [type, head] = precision.split('+');
  const table = String(variant);
  const loops = await startLoops({
    shape,
    sets: [
      { type, head, table },
      { type: 'bq4', head: head === type ? 'bq4' : head, table },
      { type, head, table: 'simd128' },
    ],
  });
  const engine = await createWorkerEngine(/** @type {any} */ ({ build: variant, threads: 1 }));
  const model = await engine.load(fromUrl(new URL(url, location.href)), /** @type {any} */ ({ contextTokens, kv }));
  const session = await model.createSession();

  /** Decodes tokens after a prompt, which is in the KV cache after the first call. @param {number[]} prompt @param {number} tokens */
  async function decode(prompt, tokens) {
    const { tokens: ids, timings } = await session.generate(prompt, {
      temperature: 0,
      maxTokens: tokens + 1,
      speculate: false,
    }).result;
    return { ids, ms: timings.decodeMs / tokens };
  }
  /** Finds a prompt whose continuation contains no end token. @param {number} length @param {number} tokens */
  async function findPrompt(length, tokens) {
    for (let tries = 0; tries < 5; tries++) {
      const prompt = Array.from({ length }, () => 300 + randomInteger(shape.vocab - 600));
      if ((await decode(prompt, tokens)).ids.length === tokens + 1) return prompt;
    }
    throw new Error('expected a reply without an end token, found one in five attempts');
  }
  /** Measures the stages of decode steps. @param {number} depth @param {number[]} prompt @param {number} tokens @returns {Promise<Traced>} */
  async function traceSteps(depth, prompt, tokens) {
    await session.trace({ on: true });
    const { ms } = await decode(prompt, tokens);
    // The last token of the prompt is computed again, so there is one more step than decoded tokens.
    const stages = (await session.trace({ on: false })).map(({ stage, ms, weightBytes, kvBytes }) => ({
      stage,
      ms: ms / (tokens + 1),
      weightBytes: weightBytes / (tokens + 1),
      kvBytes: kvBytes / (tokens + 1),
    }));
    return { depth, steps: tokens + 1, stepMs: ms, stages };
  }

  const prompt = await findPrompt(PROMPT, TOKENS);
  const msByWork = {
    step: /** @type {number[]} */ ([]),
    bare: /** @type {number[]} */ ([]),
    bareF32: /** @type {number[]} */ ([]),
    bareSimd128: /** @type {number[]} */ ([]),
    read: /** @type {number[]} */ ([]),
  };
  for (let round = -1; round < ROUNDS; round++) {
    // The first round is a warm-up.
    const roundMs = {
      step: (await decode(prompt, TOKENS)).ms,
      bare: await loops.time('multiply', 0),
      bareF32: await loops.time('multiply', 1),
      bareSimd128: await loops.time('multiply', 2),
      read: await loops.time('read', 0),
    };
    if (round >= 0)
      for (const name of /** @type {(keyof typeof msByWork)[]} */ (Object.keys(msByWork)))
        msByWork[name].push(roundMs[name]);
  }
  await loops.tile(); // warm-up
  const tile = await loops.tile();
  loops.end();
  const traces = [await traceSteps(PROMPT, prompt, TOKENS)];
  if (precision === 'bq4h+bq8' && contextTokens > 1950)
    traces.push(await traceSteps(1900, await findPrompt(1900, 12), 12));
  const { weightBytes, tokenWeights } = /** @type {any} */ (model.info);
  await engine.close();
  // Measured for one precision only, since the type of the LM head has no effect on it.
  const loads =
    precision === 'bq4h+bq8'
      ? { tile, ...(await measureLoads(shape, /** @type {import('../../../js/shared/types.js').Build} */ (table))) }
      : undefined;
  return {
    cells: [],
    facts: {
      limit: {
        ms: Object.fromEntries(Object.entries(msByWork).map(([name, list]) => [name, median(list)])),
        bytes: loops.bytes[0],
        bytesF32: loops.bytes[1],
        weights: tokenWeights,
        modelBytes: weightBytes,
      },
      traces,
      loads,
    },
  };
}
