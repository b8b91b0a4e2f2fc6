#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/gguf.mjs [--types q4_0,q4_k] [--rounds N]`: compares GGUF files with the .bq4 files that `convert`
// writes for them, in Node with one thread. Measures decode and prefill in tokens per second, and the time of a load from the cache that a
// first load over HTTP has filled: its duration, and the CPU time of the process, which depends less on other programs. Prints medians of
// alternating rounds, and ratios. The last two columns are rates in bytes of weights in memory per second, relative to bq4h of the same
// shape. Weights are random. K types have a shape with 1,024 columns, since their blocks have 256 weights and 576 is no multiple of 256.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileSink } from '../../js/format/output.js';
import { createEngine, fromFile, fromUrl } from '../../js/node.js';
import { makeRandom, SHAPES } from '../make_random.mjs';
import { serve } from '../serve.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, step } from '../setup/shell.mjs';
import { benchPython } from './install.mjs';
import { readMachine } from './machine.mjs';
import { median } from './stats.mjs';

const FOLDER = 'build/bench/models';
const WIDE_SHAPE = { ...SHAPES['135m'], hidden: 1024, layers: 12, heads: 16, kv_heads: 4, ffn: 2816, vocab: 32000 };
const [PROMPT_TOKENS, DECODED_TOKENS] = [128, 48];
const { values } = parseArgs({
  options: {
    types: { type: 'string', default: 'q4_0,q8_0,q4_1,q4_k,q5_k,q6_k,q3_k,q2_k' },
    rounds: { type: 'string', default: '5' },
  },
});
const rounds = Number(values.rounds);
const shapeOf = (/** @type {string} */ type) => (/^q\d_[01]$/.test(type) ? SHAPES['135m'] : WIDE_SHAPE);

/** Creates the files of a type and returns their paths: GGUF, .bq4. @param {string} type @param {string} python */
async function provideFiles(type, python) {
  const shape = shapeOf(type);
  const paths = ['gguf', 'bq4'].map((extension) => `${FOLDER}/${shape.hidden}-${type}.${extension}`);
  const [gguf, bq4] = paths.map((path) => join(ROOT, path));
  const embed = shape === WIDE_SHAPE ? 'q6_k' : 'q8_0';
  if (!existsSync(gguf))
    await step(`writing ${paths[0]}`, () =>
      run(python, [
        join(ROOT, 'tools/bench/make_gguf.py'),
        gguf,
        '--quant',
        type,
        '--embed',
        embed,
        '--shape',
        JSON.stringify(shape),
      ]),
    );
  if (!existsSync(bq4))
    await step(`writing ${paths[1]}`, () => run(process.execPath, [join(ROOT, 'bin/bq4.js'), 'convert', gguf, bq4]));
  return paths;
}

/** Measures a prompt and the tokens after it, in tokens per second. @param {import('../../js/shared/types.js').Session} session @param {number} vocab @param {number} seed */
async function measureOnce(session, vocab, seed) {
  // The first token differs in each call, so the session reuses nothing.
  const ids = Array.from({ length: PROMPT_TOKENS }, (_, i) => 300 + ((seed * 7919 + i * 104729) % (vocab - 600)));
  const { timings, tokens: output } = await session.generate(ids, {
    temperature: 0,
    maxTokens: DECODED_TOKENS + 1,
    speculate: false,
  }).result;
  return { prefill: (PROMPT_TOKENS / timings.prefillMs) * 1e3, decode: ((output.length - 1) / timings.decodeMs) * 1e3 };
}

/** Returns the rates of several files, measured in alternation, and the bytes of their weights in memory. @param {string[]} paths @param {number} vocab */
async function measureRates(paths, vocab) {
  const engine = await createEngine({ threads: 1 });
  const models = [];
  for (const path of paths)
    models.push(await engine.load(fromFile(join(ROOT, path)), { contextTokens: 512, activations: 'i8' }));
  const sessions = await Promise.all(models.map((model) => model.createSession()));
  const ratesOf = paths.map(() => /** @type {{ prefill: number[], decode: number[] }} */ ({ prefill: [], decode: [] }));
  for (let round = -1; round < rounds; round++)
    for (const [i, session] of sessions.entries()) {
      const { prefill, decode } = await measureOnce(session, vocab, round + 2);
      if (round < 0) continue; // warm-up
      ratesOf[i].prefill.push(prefill);
      ratesOf[i].decode.push(decode);
    }
  const bytes = models.map(({ info }) => info.weightBytes);
  await engine.close();
  return { all: ratesOf, bytes };
}

/** Returns the durations and CPU times of loads from the cache, measured in alternation. @param {string[]} paths @param {string} site  address of the server */
async function measureWarmLoads(paths, site) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
  const engine = await createEngine({ threads: 1, cache: { path: folder } });
  const ms = paths.map(() => /** @type {number[]} */ ([]));
  const cpuMs = paths.map(() => /** @type {number[]} */ ([]));
  try {
    for (let round = -1; round < rounds; round++)
      for (const [i, path] of paths.entries()) {
        const [start, cpuStart] = [performance.now(), process.cpuUsage()];
        const model = await engine.load(fromUrl(`${site}${path}`), { contextTokens: 512, activations: 'i8' });
        const { user, system } = process.cpuUsage(cpuStart);
        if (round >= 0) ms[i].push(performance.now() - start);
        if (round >= 0) cpuMs[i].push((user + system) / 1e3);
        await model.close();
      }
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true });
  }
  return { ms, computed: cpuMs };
}

/** Returns the median of the ratios within a round, as text. @param {number[]} a @param {number[]} b */
const formatRatio = (a, b) => median(a.map((x, i) => x / b[i])).toFixed(2);
const formatMedian = (/** @type {number[]} */ list, digits = 1) => median(list).toFixed(digits);

/**
 * Returns the ratio of two rates in bytes of weights per second, as text.
 * @param {number[]} rates  tokens per second @param {number} bytes  bytes of weights that a token reads
 * @param {number[]} otherRates @param {number} otherBytes
 */
const formatPerByte = (rates, bytes, otherRates, otherBytes) =>
  (Number(formatRatio(rates, otherRates)) * (bytes / otherBytes)).toFixed(2);

/** Creates a bq4h file of a shape and returns its path. @param {Record<string, any>} shape */
async function provideReference(shape) {
  const path = `${FOLDER}/${shape.hidden}-bq4h.bq4`;
  if (!existsSync(join(ROOT, path)))
    await makeRandom(shape, await fileSink(join(ROOT, path)), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
  return path;
}

await command(async () => {
  const python = await benchPython(await setUp({ tests: true }));
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  const site = await serve({ root: ROOT, folders: ['build/bench'] });
  console.log(
    `${readMachine().cpu}, ${rounds} rounds, GGUF / .bq4 (ratio); per byte: relative to bq4h of the same shape`,
  );
  const titles = ['type', 'decode tokens/s', 'prefill tokens/s', 'warm load ms', 'its CPU time ms'];
  console.log([...titles, 'decode per byte', 'prefill per byte'].map((name) => name.padEnd(24)).join(''));
  try {
    for (const type of values.types.split(',')) {
      const shape = shapeOf(type);
      const paths = await provideFiles(type, python);
      const {
        all: [gguf, bq4, reference],
        bytes: [ggufBytes, , referenceBytes],
      } = await measureRates([...paths, await provideReference(shape)], shape.vocab);
      const { ms: loads, computed: cpuMs } = await measureWarmLoads(paths, site.url);
      // A prompt multiplies the LM head, which has 8 bits, only once. So prefill is measured by the weights of the layers.
      const headBytes = (shape.vocab * shape.hidden * 8.5) / 8;
      console.log(
        [
          type,
          `${formatMedian(gguf.decode)} / ${formatMedian(bq4.decode)} (${formatRatio(gguf.decode, bq4.decode)})`,
          `${formatMedian(gguf.prefill, 0)} / ${formatMedian(bq4.prefill, 0)} (${formatRatio(gguf.prefill, bq4.prefill)})`,
          ...[loads, cpuMs].map(([a, b]) => `${formatMedian(a, 0)} / ${formatMedian(b, 0)} (${formatRatio(b, a)})`),
          formatPerByte(gguf.decode, ggufBytes, reference.decode, referenceBytes),
          formatPerByte(gguf.prefill, ggufBytes - headBytes, reference.prefill, referenceBytes - headBytes),
        ]
          .map((cell) => cell.padEnd(24))
          .join(''),
      );
    }
  } finally {
    await site.close();
  }
});
