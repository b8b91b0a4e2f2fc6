// Measures the speed and the memory of converting a checkpoint of half a billion weights.
//
//   node tests/bench/convert.mjs [TYPE...]      default: bq4 bq4a bq8
//
// The checkpoint (0.5B shape, vocabulary 151,936, bf16, 988 MB) repeats 16 MB of normal weights; it is written to the temporary folder
// and removed. Each type is converted in a new process; "CPU time" is the time of all its threads, on which other load has less influence.
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bf16FromNumber } from '../../js/format/bq4/half.js';
import { tensorTable } from '../../js/format/bq4/names.js';
import { hfConfig, hfName } from '../js/checkpoints.mjs';

const CONFIG = {
  arch: 'llama',
  layers: 24,
  hidden: 896,
  heads: 14,
  kv_heads: 2,
  ffn: 4864,
  vocab: 151936,
  context: 2048,
  norm_eps: 1e-6,
  tied: true,
};
const BLOCK = 8 << 20;
const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-convert-'));
const input = join(folder, 'model');

/** Writes the checkpoint. */
function writeCheckpoint() {
  mkdirSync(input);
  /** @type {Record<string, any>} */
  const header = {};
  let at = 0;
  for (const { name, dims, required } of tensorTable(CONFIG))
    if (required)
      header[hfName(name)] = {
        dtype: 'BF16',
        shape: dims,
        data_offsets: [at, (at += 2 * dims.reduce((a, b) => a * b))],
      };
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random()) * 0.03;
  const block = Buffer.from(Uint16Array.from({ length: BLOCK }, () => bf16FromNumber(normal())).buffer);
  const fd = openSync(join(input, 'model.safetensors'), 'w');
  writeSync(fd, Buffer.concat([length, json]));
  for (let left = at; left > 0; left -= block.length) writeSync(fd, block, 0, Math.min(left, block.length));
  closeSync(fd);
  writeFileSync(join(input, 'config.json'), JSON.stringify(hfConfig(CONFIG)));
}

const script = `
  import { convert } from ${JSON.stringify(new URL('../../js/convert/index.js', import.meta.url).href)};
  const [from, to, quant] = process.argv.slice(1);
  const start = performance.now();
  const { weights, bytes, encoder } = await convert(from, to, { quant });
  const { user, system } = process.cpuUsage();
  console.log(JSON.stringify({ weights, bytes, encoder, seconds: (performance.now() - start) / 1e3, processor: (user + system) / 1e6, peak: process.resourceUsage().maxRSS * 1024 }));`;

try {
  writeCheckpoint();
  console.log('| type | build | M weights/s | by CPU time | peak memory, MB |\n|---|---|---|---|---|');
  for (const quant of process.argv.length > 2 ? process.argv.slice(2) : ['bq4', 'bq4a', 'bq8']) {
    const child = spawnSync(
      process.execPath,
      ['--input-type=module', '-e', script, input, join(folder, 'out.bq4'), quant],
      { encoding: 'utf8' },
    );
    if (child.status !== 0) throw new Error(child.stderr);
    const { weights, encoder, seconds, processor, peak } = JSON.parse(child.stdout);
    console.log(
      `| ${quant} | ${encoder} | ${(weights / seconds / 1e6).toFixed(1)} | ${(weights / processor / 1e6).toFixed(1)} | ${(peak / 1e6).toFixed(0)} |`,
    );
  }
} finally {
  rmSync(folder, { recursive: true });
}
