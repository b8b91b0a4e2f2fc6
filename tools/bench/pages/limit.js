// Compares decode steps with the time of their matrix products alone. Measures steps of the engine, products of the same matrices
// without anything between them (tests/bench/token.c), and a plain read of the same bytes, alternately in one page. Also measures the
// stages of a step.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { typeNamed } from '../../../js/format/bq4/weight-types.js';
import { random } from './page.js';
import { loadRates } from './repack.js';

/** Of one depth: median steps, and stages of a trace, milliseconds and bytes a token. @typedef {{ depth: number, steps: number, stepMs: number, stages: { stage: string, ms: number, weightBytes: number, kvBytes: number }[] }} Traced */

const [PROMPT, TOKENS, ROUNDS] = [128, 24, 5];

/** @param {readonly number[]} list */
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

/** Starts a worker that measures products and reads. @param {{ shape: Record<string, any>, sets: { type: string, head: string, table: string }[] }} what */
async function startLoops({ shape, sets }) {
  const worker = new Worker(new URL('./limit-worker.js', import.meta.url), { type: 'module' });
  /** @param {any} message @returns {Promise<any>} */
  const ask = (message) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message || 'the loops did not start'));
      worker.postMessage(message);
    });
  const { layers, hidden, heads, kv_heads: kvHeads = heads, ffn, vocab } = shape;
  const bytes = await ask({
    sets: sets.map(({ type, head, table }) => ({
      table,
      dims: [layers, hidden, kvHeads * (hidden / heads), ffn, vocab, typeNamed(type).id, typeNamed(head).id],
    })),
  });
  return {
    bytes: /** @type {number[]} */ (bytes),
    /** Returns the milliseconds of one repetition. @param {'multiply' | 'read'} work @param {number} set @returns {Promise<number>} */
    time: async (work, set) => (await ask({ work, set, times: TOKENS })).ms / TOKENS,
    /** Measures repacking of blocks of version 1 to tiles. @returns {Promise<{ ms: number, bytes: number }>}  of one repetition */
    tile: async () => {
      const { ms, bytes } = await ask({ work: 'tile', set: 1, times: 5 });
      return { ms: ms / 5, bytes };
    },
    end: () => worker.terminate(),
  };
}

/** @param {import('./page.js').Options} options */
export async function whole({ model: url, precision = '', shape, kv, variant, context }) {
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
  const model = await engine.load(
    fromUrl(new URL(url, location.href)),
    /** @type {any} */ ({ contextTokens: context, kv }),
  );
  const session = await model.createSession();

  /** Decodes after a prompt that is in the KV cache after the first call. @param {number[]} prompt @param {number} tokens */
  async function decode(prompt, tokens) {
    const { tokens: ids, timings } = await session.generate(prompt, {
      temperature: 0,
      maxTokens: tokens + 1,
      speculate: false,
    }).result;
    return { ids, ms: timings.decodeMs / tokens };
  }
  /** Finds a prompt whose continuation contains no end token. @param {number} length @param {number} tokens */
  async function promptOf(length, tokens) {
    for (let tries = 0; tries < 5; tries++) {
      const prompt = Array.from({ length }, () => 300 + random(shape.vocab - 600));
      if ((await decode(prompt, tokens)).ids.length === tokens + 1) return prompt;
    }
    throw new Error('random weights chose the end token five times');
  }
  /** @param {number} depth @param {number[]} prompt @param {number} tokens @returns {Promise<Traced>} */
  async function traced(depth, prompt, tokens) {
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

  const prompt = await promptOf(PROMPT, TOKENS);
  const all = {
    step: /** @type {number[]} */ ([]),
    bare: /** @type {number[]} */ ([]),
    bareF32: /** @type {number[]} */ ([]),
    bareSimd128: /** @type {number[]} */ ([]),
    read: /** @type {number[]} */ ([]),
  };
  for (let round = -1; round < ROUNDS; round++) {
    // The first round only warms up.
    const one = {
      step: (await decode(prompt, TOKENS)).ms,
      bare: await loops.time('multiply', 0),
      bareF32: await loops.time('multiply', 1),
      bareSimd128: await loops.time('multiply', 2),
      read: await loops.time('read', 0),
    };
    if (round >= 0)
      for (const name of /** @type {(keyof typeof all)[]} */ (Object.keys(all))) all[name].push(one[name]);
  }
  await loops.tile(); // warms up
  const tile = await loops.tile();
  loops.end();
  const traces = [await traced(PROMPT, prompt, TOKENS)];
  if (precision === 'bq4h+bq8' && context > 1950) traces.push(await traced(1900, await promptOf(1900, 12), 12));
  const { weightBytes, tokenWeights } = /** @type {any} */ (model.info);
  await engine.close();
  // Once is enough: it has nothing to do with the head's type.
  const loads =
    precision === 'bq4h+bq8'
      ? { tile, ...(await loadRates(shape, /** @type {import('../../../js/shared/types.js').Build} */ (table))) }
      : undefined;
  return {
    cells: [],
    facts: {
      limit: {
        ms: Object.fromEntries(Object.entries(all).map(([name, list]) => [name, median(list)])),
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
