#!/usr/bin/env node
// `node_modules/.bin/node --expose-gc tools/bench/large.mjs [--types q4_k_m]`: measures a GGUF file with 500 million random
// weights (the 500m shape, Q4_0 with a Q8_0 embedding) and a byte-level vocabulary of 151,936 tokens, in Node with one thread. Prints the
// duration of the load plan, the heap, the times of loading, of the first token and of decoding, and the memory of JavaScript in addition
// to the heap. With `--types q4_k_m` the file has the types and the vocabulary of a typical downloaded file: Q5_0, Q8_0, Q4_K and Q6_K in
// llama.cpp's mix for 896 columns, and Qwen's tokens.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { SHAPES } from '../make_random.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, SetupError, step } from '../setup/shell.mjs';
import { vocabularies } from '../../tests/tools/vocabularies.mjs';
import { benchPython } from './install.mjs';
import { readMachine } from './machine.mjs';

/** Functions that return options of make_gguf.py for the vocabulary, by the types of the matrices. @type {Record<string, () => Promise<string[]>>} */
const VOCABULARY_OPTIONS = {
  q4_0: async () => ['--bpe'],
  q4_k_m: async () => {
    const { paths, missing } = await vocabularies(['qwen3']);
    if (!paths) throw new SetupError(missing);
    return ['--vocabulary', paths.qwen3];
  },
};
const [PROMPT_TOKENS, DECODED_TOKENS] = [128, 32];
const formatMegabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const formatMs = (/** @type {number} */ time) => `${time.toFixed(0)} ms`;

/** Returns the memory that JavaScript uses, without the wasm memory, which Node counts with array buffers. @param {number} heap */
async function measureScriptBytes(heap) {
  // V8 subtracts memory that was freed outside of the JavaScript heap only in later turns of the event loop.
  for (let i = 0; i < 4; i++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + Math.max(external, arrayBuffers) - heap;
}

await command(async () => {
  if (!globalThis.gc) throw new SetupError('expected the option --expose-gc of Node');
  const { types } = parseArgs({ options: { types: { type: 'string', default: 'q4_0' } } }).values;
  if (!Object.hasOwn(VOCABULARY_OPTIONS, types))
    throw new SetupError(`expected --types ${Object.keys(VOCABULARY_OPTIONS).join(' or ')}, found "${types}"`);
  const path = join(ROOT, `build/bench/models/500m-${types}-bpe.gguf`);
  if (!existsSync(path)) {
    const vocabulary = await VOCABULARY_OPTIONS[types]();
    const python = await benchPython(await setUp({ tests: true }));
    mkdirSync(join(ROOT, 'build/bench/models'), { recursive: true });
    await step(`writing ${path}`, () =>
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
  const bytesBefore = await measureScriptBytes(0);
  let start = performance.now();
  const plan = await engine.plan(fromFile(path));
  const planMs = performance.now() - start;
  let peakHeap = 0;
  const timer = setInterval(() => (peakHeap = Math.max(peakHeap, process.memoryUsage().heapUsed)), 5);
  start = performance.now();
  const model = await engine.load(fromFile(path));
  const loadMs = performance.now() - start;
  clearInterval(timer);
  const session = await model.createSession();
  const prompt = Array.from({ length: PROMPT_TOKENS }, (_, i) => 300 + ((i * 104729) % 150000));
  const { timings, usage } = await session.generate(prompt, {
    temperature: 0,
    maxTokens: DECODED_TOKENS + 1,
    speculate: false,
  }).result;
  const memory = await model.memory();
  start = performance.now();
  const sentence = 'The quick brown fox jumps over the lazy dog. '.repeat(200);
  await model.tokenize(sentence);
  const tokenizeMs = performance.now() - start;
  const rows = {
    machine: readMachine().cpu,
    file: formatMegabytes(statSync(path).size),
    vocabulary: String(model.info.tokenizer?.tokens),
    'plan, duration': formatMs(planMs),
    'heap as planned': formatMegabytes(plan.heapBytes),
    heap: `${formatMegabytes(memory.heap)}, ${memory.heap <= plan.heapBytes ? 'at most the plan' : 'MORE than the plan'}`,
    'largest part of it in use': formatMegabytes(memory.peak),
    load: formatMs(loadMs),
    'prompt of 128 to first token': formatMs(timings.prefillMs + timings.firstTokenMs),
    prefill: `${((PROMPT_TOKENS / timings.prefillMs) * 1e3).toFixed(1)} tokens/s`,
    decode: `${(((usage.completionTokens - 1) / timings.decodeMs) * 1e3).toFixed(1)} tokens/s`,
    tokenize: `${(sentence.length / 1e3 / tokenizeMs).toFixed(1)} MB/s`,
    'JavaScript, before': formatMegabytes(bytesBefore),
    'JavaScript, after the load': formatMegabytes(await measureScriptBytes(memory.total)),
    'JavaScript, peak during the load': formatMegabytes(peakHeap),
  };
  for (const [name, value] of Object.entries(rows)) console.log(`${name.padEnd(32)}${value}`);
  await engine.close();
});
