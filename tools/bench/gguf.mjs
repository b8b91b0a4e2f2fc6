#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/gguf.mjs [--types q4_0,q4_k] [--rounds N]`: the same weights as GGUF and as .bq4, which `convert` makes of it, in Node,
// one thread: decode and prefill in tokens per second, warm load (from the cache that a first load over HTTP left) in ms and what the process
// computed in it, which other programs disturb less; medians of rounds in turns, and ratios of the two. Then what is read or multiplied of the
// weights as they lie in memory, in bytes per second, beside bq4h of the same shape. Random weights; K-quants in a width of 1,024, as 576 is no multiple of their 256.
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
import { machine } from './machine.mjs';
import { median } from './stats.mjs';

const FOLDER = 'build/bench/models';
const WIDE = { ...SHAPES['135m'], hidden: 1024, layers: 12, heads: 16, kv_heads: 4, ffn: 2816, vocab: 32000 };
const [PROMPT, TOKENS] = [128, 48];
const { values } = parseArgs({
  options: {
    types: { type: 'string', default: 'q4_0,q8_0,q4_1,q4_k,q5_k,q6_k,q3_k,q2_k' },
    rounds: { type: 'string', default: '5' },
  },
});
const rounds = Number(values.rounds);
const shapeOf = (/** @type {string} */ type) => (/^q\d_[01]$/.test(type) ? SHAPES['135m'] : WIDE);

/** Both files of a type. @param {string} type @param {string} python */
async function provide(type, python) {
  const shape = shapeOf(type);
  const paths = ['gguf', 'bq4'].map((end) => `${FOLDER}/${shape.hidden}-${type}.${end}`);
  const [gguf, bq4] = paths.map((path) => join(ROOT, path));
  const embed = shape === WIDE ? 'q6_k' : 'q8_0';
  if (!existsSync(gguf))
    await step(`making ${paths[0]}`, () =>
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
    await step(`making ${paths[1]}`, () => run(process.execPath, [join(ROOT, 'bin/bq4.js'), 'convert', gguf, bq4]));
  return paths;
}

/** @param {import('../../js/shared/types.js').Session} session @param {number} vocab @param {number} seed */
async function once(session, vocab, seed) {
  // The first token is another one each time, so nothing is reused.
  const ids = Array.from({ length: PROMPT }, (_, i) => 300 + ((seed * 7919 + i * 104729) % (vocab - 600)));
  const { timings, tokens: output } = await session.generate(ids, {
    temperature: 0,
    maxTokens: TOKENS + 1,
    speculate: false,
  }).result;
  return { prefill: (PROMPT / timings.prefillMs) * 1e3, decode: ((output.length - 1) / timings.decodeMs) * 1e3 };
}

/** Rates of several files in turns. @param {string[]} paths @param {number} vocab */
async function rates(paths, vocab) {
  const engine = await createEngine({ threads: 1 });
  const models = [];
  for (const path of paths)
    models.push(await engine.load(fromFile(join(ROOT, path)), { contextTokens: 512, activations: 'i8' }));
  const sessions = await Promise.all(models.map((model) => model.createSession()));
  const all = paths.map(() => /** @type {{ prefill: number[], decode: number[] }} */ ({ prefill: [], decode: [] }));
  for (let round = -1; round < rounds; round++)
    for (const [i, session] of sessions.entries()) {
      const { prefill, decode } = await once(session, vocab, round + 2);
      if (round < 0) continue; // the first warms up
      all[i].prefill.push(prefill);
      all[i].decode.push(decode);
    }
  const bytes = models.map(({ info }) => info.weightBytes);
  await engine.close();
  return { all, bytes };
}

/** Loads from the cache, in turns. @param {string[]} paths @param {string} site */
async function warmLoads(paths, site) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
  const engine = await createEngine({ threads: 1, cache: { path: folder } });
  const ms = paths.map(() => /** @type {number[]} */ ([]));
  const computed = paths.map(() => /** @type {number[]} */ ([]));
  try {
    for (let round = -1; round < rounds; round++)
      for (const [i, path] of paths.entries()) {
        const [since, used] = [performance.now(), process.cpuUsage()];
        const model = await engine.load(fromUrl(`${site}${path}`), { contextTokens: 512, activations: 'i8' });
        const { user, system } = process.cpuUsage(used);
        if (round >= 0) ms[i].push(performance.now() - since);
        if (round >= 0) computed[i].push((user + system) / 1e3);
        await model.close();
      }
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true });
  }
  return { ms, computed };
}

/** Of pairs. @param {number[]} a @param {number[]} b */
const ratio = (a, b) => median(a.map((x, i) => x / b[i])).toFixed(2);
const middle = (/** @type {number[]} */ list, digits = 1) => median(list).toFixed(digits);

/** Rates times the bytes that a token takes, beside another's: what is read or multiplied of the weights as they lie in memory. @param {number[]} rates @param {number} bytes @param {number[]} others @param {number} otherBytes */
const perByte = (rates, bytes, others, otherBytes) => (Number(ratio(rates, others)) * (bytes / otherBytes)).toFixed(2);

/** A file of bq4h in a shape. @param {Record<string, any>} shape */
async function plainFile(shape) {
  const path = `${FOLDER}/${shape.hidden}-bq4h.bq4`;
  if (!existsSync(join(ROOT, path)))
    await makeRandom(shape, await fileSink(join(ROOT, path)), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
  return path;
}

await command(async () => {
  const python = await benchPython(await setUp({ tests: true }));
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  const site = await serve({ root: ROOT, folders: ['build/bench'] });
  console.log(`${machine().cpu}, ${rounds} rounds, GGUF / .bq4 (ratio); per byte: beside bq4h of the same shape`);
  const titles = ['type', 'decode tokens/s', 'prefill tokens/s', 'warm load ms', 'of it computing'];
  console.log([...titles, 'decode per byte', 'prefill per byte'].map((name) => name.padEnd(24)).join(''));
  try {
    for (const type of values.types.split(',')) {
      const shape = shapeOf(type);
      const paths = await provide(type, python);
      const {
        all: [gguf, bq4, plain],
        bytes: [own, , plainBytes],
      } = await rates([...paths, await plainFile(shape)], shape.vocab);
      const { ms: loads, computed } = await warmLoads(paths, site.url);
      // A prompt meets the head once, in 8 bits: what it meets with each token are the layers.
      const head = (shape.vocab * shape.hidden * 8.5) / 8;
      console.log(
        [
          type,
          `${middle(gguf.decode)} / ${middle(bq4.decode)} (${ratio(gguf.decode, bq4.decode)})`,
          `${middle(gguf.prefill, 0)} / ${middle(bq4.prefill, 0)} (${ratio(gguf.prefill, bq4.prefill)})`,
          ...[loads, computed].map(([a, b]) => `${middle(a, 0)} / ${middle(b, 0)} (${ratio(b, a)})`),
          perByte(gguf.decode, own, plain.decode, plainBytes),
          perByte(gguf.prefill, own - head, plain.prefill, plainBytes - head),
        ]
          .map((cell) => cell.padEnd(24))
          .join(''),
      );
    }
  } finally {
    await site.close();
  }
});
