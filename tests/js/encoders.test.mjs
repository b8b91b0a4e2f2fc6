// Tests of encoders other than BERT (embed.test.mjs): vectors equal the hidden states of transformers.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { modelRows } from '../models-report.mjs';

const FIXTURES = fileURLToPath(new URL('../golden/fixtures', import.meta.url));
const TOLERANCE = 1e-3;
const folder = mkdtempSync(join(tmpdir(), 'bq4-encoders-'));
after(() => rmSync(folder, { recursive: true }));

/** @type {Record<string, string | number>[]} */
const rows = [];
after(() => modelRows('architectures', 'encoders', rows));

const NAMES = [
  'roberta',
  'distilbert',
  'nomic-bert',
  'gemma-embedding',
  'embedding-gemma2',
  'modern-bert',
  'mpnet',
  'jina-bert-v2',
  'jina-v3',
  'eurobert',
  'llama-bidirec',
  'nomic-moe',
  'nomic-moe-unbiased',
];
// llama.cpp has no MPNet and no bias of experts.
for (const [name, source] of NAMES.flatMap((name) => [
  [name, 'safetensors'],
  ...(['mpnet', 'nomic-moe'].includes(name) ? [] : [[name, 'GGUF']]),
]))
  test(`${name} from ${source}: hidden states of PyTorch at the first and last position, and their mean`, async () => {
    const {
      ids,
      hidden,
      states,
      made_with: output,
    } = JSON.parse(readFileSync(join(FIXTURES, name, 'expected.json'), 'utf8'));
    const expected = new Float32Array(Uint8Array.from(Buffer.from(states, 'base64')).buffer);
    const state = (/** @type {number} */ i) => expected.subarray(i * hidden, (i + 1) * hidden);
    const mean = Float32Array.from({ length: hidden }, (_, k) => {
      const column = ids.map((/** @type {number} */ _id, /** @type {number} */ i) => state(i)[k]);
      return column.reduce((/** @type {number} */ sum, /** @type {number} */ x) => sum + x, 0) / ids.length;
    });
    const path = source === 'GGUF' ? join(FIXTURES, '..', 'gguf', `${name}.gguf`) : join(folder, `${name}.bq4`);
    if (source !== 'GGUF') await convert(join(FIXTURES, name), path, { quant: 'f32' });
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    const model = await engine.load(fromFile(path));
    let error = 0;
    for (const [pooling, vector] of /** @type {['cls' | 'last' | 'mean', Float32Array][]} */ ([
      ['cls', state(0)],
      ['last', state(ids.length - 1)],
      ['mean', mean],
    ])) {
      const {
        vectors: [found],
      } = await model.embed([ids], { pooling, normalize: false });
      found.forEach((x, k) => (error = Math.max(error, Math.abs(x - vector[k]))));
    }
    await engine.close();
    rows.push({ architecture: name, source, error, against: `transformers ${output.transformers}` });
    assert.ok(error < TOLERANCE, `${error}`);
  });
