// Tests of every storage type of GGUF: values equal those of PyPI's gguf bit for bit (tests/golden/make_gguf_blocks.py).
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createCodec } from '../../js/format/bq4/codec.js';
import { ROWS, TYPES } from '../../js/format/bq4/weight-types.js';
import { ALL_TYPES, conversionOf } from '../../js/format/gguf/types.js';

const folder = new URL('../golden/gguf_blocks/', import.meta.url);
/** Those that become another type while they are read: gguf-types.test.mjs. */
const REPACKED = ALL_TYPES.filter(conversionOf).map(({ name }) => name);
const names = readdirSync(folder)
  .filter((name) => name.endsWith('.bin'))
  .map((name) => name.slice(0, -4))
  .filter((name) => !REPACKED.includes(name));
/** The rows STORED of the list of types. */
const header = readFileSync(new URL('../../c/core/type.h', import.meta.url), 'utf8');
const become = [...header.matchAll(/^ {2}STORED\(\w+, (\w+), /gm)].map(([, name]) => name);
const C = await createCodec(1 << 20);

test('all storage types of GGUF files have expected values', () => {
  assert.deepEqual(names.toSorted(), ['bf16', 'f16', 'f32', ...become].toSorted());
});

for (const name of names) {
  test(name, () => {
    const bytes = new Uint8Array(readFileSync(new URL(`${name}.bin`, folder)));
    const [blocks, weights, blockBytes] = new Uint32Array(bytes.buffer.slice(0, 12));
    const data = bytes.subarray(12, 12 + blocks * blockBytes);
    const values = bytes.slice(12 + data.length);
    const type = /** @type {import('../../js/format/bq4/weight-types.js').WeightType} */ (
      TYPES.find((t) => t.name === name)
    );
    const found = C.dequantize(type, ROWS, data, 1, blocks * weights);
    assert.deepEqual(new Uint8Array(found.buffer, found.byteOffset, found.byteLength), values);
  });
}
