// `bq4 quantize`: rounding by what a text puts into products. In C, in NumPy to the bit, and end to end.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from '../../bin/inspect.js';
import { ROWS, typeNamed } from '../../js/convert/weights.js';
import { inputOf } from '../../js/quantize/calibrate.js';
import { quantizing } from '../../js/quantize/border.js';
import { Rounder } from '../../js/quantize/rounder.js';
import { openBytes } from '../../js/sources/bytes.js';
import { testFolder } from './folders.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { fresh } = testFolder('quantize');
const golden = JSON.parse(readFileSync(join(root, 'tests/golden/rounding.json'), 'utf8'));
const floats = (/** @type {string} */ text) => new Float32Array(new Uint8Array(Buffer.from(text, 'base64')).buffer);

/** @param {string[]} args */
function bq4(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'bin/bq4.js'), ...args], {
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

/** @param {string} path */
const tensorsOf = async (path) => (await inspect(openBytes(new Uint8Array(readFileSync(path))))).tensors;

test("what the convert module has beside others is web/convert.h's", () => {
  const header = readFileSync(join(root, 'web/convert.h'), 'utf8').replace(/\/\*[^]*?\*\//g, '');
  const letter = (/** @type {string} */ type) =>
    type.includes('*')
      ? 'u'
      : /** @type {any} */ ({ uint32_t: 'u', double: 'f', float: 'f', void: 'v' })[type.split(' ')[0]];
  const declared = [...header.matchAll(/^(\w+) (bqw_\w+)\(([^)]*)\);/gm)].map(([, result, name, args]) => [
    name,
    [result, ...args.split(',').map((arg) => arg.trim().replace(/^const /, ''))].map(letter).join(''),
  ]);
  assert.deepEqual(
    Object.entries(quantizing).map(([name, signature]) => [name, signature.replace('s', 'u')]),
    declared,
  );
});

test('the blocks that NumPy makes, to the bit: each type, searched, swept, with feedback', async () => {
  const { rows, cols, damp } = golden;
  for (const [type, methods] of Object.entries(golden.blocks))
    for (const [method, blocks] of Object.entries(/** @type {Record<string, string>} */ (methods))) {
      const rounder = await Rounder.create([[rows, cols]], { ...golden.methods[method], damp });
      rounder.use({ key: 'x', cols, values: floats(golden.moments) });
      const { bytes, errors } = rounder.round(typeNamed(type), ROWS, floats(golden.weights), rows, cols);
      assert.equal(Buffer.from(bytes).toString('base64'), blocks, `${type}, ${method}`);
      assert.ok(errors.error > 0 && errors.error < 0.02 * errors.of, `${errors.error} of ${errors.of}`);
      rounder.close();
    }
});

test('which matrices share an input', () => {
  assert.deepEqual(inputOf('h.3.attn.k.weight'), { layer: 3, module: 2, key: 'h.3.attn.q' });
  assert.equal(inputOf('h.3.mlp.gate.weight')?.key, inputOf('h.3.mlp.up.weight')?.key);
  assert.equal(inputOf('h.0.attn.q.bias'), null);
  assert.equal(inputOf('h.0.mlp.experts.up.weight'), null);
  assert.equal(inputOf('wte.weight'), null);
});

const STORY =
  'Once upon a time there was a little girl named Lily. She had a red ball. One day she went to the park. '.repeat(12);
const model = join(root, 'models/chat.bq4');

test('quantize: a .bq4 file in fewer bits, twice the same, with errors of products below those of `search`', async () => {
  const folder = fresh();
  const text = join(folder, 'text.txt');
  writeFileSync(text, STORY);
  const out = (/** @type {string} */ name) => join(folder, name);
  /** @type {Record<string, any>} */
  const reports = {};
  for (const [name, ...args] of [['a'], ['b'], ['search', '--method', 'search']]) {
    const { status, stdout, stderr } = bq4(
      'quantize',
      model,
      out(name),
      '--calibrate',
      text,
      '--quant',
      'bq4h',
      '--json',
      ...args,
    );
    assert.equal(status, 0, stderr);
    reports[name] = JSON.parse(stdout);
  }
  const [a, b, search] = await Promise.all(['a', 'b', 'search'].map((name) => tensorsOf(out(name))));
  assert.deepEqual(a, b);
  for (const { offset, bytes } of a)
    assert.ok(
      readFileSync(out('a'))
        .subarray(offset, offset + bytes)
        .equals(readFileSync(out('b')).subarray(offset, offset + bytes)),
    );
  assert.deepEqual(
    a.map(({ name, type }) => [name, type]),
    search.map(({ name, type }) => [name, type]),
  );
  assert.equal(a.find(({ name }) => name === 'h.0.mlp.up.weight')?.type, 'bq4h_32');
  assert.equal(a.find(({ name }) => name === 'wte.weight')?.type, 'bq8_32');
  const products = (/** @type {string} */ name) =>
    reports[name].tensors.filter((/** @type {any} */ t) => t.product > 0);
  assert.ok(products('a').length > 10);
  for (const [i, { name, product }] of products('a').entries())
    assert.ok(product < 0.95 * products('search')[i].product, `${name}: ${product}, ${products('search')[i].product}`);
  const { status, stdout } = bq4(
    'run',
    out('a'),
    'Once upon a time',
    '--max-tokens',
    '8',
    '--temperature',
    '0',
    '--json',
  );
  assert.equal(status, 0);
  assert.equal(JSON.parse(stdout).ids.length, 8);
});

test('quantize: what it is told wrongly', () => {
  const folder = fresh();
  const empty = join(folder, 'empty.txt');
  writeFileSync(empty, '');
  for (const [args, message] of /** @type {const} */ ([
    [['--calibrate', join(folder, 'none.txt')], /none\.txt can't be read/],
    [['--calibrate', empty], /calibration text has no tokens/],
    [['--method', 'magic'], /method is "magic", not one of search, gptq/],
    [['--quant', 'q9'], /"q9" is no weight type/],
  ])) {
    const { status, stderr } = bq4('quantize', model, join(folder, 'out.bq4'), ...args);
    assert.equal(status, 1);
    assert.match(stderr, message);
    assert.ok(!existsSync(join(folder, 'out.bq4')));
  }
});
