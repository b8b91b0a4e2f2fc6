// Tests that conversion takes little memory for every input format: files of the 135M shape whose weights are a sparse region, read as
// zeros. convert.test.mjs tests safetensors.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { tensorTable } from '../../js/format/bq4/names.js';
import { SHAPES } from '../../tools/make_random.mjs';
import { hfConfig, hfName } from './checkpoints.mjs';
import { ggufHead, ggufName, randomMetadata } from './gguf-writer.mjs';
import { archiveLayout, torchPickle } from './torch-writer.mjs';

const BQ4 = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
/** Tells at its end what memory a process had at most. */
const WATCH = `data:text/javascript,process.on('exit',()=>process._rawDebug('peak '+process.resourceUsage().maxRSS))`;
/** @type {Record<string, any>} */
const CONFIG = { ...SHAPES['135m'], arch: 'llama' };
const TENSORS = tensorTable(CONFIG).filter(({ required }) => required);
const weightsOf = (/** @type {number[]} */ dims) => dims.reduce((a, b) => a * b, 1);

const folder = mkdtempSync(join(tmpdir(), 'bq4-memory-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} path @param {[number, Uint8Array][]} parts  and where they lie @param {number} length */
function withHoles(path, parts, length) {
  const fd = openSync(path, 'w');
  for (const [at, bytes] of parts) writeSync(fd, bytes, 0, bytes.length, at);
  closeSync(fd);
  truncateSync(path, length);
  return path;
}

/** As torch.save writes it, in f16. */
function pytorch() {
  const at = join(folder, 'pytorch');
  mkdirSync(at);
  writeFileSync(join(at, 'config.json'), JSON.stringify(hfConfig(CONFIG)));
  const pickle = torchPickle(
    TENSORS.map(({ name, dims }) => [hfName(name), { dims, values: { length: weightsOf(dims) } }]),
    '',
    'HalfStorage',
  );
  const { parts, places, length } = archiveLayout([
    ['m/data.pkl', pickle],
    ...TENSORS.map(({ dims }, i) => /** @type {[string, any]} */ ([`m/data/${i}`, { length: 2 * weightsOf(dims) }])),
  ]);
  withHoles(join(at, 'pytorch_model.bin'), [...parts, [places[0], pickle]], length);
  return at;
}

/** Q8_0, norms in f32. */
function gguf() {
  const tensors = TENSORS.map(({ name, dims }) => ({
    name: ggufName(name),
    dims,
    type: dims.length === 1 ? 0 : 8,
    bytes: { length: dims.length === 1 ? 4 * dims[0] : (weightsOf(dims) / 32) * 34 },
  }));
  const head = ggufHead(randomMetadata(CONFIG), tensors);
  const length = tensors.reduce((sum, { bytes }) => sum + Math.ceil(bytes.length / 32) * 32, head.length);
  return withHoles(join(folder, 'model.gguf'), [[0, head]], length);
}

/** f32 without a head, as it is tied. */
function llama2c() {
  const { hidden, ffn, layers, heads, kv_heads: kvHeads, vocab, context } = CONFIG;
  const header = Buffer.from(Int32Array.of(hidden, ffn, layers, heads, kvHeads, vocab, context).buffer);
  const rope = context * (hidden / heads);
  const weights = TENSORS.reduce((sum, { dims }) => sum + weightsOf(dims), 0);
  return withHoles(join(folder, 'model.bin'), [[0, header]], 28 + 4 * (weights + rope));
}

for (const [what, { make, options }] of Object.entries({
  'pytorch_model.bin': { make: pytorch, options: [] },
  'a GGUF file, kept as it is': { make: gguf, options: [] },
  'a GGUF file, encoded anew': { make: gguf, options: ['--quant', 'bq4a'] },
  'a .bin of llama2.c': { make: llama2c, options: [] },
}))
  test(`135 million weights in at most 300 MB: ${what}`, () => {
    const [input, output] = [make(), join(folder, 'out.bq4')];
    const { status, stderr } = spawnSync(
      process.execPath,
      ['--import', WATCH, BQ4, 'convert', input, output, ...options],
      { encoding: 'utf8' },
    );
    assert.equal(status, 0, stderr);
    const peak = 1024 * Number(/^peak (\d+)$/m.exec(stderr)?.[1]);
    assert.ok(peak < 300e6, `${peak} bytes of memory at most`);
    assert.ok(statSync(output).size > 70e6, `${statSync(output).size} bytes of file`);
    rmSync(input, { recursive: true });
  });
