#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/vocabulary.mjs [--rounds N]`: measures the cost of a large vocabulary at the first load. The vocabularies have
// 151,936 byte-level tokens with merges, and 262,144 SentencePiece tokens. Each belongs to a model with one small layer, as GGUF and as
// .bq4 made by `convert`. Each load is the first in a new process. Prints medians of the duration of load() and of the CPU time of all
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
import { machine } from './machine.mjs';
import { median } from './stats.mjs';

const FOLDER = 'build/bench/models';
const SMALL = { ...SHAPES['tiny-llama'], hidden: 64, layers: 1, heads: 4, kv_heads: 4, ffn: 96 };
const VOCABULARIES = [
  { name: 'byte-level', tokens: 151936, more: ['--bpe'] },
  { name: 'SentencePiece', tokens: 262144, more: [] },
];
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' }, load: { type: 'string' } } });

/** Measures a load in a new process. @param {string} path */
async function loadOnce(path) {
  const engine = await createEngine({ threads: 1 });
  const [since, used] = [performance.now(), process.cpuUsage()];
  await engine.load(fromFile(path), { contextTokens: 64 });
  const { user, system } = process.cpuUsage(used);
  console.log(JSON.stringify([performance.now() - since, (user + system) / 1e3]));
  await engine.close();
}

/** @param {string} path @returns {[wall: number, cpu: number]} ms */
function loadApart(path) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), '--load', path]);
  if (status) throw new SetupError(String(stderr));
  return JSON.parse(String(stdout));
}

async function compare() {
  const python = await benchPython(await setUp({ tests: true }));
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  console.log(`${machine().cpu}, ${values.rounds} rounds, ms (of them computing)`);
  for (const { name, tokens, more } of VOCABULARIES) {
    const gguf = join(ROOT, FOLDER, `vocabulary-${tokens}.gguf`);
    const bq4 = gguf.replace('.gguf', '.bq4');
    const shape = JSON.stringify({ ...SMALL, vocab: tokens });
    if (!existsSync(gguf))
      await step(`making ${gguf}`, () =>
        run(python, [join(ROOT, 'tools/bench/make_gguf.py'), gguf, '--quant', 'q8_0', '--shape', shape, ...more]),
      );
    if (!existsSync(bq4))
      await step(`making ${bq4}`, () => run(process.execPath, [join(ROOT, 'bin/bq4.js'), 'convert', gguf, bq4]));
    const times = Array.from({ length: Number(values.rounds) }, () => [gguf, bq4].map(loadApart));
    const middle = (/** @type {number} */ file, /** @type {number} */ which) =>
      median(times.map((round) => round[file][which])).toFixed(0);
    console.log(
      `${tokens} tokens, ${name}: GGUF ${middle(0, 0)} (${middle(0, 1)}), .bq4 ${middle(1, 0)} (${middle(1, 1)})`,
    );
  }
}

await command(() => (values.load ? loadOnce(values.load) : compare()));
