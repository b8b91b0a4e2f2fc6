// Compares lengths of a block of the KV cache: attention with other values of BQ_KV_BLOCK relative to the value of this checkout.
//
//   node --no-liftoff tests/bench/kv-blocks.mjs [POSITIONS ...]     (32 64 128 512)
//
// Each length is built in a copy of the sources in build/kv-blocks; ab.mjs runs it and this checkout's length in turn, five pairs at 1,900
// positions. "times as fast" below 1: the length of this checkout is faster.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findEmcc } from '../../tools/setup/emcc.mjs';

const root = join(fileURLToPath(import.meta.url), '../../..');
const BENCH = 'build/bench-kernels/attend.js';
const emcc = findEmcc();
if (!emcc) throw new Error('no emcc: `npm run build` fetches one');

/** Builds the benchmark with this length. @param {number | null} positions  null: the length of this checkout @returns {string} its path */
function buildBench(positions) {
  const folder = join(root, 'build/kv-blocks', String(positions ?? 'unchanged'));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const part of ['c', 'web', 'tests/c', 'tests/bench', 'tools', 'emscripten.mk', 'package.json'])
    cpSync(join(root, part), join(folder, part), { recursive: true });
  if (positions) {
    const header = join(folder, 'c/kernels/kernels.h');
    const source = readFileSync(header, 'utf8');
    const changed = source.replace(/(#define BQ_KV_BLOCK )\d+u/, `$1${positions}u`);
    if (changed === source)
      throw new Error(`expected a BQ_KV_BLOCK other than ${positions} in c/kernels/kernels.h, found none`);
    writeFileSync(header, changed);
  }
  const PATH = `${dirname(/** @type {{ path: string }} */ (emcc).path)}:${process.env.PATH}`;
  execFileSync('make', ['-s', '-f', 'emscripten.mk', BENCH], {
    cwd: folder,
    env: { ...process.env, PATH },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return join(folder, BENCH);
}

const sizes = process.argv.slice(2).map(Number);
const unchanged = buildBench(null);
for (const size of sizes.length ? sizes : [32, 64, 128, 512]) {
  const changedBuild = buildBench(size);
  console.log(`blocks of ${size} positions`);
  execFileSync(
    process.execPath,
    [...process.execArgv, join(root, 'tests/bench/ab.mjs'), unchanged, changedBuild, '--pairs', '5', '1900', '2'],
    { stdio: 'inherit' },
  );
}
