// Runs in the measured browser: loads models with random weights, and measures prompts, decoding and embeddings.
import { createWorkerEngine } from '../../js/index.js';

/** @type {{ engine: import('../../js/index.js').Engine, model: import('../../js/index.js').Model }[]} */
const models = [];

/** Loads a model in an engine of its own, and returns its plan. @param {{ url: string, threads: number, context: number }} options */
async function open({ url, threads, context }) {
  const engine = await createWorkerEngine({ threads });
  const options = { contextTokens: context };
  const { heapBytes: plannedBytes, sessionBytes, kvBytes } = await engine.plan(url, options);
  const start = performance.now();
  const model = await engine.load(url, options);
  models.push({ engine, model });
  return { plannedBytes, sessionBytes, kvBytes, loadMs: performance.now() - start };
}

/** Number of calls, which makes each prompt different. */
let callCount = 0;

/** Returns token ids of a new prompt. @param {number} count */
const newPrompt = (count) =>
  Array.from({ length: count }, (_, i) => (i ? 500 + ((i * 37) % 5000) : 300 + (++callCount % 4000)));

/** Truncates a session and returns the milliseconds of the next token. @param {import('../../js/index.js').Session} session @param {number} tokens */
async function truncateMs(session, tokens) {
  await session.truncate(tokens);
  const start = performance.now();
  await session.continue({ temperature: 0, maxTokens: 1, speculate: false }).result;
  return performance.now() - start;
}

/**
 * Measures a prompt and the tokens after it in a new session of model `i`; then the next token after a return by one token, and after one
 * to the last token of a block of the KV cache, from where recurrent layers compute the block again.
 * @param {{ i: number, prompt: number, tokens: number, block: number }} options  `block`: positions of a block
 */
async function generate({ i, prompt, tokens, block }) {
  const { model } = models[i];
  const session = await model.createSession();
  const { timings, usage } = await session.generate(newPrompt(prompt), {
    temperature: 0,
    maxTokens: tokens,
    speculate: false,
  }).result;
  // The last token is not computed yet.
  const length = prompt + usage.completionTokens - 1;
  const byOneMs = await truncateMs(session, length - 1);
  const intoBlockMs = await truncateMs(session, block * Math.floor(length / block) - 1);
  await session.close();
  return {
    byOneMs,
    intoBlockMs,
    prefill: prompt / (timings.prefillMs / 1e3),
    decode: (usage.completionTokens - 1) / (timings.decodeMs / 1e3),
    firstTokenMs: timings.prefillMs + timings.firstTokenMs,
    heapBytes: (await model.memory()).heap,
  };
}

/**
 * Measures the embeddings of texts. A letter is a token of the random tokenizer, and a text has two tokens more.
 * @param {{ i: number, texts: number, tokens: number }} options
 */
async function embed({ i, texts, tokens }) {
  const { model } = models[i];
  const list = Array.from({ length: texts }, () =>
    String.fromCharCode(...newPrompt(tokens - 2).map((id) => 97 + (id % 26))),
  );
  const start = performance.now();
  await model.embed(list);
  return { texts: texts / ((performance.now() - start) / 1e3), heapBytes: (await model.memory()).heap };
}

/** Closes all models. */
async function closeModels() {
  for (const { engine } of models.splice(0)) await engine.close();
}

Object.assign(globalThis, { open, generate, embed, closeModels, benchReady: true });
