// How long a block of the KV cache should be: attention with other values of BQ_KV_BLOCK, each beside the tree's own.
//
//   node --no-liftoff tests/bench/kv-blocks.mjs [POSITIONS ...]     (32 64 128 512)
//
// Each length is built in a copy of the sources under build/kv-blocks; ab.mjs runs it and the tree's own in turn, five
// pairs at 1,900 positions. "times as fast" below 1: the tree's own length is the faster one.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findEmcc } from '../../tools/setup/emcc.mjs';

const root = join(fileURLToPath(import.meta.url), '../../..');
const BENCH = 'build/bench-kernels/attend.js';
const emcc = findEmcc();
if (!emcc) throw new Error('no emcc: `npm run build` fetches one');

/** @param {number | null} positions  null: as the tree has it @returns {string} the bench */
function built(positions) {
  const folder = join(root, 'build/kv-blocks', String(positions ?? 'own'));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const part of ['c', 'web', 'tests/c', 'tests/bench', 'tools', 'emscripten.mk', 'package.json'])
    cpSync(join(root, part), join(folder, part), { recursive: true });
  if (positions) {
    const header = join(folder, 'c/kernels/kernels.h');
    const before = readFileSync(header, 'utf8');
    const after = before.replace(/(#define BQ_KV_BLOCK )\d+u/, `$1${positions}u`);
    if (after === before) throw new Error(`${positions} positions are what the tree has, or BQ_KV_BLOCK is elsewhere`);
    writeFileSync(header, after);
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
const own = built(null);
for (const size of sizes.length ? sizes : [32, 64, 128, 512]) {
  const other = built(size);
  console.log(`blocks of ${size} positions`);
  execFileSync(
    process.execPath,
    [...process.execArgv, join(root, 'tests/bench/ab.mjs'), own, other, '--pairs', '5', '1900', '2'],
    { stdio: 'inherit' },
  );
}
