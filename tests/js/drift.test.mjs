// Tests of rounding one input after the other: moments of inputs that follow rounded matrices.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from '../../bin/inspect.js';
import { Calibrator } from '../../js/quantize/calibrate.js';
import { Drift } from '../../js/quantize/drift.js';
import { inputOf } from '../../js/quantize/calibration-model.js';
import { fromFile } from '../../js/storage/sources/index.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { testFolder } from './folders.mjs';
import { writeLetterTokenizer } from './letter-tokenizer.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = testFolder('drift').fresh();
const [floats, text] = ['f32.bq4', 'text.txt'].map((name) => join(folder, name));
const TEXT =
  'The rain fell in torrents, except at times, when a wind swept up the street and rattled along the roofs. ';

/** @param {string[]} args */
function bq4(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'bin/bq4.js'), ...args], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

bq4('convert', join(root, 'tests/golden/tiny'), floats, '--quant', 'f32', '--embed', 'f32');
writeFileSync(text, TEXT);
const tensors = (await inspect(openBytes(new Uint8Array(readFileSync(floats))))).tensors.filter(({ name }) =>
  inputOf(name),
);
/** @param {string} name */
const weightsOf = (name) => {
  const { offset, bytes } = /** @type {any} */ (tensors.find((each) => each.name === name));
  return new Float32Array(new Uint8Array(readFileSync(floats).subarray(offset, offset + bytes)).buffer);
};
const opened = () =>
  Drift.open(fromFile(floats), TEXT, /** @type {any} */ (tensors.map(({ name, dims }) => ({ slot: { name, dims } }))));
/** @param {Float32Array} values */
const largest = (values) => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

test('without changed matrices there is no drift, and moments are bit-identical to those of the complete model', async () => {
  const calibrator = await Calibrator.open(fromFile(floats), TEXT);
  const drift = await opened();
  for (const { name, dims } of tensors) {
    await drift.ready(name);
    await drift.enter(name);
    const [own, whole] = [await drift.momentsOf(name), await calibrator.momentsOf(name)];
    assert.ok(own && whole && own.drift);
    assert.equal(own.cols, whole.cols);
    for (let i = 0; i < own.cols; i++) {
      const [a, b] = [own, whole].map(({ values }) => values.subarray(i * own.cols, i * own.cols + i + 1));
      assert.deepEqual(a, b, `${name}, ${i}`);
    }
    assert.equal(largest(own.drift), 0, name);
    drift.put(name, 0, weightsOf(name), dims[0]);
  }
  calibrator.close();
  drift.close();
});

test('a changed matrix changes the inputs after it, in its layer and in the next, and none before', async () => {
  const drift = await opened();
  const changed = 'h.0.attn.v.weight';
  /** @type {Record<string, number>} */
  const found = {};
  for (const { name, dims } of tensors) {
    await drift.ready(name);
    await drift.enter(name);
    found[name] = largest((await drift.momentsOf(name))?.drift ?? new Float32Array(0));
    const half = Math.floor(dims[0] / 2);
    const values = weightsOf(name).map((x) => (name === changed ? 0.9 * x : x));
    const cut = (half * values.length) / dims[0];
    drift.put(name, half, values.subarray(cut), dims[0] - half); // in any order
    drift.put(name, 0, values.subarray(0, cut), half);
  }
  drift.close();
  const at = tensors.findIndex(({ name }) => name === changed);
  for (const [i, { name }] of tensors.entries()) assert.equal(found[name] > 0, i > at, `${name}: ${found[name]}`);
});

test('an input waits for all rows of the matrices before it', async () => {
  const drift = await opened();
  const [first] = tensors;
  const late = tensors.find(({ name }) => name.startsWith('h.1.'));
  assert.ok(late);
  let ready = false;
  const waited = drift.ready(late.name).then(() => (ready = true));
  await drift.ready(first.name);
  for (const { name, dims } of tensors.filter((each) => each.name.startsWith('h.0.'))) {
    await drift.ready(name);
    await drift.enter(name);
    drift.put(name, 0, weightsOf(name).subarray(0, weightsOf(name).length / dims[0]), 1);
    await new Promise((resolve) => setTimeout(resolve, 1));
    assert.ok(!ready, name);
    drift.put(name, 1, weightsOf(name).subarray(weightsOf(name).length / dims[0]), dims[0] - 1);
  }
  assert.equal(await waited, true);
  drift.close();
});

/** KL divergence on the text from `from` to what it is rounded to. @param {string} from @param {string} quant @param {string} method */
function klOf(from, quant, method) {
  const out = join(folder, 'rounded.bq4');
  bq4('quantize', from, out, '--quant', quant, '--embed', 'f32', '--calibrate', text, '--method', method);
  return JSON.parse(bq4('perplexity', out, text, '--against', from, '--json')).against.kl;
}

test('quantize compensates for earlier changes, so that predictions are closer to those of the original model', () => {
  for (const quant of ['bq4h', 'bq3a']) {
    const [by, beside] = ['gptaq', 'gptq'].map((method) => klOf(floats, quant, method));
    assert.ok(by < beside, `${quant}: ${by}, ${beside}`);
  }
});

// Attention and MLP side by side; norms behind both; experts; ALiBi with layer norms; biases and a gate.
for (const family of ['falcon', 'gemma2-heads', 'mixtral', 'bloom', 'qwen2'])
  test(`the same of a model of another family: ${family}`, () => {
    const whole = join(folder, 'whole.bq4');
    const kept = ['--quant', 'f32', '--embed', 'f32', '--tokenizer', writeLetterTokenizer(folder)];
    bq4('convert', join(root, 'tests/golden/gguf', `${family}.gguf`), whole, ...kept);
    const [by, beside] = ['gptaq', 'gptq'].map((method) => klOf(whole, 'bq3a', method));
    assert.ok(by < beside, `${by}, ${beside}`);
  });
