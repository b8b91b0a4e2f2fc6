// Tests of every type of GGUF: repacked for the engine, it has the values of PyPI's gguf (tests/golden/make_gguf_blocks.py).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { createCodec } from '../../js/format/bq4/codec.js';
import { ROWS, runLayout, TILED, TYPES, weightBytes } from '../../js/format/bq4/weight-types.js';
import { ALL_TYPES, conversionOf, loadConverter, readableTypes, storedOffset } from '../../js/format/gguf/types.js';
import { modelRows } from '../models-report.mjs';

const golden = new URL('../golden/gguf_blocks/', import.meta.url);
const { gguf } = JSON.parse(readFileSync(new URL('made_with.json', golden), 'utf8'));
const { wasm } = await createCodec(1 << 20);
/** @type {Record<string, string | number>[]} */
const rows = [];
after(() => rows.length && modelRows('types', 'gguf', rows));

/** Types that PyPI gguf lacks: their values follow from ggml's definition (tests/golden/make_gguf_blocks.py). */
const DEFINED = ['q1_0', 'q2_0'];

/** @param {string} name */
function blocksOf(name) {
  const bytes = new Uint8Array(readFileSync(new URL(`${name}.bin`, golden)));
  const [count, weights, size] = new Uint32Array(bytes.buffer, 0, 3);
  return { count, weights, blocks: bytes.subarray(12, 12 + count * size), values: bytes.slice(12 + count * size) };
}

for (const name of readableTypes().map((type) => type.toLowerCase()))
  test(`${name}: repacked, its values are those of PyPI gguf, to the bit`, async () => {
    const { count, weights, blocks, values } = blocksOf(name);
    const stored = /** @type {import('../../js/format/bq4/weight-types.js').WeightType} */ (
      ALL_TYPES.find((type) => type.name === name)
    );
    const engineType = conversionOf(stored)?.engineType ?? stored;
    const rowsOfBlocks = (await loadConverter(stored))?.(blocks) ?? blocks;
    const run = TYPES[wasm.call('bqw_run_type', engineType.id)];
    const layout = runLayout(run);
    const found = wasm.scope((take) => {
      const from = wasm.put(take, rowsOfBlocks).at;
      const tiles = layout === TILED ? take(weightBytes(run, TILED, count, weights)) : from;
      if (layout === TILED) wasm.check('bqw_repack', engineType.id, from, count, weights, tiles);
      const to = take(4 * count * weights);
      wasm.check('bqw_dequantize', run.id, layout, tiles, count, weights, to);
      return wasm.bytes(to, 4 * count * weights).slice();
    });
    assert.deepEqual(Buffer.from(found).equals(Buffer.from(values)), true);
    const bits = (/** @type {typeof run} */ type, /** @type {number} */ how) =>
      (8 * weightBytes(type, how, 8, 256)) / 2048;
    rows.push({
      type: name.toUpperCase(),
      run: run.name,
      bits: bits(stored, ROWS),
      memory: bits(run, layout),
      exact: 'bit for bit',
      against: DEFINED.includes(name) ? 'ggml-quants.c' : `gguf ${gguf}`,
    });
  });

test('an MXFP4 block whose scale exceeds f16 is refused with its offset; zeros with such a scale are zeros', async () => {
  const type = /** @type {any} */ (ALL_TYPES.find(({ name }) => name === 'mxfp4'));
  const convert = /** @type {(blocks: Uint8Array) => Uint8Array} */ (await loadConverter(type));
  const blocks = new Uint8Array(3 * 17);
  for (const exponent of [0, 103, 144, 255]) {
    blocks[2 * 17] = exponent;
    blocks[2 * 17 + 5] = 0x80;
    assert.ok(convert(blocks).every((byte) => byte === 0 || byte === 0x80 || byte === 8));
    blocks[2 * 17 + 5] = 0x10;
    assert.throws(
      () => convert(blocks),
      (/** @type {any} */ e) =>
        e.code === 'FORMAT' &&
        e.message === `a scale of 2^${exponent - 128}; expected 2^-24 to 2^15` &&
        storedOffset(type, e.offset) === 2 * 17,
    );
  }
});

test('values that are not finite and unknown types are refused', () => {
  const { blocks, weights } = blocksOf('q4_1');
  const bad = blocks.slice();
  bad.set([0, 0x7c], 3 * 20 + 2);
  wasm.scope((take) => {
    const [from, to] = [wasm.put(take, bad).at, take(1 << 14)];
    assert.throws(
      () => wasm.check('bqw_repack', 15, from, 8, weights, to),
      (/** @type {any} */ e) => e.code === 'FORMAT' && e.offset === 3 * 20 + 2,
    );
    for (const type of [0, 9, 200])
      assert.throws(() => wasm.check('bqw_repack', type, from, 8, weights, to), { code: 'ARGUMENT' });
  });
});
