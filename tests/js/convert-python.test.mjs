// Tests of the converter and tools/export_bq4.py: both programs write the same bytes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { WRITABLE } from '../../js/format/bq4/weight-types.js';
import { createEngine, fromFile } from '../../js/node.js';
import { CONFIG, llama2c, randomWeights, tokenizerBin } from './checkpoints.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bq4-python-'));
after(() => rmSync(folder, { recursive: true }));
const at = (/** @type {string} */ name) => join(folder, name);
const python = (/** @type {string[]} */ ...args) =>
  execFileSync(process.env.BQ4_PYTHON ?? 'python3', ['-B', join(ROOT, 'tools/export_bq4.py'), ...args], {
    encoding: 'utf8',
  });

/** A v2 file without what differs by design: the random file id, and the sums over it. @param {string} path */
function comparable(path) {
  const bytes = readFileSync(path);
  const prefix = Number(bytes.readBigUInt64LE(24));
  bytes.fill(0, 40, 64);
  const sum = bytes.lastIndexOf('SUM8', prefix);
  return bytes.fill(0, sum + 16, sum + 24);
}

test('v2 in every type, and v1, from the same checkpoint', async () => {
  const config = { ...CONFIG, hidden: 36, heads: 3, kv_heads: 1, ffn: 50, tied: false };
  writeFileSync(at('model.bin'), llama2c(randomWeights(config), 'legacy', config));
  writeFileSync(at('tokenizer.bin'), tokenizerBin(config.vocab));
  // Python writes no blocks with a minimum, nor small weights.
  for (const quant of WRITABLE.filter((name) => !/^bq(4a|3|2|t)/.test(name))) {
    await convert(at('model.bin'), at('js.bq4'), { quant, embed: quant, license: 'MIT' });
    python(
      at('model.bin'),
      at('py.bq4'),
      '--quant',
      quant,
      '--embed',
      quant,
      '--tokenizer',
      at('tokenizer.bin'),
      '--license',
      'MIT',
    );
    assert.ok(comparable(at('js.bq4')).equals(comparable(at('py.bq4'))), quant);
  }
  await convert(at('model.bin'), at('js.bq4'), { v1: true });
  python(at('model.bin'), at('py.bq4'), '--v1', '--tokenizer', at('tokenizer.bin'));
  assert.deepEqual(readFileSync(at('py.bq4')), readFileSync(at('js.bq4')));
  const companion = (/** @type {string} */ name) => JSON.parse(readFileSync(at(name), 'utf8'));
  assert.deepEqual(companion('py.json').tensors, companion('js.json').tensors);
  assert.deepEqual(companion('py.json').tokenizer.tokens, companion('js.json').tokenizer.tokens);
});

test('files that Python exports from PyTorch checkpoints run', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  for (const name of ['llama2c.pt', 'nanogpt.pt']) {
    for (const version of [[], ['--v1']]) {
      python(join(ROOT, 'tests/py/checkpoints', name), at('out.bq4'), ...version);
      const model = await engine.load(fromFile(at('out.bq4')));
      const { tokens: ids } = await (await model.createSession()).generate([1, 2, 3], { maxTokens: 4, temperature: 0 })
        .result;
      assert.equal(ids.length, 4, `${name} ${version}`);
      await model.close();
    }
  }
  await engine.close();
});
