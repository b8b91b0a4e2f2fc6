// Every weight type of GGUF that is read: the values that PyPI gguf gives (tests/golden/make_gguf_blocks.py), to the bit.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { createCodec } from '../../js/convert/codec.js';
import { ROWS, TYPES } from '../../js/convert/weights.js';
import { modelRows } from '../models-report.mjs';

const folder = new URL('../golden/gguf_blocks/', import.meta.url);
const { gguf } = JSON.parse(readFileSync(new URL('made_with.json', folder), 'utf8'));
const names = readdirSync(folder).filter((name) => name.endsWith('.bin')).map((name) => name.slice(0, -4));
/** What C makes of them: the rows STORED of c/core/type.h. */
const header = readFileSync(new URL('../../c/core/type.h', import.meta.url), 'utf8');
const become = new Map([...header.matchAll(/^ {2}STORED\(\w+, (\w+), .*, (\w+)\)/gm)].map(([, name, run]) => [name, run.toLowerCase()]));
const C = await createCodec(1 << 20);
/** @type {Record<string, string>[]} */
const rows = [];

test('all types that GGUF files are read with have expected values', () => {
  assert.deepEqual(names.toSorted(), ['bf16', 'f16', 'f32', ...become.keys()].toSorted());
});

for (const name of names) {
  test(name, () => {
    const bytes = new Uint8Array(readFileSync(new URL(`${name}.bin`, folder)));
    const [blocks, weights, blockBytes] = new Uint32Array(bytes.buffer.slice(0, 12));
    const data = bytes.subarray(12, 12 + blocks * blockBytes);
    const values = bytes.slice(12 + data.length);
    const type = /** @type {import('../../js/convert/weights.js').WeightType} */ (TYPES.find((t) => t.name === name));
    const found = C.dequantize(type, ROWS, data, 1, blocks * weights);
    assert.deepEqual(new Uint8Array(found.buffer, found.byteOffset, found.byteLength), values);
    rows.push({ type: name.toUpperCase(), run: become.get(name) ?? name, exact: 'bit for bit', against: `PyPI gguf ${gguf}` });
  });
}

after(() => modelRows('types', 'stored', rows));
