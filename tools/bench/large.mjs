#!/usr/bin/env node
// `node_modules/.bin/node --expose-gc tools/bench/large.mjs [--types q4_k_m]`: measures a GGUF file with 500 million random
// weights (the 500m shape, Q4_0 with a Q8_0 embedding) and a byte-level vocabulary of 151,936 tokens, in Node with one thread. Prints the
// load plan, the heap, times of loading, of the first token and of decoding, and the memory of JavaScript in addition to the heap. With
// `--types q4_k_m` types and vocabulary are those of a typical downloaded file: Q5_0, Q8_0, Q4_K and Q6_K, as llama.cpp mixes them at
// 896 columns, and Qwen's tokens.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { SHAPES } from '../make_random.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, SetupError, step } from '../setup/shell.mjs';
import { vocabularies } from '../../tests/tools/vocabularies.mjs';
import { benchPython } from './install.mjs';
import { machine } from './machine.mjs';

/** Functions that make the model, by the types of its matrices. @type {Record<string, () => Promise<string[]>>} */
const MADE = {
  q4_0: async () => ['--bpe'],
  q4_k_m: async () => {
    const { paths, missing } = await vocabularies(['qwen3']);
    if (!paths) throw new SetupError(missing);
    return ['--vocabulary', paths.qwen3];
  },
};
const [PROMPT, TOKENS] = [128, 32];
const mb = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const ms = (/** @type {number} */ time) => `${time.toFixed(0)} ms`;

/** Returns the memory that JavaScript uses, without the wasm memory, which Node counts with array buffers. @param {number} heap */
async function scriptBytes(heap) {
  // Memory freed outside of the JavaScript heap is subtracted only in later turns of the event loop.
  for (let i = 0; i < 4; i++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + Math.max(external, arrayBuffers) - heap;
}

await command(async () => {
  if (!globalThis.gc) throw new SetupError('run it with node --expose-gc');
  const { types } = parseArgs({ options: { types: { type: 'string', default: 'q4_0' } } }).values;
  if (!Object.hasOwn(MADE, types)) throw new SetupError(`--types ${types}: there are ${Object.keys(MADE).join(', ')}`);
  const path = join(ROOT, `build/bench/models/500m-${types}-bpe.gguf`);
  if (!existsSync(path)) {
    const vocabulary = await MADE[types]();
    const python = await benchPython(await setUp({ tests: true }));
    mkdirSync(join(ROOT, 'build/bench/models'), { recursive: true });
    await step(`making ${path}`, () =>
      run(python, [
        join(ROOT, 'tools/bench/make_gguf.py'),
        path,
        '--quant',
        types,
        '--embed',
        'q8_0',
        ...vocabulary,
        '--shape',
        JSON.stringify(SHAPES['500m']),
      ]),
    );
  }
  const engine = await createEngine({ threads: 1 });
  const before = await scriptBytes(0);
  let since = performance.now();
  const plan = await engine.plan(fromFile(path));
  const planMs = performance.now() - since;
  let most = 0;
  const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().heapUsed)), 5);
  since = performance.now();
  const model = await engine.load(fromFile(path));
  const loadMs = performance.now() - since;
  clearInterval(watch);
  const session = await model.createSession();
  const text = Array.from({ length: PROMPT }, (_, i) => 300 + ((i * 104729) % 150000));
  const { timings, usage } = await session.generate(text, { temperature: 0, maxTokens: TOKENS + 1, speculate: false })
    .result;
  const memory = await model.memory();
  since = performance.now();
  const sentence = 'The quick brown fox jumps over the lazy dog. '.repeat(200);
  await model.tokenize(sentence);
  const tokenizeMs = performance.now() - since;
  const rows = {
    machine: machine().cpu,
    file: mb(statSync(path).size),
    vocabulary: String(model.info.tokenizer?.tokens),
    'plan, made in': ms(planMs),
    'heap as planned': mb(plan.heapBytes),
    heap: `${mb(memory.heap)}, ${memory.heap <= plan.heapBytes ? 'no more than planned' : 'MORE than planned'}`,
    'most of it used': mb(memory.peak),
    load: ms(loadMs),
    'prompt of 128, first token': ms(timings.firstTokenMs),
    prefill: `${((PROMPT / timings.prefillMs) * 1e3).toFixed(1)} tokens/s`,
    decode: `${(((usage.completionTokens - 1) / timings.decodeMs) * 1e3).toFixed(1)} tokens/s`,
    tokenize: `${(sentence.length / 1e3 / tokenizeMs).toFixed(1)} MB/s`,
    'JavaScript, before': mb(before),
    'JavaScript, after the load': mb(await scriptBytes(memory.total)),
    'JavaScript, most while loading': mb(most),
  };
  for (const [name, value] of Object.entries(rows)) console.log(`${name.padEnd(32)}${value}`);
  await engine.close();
});
