#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/vocabulary.mjs [--rounds N]`: measures the cost of a large vocabulary at the first load. The vocabularies have
// 151,936 byte-level tokens with merges, and 262,144 SentencePiece tokens. Each belongs to a model with one small layer, as GGUF and as
// the .bq4 file that `convert` writes for it. Each load is the first in a new process. Prints medians of the duration of load() and of the CPU time of all
// threads of the process, which depends less on other programs.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { SHAPES } from '../make_random.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, SetupError, step } from '../setup/shell.mjs';
import { benchPython } from './install.mjs';
import { readMachine } from './machine.mjs';
import { median } from './stats.mjs';

const FOLDER = 'build/bench/models';
const SMALL_SHAPE = { ...SHAPES['tiny-llama'], hidden: 64, layers: 1, heads: 4, kv_heads: 4, ffn: 96 };
const VOCABULARIES = [
  { name: 'byte-level', tokens: 151936, options: ['--bpe'] },
  { name: 'SentencePiece', tokens: 262144, options: [] },
];
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' }, load: { type: 'string' } } });

/** Measures the first load of this process and prints its duration and CPU time. @param {string} path */
async function loadOnce(path) {
  const engine = await createEngine({ threads: 1 });
  const [start, cpuStart] = [performance.now(), process.cpuUsage()];
  await engine.load(fromFile(path), { contextTokens: 64 });
  const { user, system } = process.cpuUsage(cpuStart);
  console.log(JSON.stringify([performance.now() - start, (user + system) / 1e3]));
  await engine.close();
}

/** Measures a load in a new process. @param {string} path @returns {[wall: number, cpu: number]}  milliseconds */
function loadInProcess(path) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), '--load', path]);
  if (status) throw new SetupError(String(stderr));
  return JSON.parse(String(stdout));
}

/** Measures all files and prints the medians. */
async function compareFiles() {
  const python = await benchPython(await setUp({ tests: true }));
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  console.log(`${readMachine().cpu}, ${values.rounds} rounds, duration in ms (CPU time)`);
  for (const { name, tokens, options } of VOCABULARIES) {
    const gguf = join(ROOT, FOLDER, `vocabulary-${tokens}.gguf`);
    const bq4 = gguf.replace('.gguf', '.bq4');
    const shape = JSON.stringify({ ...SMALL_SHAPE, vocab: tokens });
    if (!existsSync(gguf))
      await step(`writing ${gguf}`, () =>
        run(python, [join(ROOT, 'tools/bench/make_gguf.py'), gguf, '--quant', 'q8_0', '--shape', shape, ...options]),
      );
    if (!existsSync(bq4))
      await step(`writing ${bq4}`, () => run(process.execPath, [join(ROOT, 'bin/bq4.js'), 'convert', gguf, bq4]));
    const times = Array.from({ length: Number(values.rounds) }, () => [gguf, bq4].map(loadInProcess));
    const formatMedian = (/** @type {number} */ fileIndex, /** @type {number} */ timeIndex) =>
      median(times.map((round) => round[fileIndex][timeIndex])).toFixed(0);
    console.log(
      `${tokens} tokens, ${name}: GGUF ${formatMedian(0, 0)} (${formatMedian(0, 1)}), .bq4 ${formatMedian(1, 0)} (${formatMedian(1, 1)})`,
    );
  }
}

await command(() => (values.load ? loadOnce(values.load) : compareFiles()));
