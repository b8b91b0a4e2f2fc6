// Tests of the encoders: JavaScript, C (as wasm) and Python write the same bytes, and errors stay within the limit of the format.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createCodec } from '../../js/format/bq4/codec.js';
import { encodePiece } from '../../js/format/bq4/encode-tensor.js';
import { dequantize, quantize } from './encode.mjs';
import { bf16FromNumber, bf16ToNumber, f16FromNumber, f16ToNumber } from '../../js/format/bq4/half.js';
import { FLAT, ROWS, TILED, TYPES, typeNamed, weightBytes, WRITABLE } from '../../js/format/bq4/weight-types.js';
import { xxh64 } from './xxh64.mjs';
import { random } from './fixture.mjs';

const C = await createCodec(1 << 20);
const types = WRITABLE.map(typeNamed);
const layouts = (/** @type {import('../../js/format/bq4/weight-types.js').WeightType} */ type) => [
  ROWS,
  ...(type.step ? [TILED] : []),
];
const SHAPES = [
  [1, 1],
  [1, 64],
  [3, 31],
  [7, 33],
  [8, 64],
  [9, 65],
  [17, 100],
  [40, 16],
];

/** Weights as trained networks have them. @param {number} n @param {number} [seed] */
function weights(n, seed = 1) {
  const next = random(seed);
  return Float32Array.from({ length: n }, () => 0.05 * (next() + next() + next()));
}

test('the table of types equals that of c/core/type.h', () => {
  const header = readFileSync(new URL('../../c/core/type.h', import.meta.url), 'utf8');
  const rows = [...header.matchAll(/^ {2}(FLOAT|TILED|RARE|IMPORTED|STORED|NAMED)\(\w+, (\w+), ([\d, ]+)/gm)].map(
    ([, kind, name, numbers]) => ({
      kind,
      name,
      numbers: numbers
        .split(',')
        .filter((n) => n.trim())
        .map(Number),
    }),
  );
  assert.deepEqual(
    rows.map(({ name }) => name),
    TYPES.map(({ name }) => name),
  );
  for (const [i, { kind, numbers }] of rows.entries()) {
    const { block, blockBytes, bits, scaleBytes, minBytes } = TYPES[i];
    if (kind === 'FLOAT') assert.deepEqual([blockBytes], numbers);
    else if (kind === 'TILED' || kind === 'RARE') assert.deepEqual([block, bits, scaleBytes, minBytes], numbers);
    else if (kind === 'IMPORTED') assert.deepEqual([bits, scaleBytes, minBytes], [0, ...numbers.slice(2)]);
    else assert.deepEqual([block, blockBytes], numbers.slice(0, 2));
  }
  assert.deepEqual(
    rows.filter(({ kind }) => ['FLOAT', 'TILED', 'RARE'].includes(kind)).map(({ name }) => name),
    WRITABLE,
  );
});

test('f16: every value is unchanged by conversion to f32 and back; ties are rounded to even', () => {
  for (let h = 0; h < 65536; h++) {
    const value = f16ToNumber(h);
    if (!Number.isNaN(value)) assert.equal(f16FromNumber(value), h);
  }
  for (let h = 0; h < 0x7bff; h++) {
    const middle = (f16ToNumber(h) + f16ToNumber(h + 1)) / 2;
    assert.equal(f16FromNumber(middle), h + (h & 1), `between ${h} and ${h + 1}`);
    // The next f32 on either side of the middle.
    assert.equal(f16FromNumber(Math.fround(middle * (1 + 2 ** -23))), h + 1);
    assert.equal(f16FromNumber(-Math.fround(middle * (1 - 2 ** -23))), 0x8000 | h);
  }
  assert.equal(f16FromNumber(65519.996), 0x7bff);
  assert.equal(f16FromNumber(65520), 0x7c00);
  assert.ok(Number.isNaN(f16ToNumber(f16FromNumber(NaN))));
});

test('bf16: rounds to nearest even, NaN stays NaN', () => {
  for (const [value, bits] of [
    [1, 0x3f80],
    [-2.5, 0xc020],
    [1 + 2 ** -8, 0x3f80],
    [1 + 3 * 2 ** -8, 0x3f82],
    [1 + 2 ** -8 + 2 ** -20, 0x3f81],
    [3.4e38, 0x7f80],
  ])
    assert.equal(bf16FromNumber(value), bits, `${value}`);
  assert.ok(Number.isNaN(bf16ToNumber(bf16FromNumber(NaN))));
});

test('XXH64 has the known results, and C returns the same for every length', () => {
  const text = (/** @type {string} */ s) => new TextEncoder().encode(s);
  assert.equal(xxh64(text('')), 0xef46db3751d8e999n);
  assert.equal(xxh64(text('abc')), 0x44bc2cf5ad770999n);
  const next = random(5);
  const bytes = Uint8Array.from({ length: 300 }, () => next() * 128);
  for (let n = 0; n <= bytes.length; n++)
    assert.equal(C.hash(bytes.subarray(0, n)), xxh64(bytes.subarray(0, n)), `${n}`);
});

test('JavaScript and C: the same bytes and values for every type, layout and shape', () => {
  for (const type of types) {
    for (const layout of layouts(type)) {
      for (const [rows, cols] of SHAPES) {
        const src = weights(rows * cols, rows * 1000 + cols);
        const bytes = quantize(type.id, layout, src, rows, cols);
        const what = `${type.name}, layout ${layout}, ${rows} × ${cols}`;
        assert.equal(bytes.length, weightBytes(type, layout, rows, cols), what);
        // Scales and minima that were searched are others than those that go from the least weight to the largest.
        if (!type.minBytes) assert.deepEqual(C.quantize(type, layout, src, rows, cols), bytes, what);
        assert.deepEqual(
          C.dequantize(type, layout, bytes, rows, cols),
          dequantize(type.id, layout, bytes, rows, cols),
          what,
        );
      }
    }
  }
});

test('weights of f16 and bf16 are encoded as the f32 weights of the same values, with the same reported errors', () => {
  for (const [name, bits, toNumber] of /** @type {const} */ ([
    ['f16', f16FromNumber, f16ToNumber],
    ['bf16', bf16FromNumber, bf16ToNumber],
  ])) {
    const halves = Uint16Array.from(weights(24 * 96), bits);
    const src = Float32Array.from(halves, toNumber);
    for (const type of types)
      for (const layout of layouts(type)) {
        const { bytes, errors } = C.encode(
          { type: typeNamed(name), bytes: new Uint8Array(halves.buffer) },
          type,
          layout,
          24,
          96,
        );
        assert.deepEqual(bytes, C.quantize(type, layout, src, 24, 96), `${name} to ${type.name}`);
        const off = dequantize(type.id, layout, bytes, 24, 96).map((w, i) => Math.abs(w - src[i]));
        assert.equal(errors.most, Math.max(...off));
        assert.ok(
          Math.abs(errors.sum - off.reduce((a, b) => a + b)) <= 1e-6 * errors.sum &&
            Math.abs(errors.squares - off.reduce((a, b) => a + b * b, 0)) <= 1e-6 * errors.squares,
        );
      }
  }
});

test('layouts contain the same values in another order', () => {
  for (const type of types.filter((t) => t.step)) {
    for (const [rows, cols] of SHAPES) {
      const src = weights(rows * cols, 77);
      const values = (/** @type {number} */ layout) =>
        dequantize(type.id, layout, quantize(type.id, layout, src, rows, cols), rows, cols);
      assert.deepEqual(values(TILED), values(ROWS), `${type.name} ${rows} × ${cols}`);
      if ((rows * cols) % type.block === 0 && cols % type.block === 0) assert.deepEqual(values(FLAT), values(ROWS));
    }
  }
});

test('ties, zeros, extremes: both encoders, and roundf as C rounds', () => {
  // max 7 · 2^e makes the scale a power of two, so k + ½ are exact ties.
  const halves = [7, -6.5, -5.5, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 0];
  const ties = Float32Array.from({ length: 64 }, (_, i) => halves[i % 16]);
  const type = typeNamed('bq4');
  const back = dequantize(type.id, ROWS, quantize(type.id, ROWS, ties, 1, 64), 1, 64);
  assert.deepEqual([...back.subarray(0, 16)], [7, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 0]);
  const cases = [
    ties,
    ties.map((w) => w * 2 ** -10),
    new Float32Array(64),
    new Float32Array(64).fill(1e-9),
    new Float32Array(64).fill(-1e-42),
    ties.map((w) => w * 2 ** -140),
    Float32Array.from({ length: 64 }, (_, i) => (i === 40 ? 3e4 : i / 1e4)),
    ties.map((w) => w * 2 ** -24),
    ties.map((w) => w * 2 ** -23),
  ];
  for (const src of cases)
    for (const t of types.filter((t) => !t.minBytes))
      for (const layout of layouts(t))
        assert.deepEqual(C.quantize(t, layout, src, 2, 32), quantize(t.id, layout, src, 2, 32), `${t.name} ${src[0]}`);
});

test('|error| ≤ scale / 2 · (1 + 1e-5), and what the format promises of trained weights', () => {
  for (const name of ['bq4_16', 'bq4_32', 'bq4_64']) {
    const type = typeNamed(name);
    const n = type.block * 256;
    const src = weights(n, 9);
    const back = dequantize(type.id, ROWS, quantize(type.id, ROWS, src, 1, n), 1, n);
    let sum = 0;
    for (let at = 0; at < n; at += type.block) {
      const m = src.subarray(at, at + type.block).reduce((most, w) => Math.max(most, Math.abs(w)), 0);
      let ofBlock = 0;
      for (let i = at; i < at + type.block; i++) {
        const error = Math.abs(src[i] - back[i]);
        assert.ok(error <= (m / 7 / 2) * (1 + 1e-5), `${name}: ${error} of ${m}`);
        ofBlock += error;
      }
      if (type.block === 32) assert.ok(ofBlock < 1, `a block errs by ${ofBlock}`);
      sum += ofBlock;
    }
    assert.ok(sum / n < 0.03, `${name}: ${sum / n} on average`);
  }
});

/** Both under one signature. */
const both = [
  {
    name: 'js',
    quantize: (/** @type {any} */ type, /** @type {any[]} */ ...rest) =>
      quantize(type.id, .../** @type {[any, any, any, any]} */ (rest)),
    dequantize: (/** @type {any} */ type, /** @type {any[]} */ ...rest) =>
      dequantize(type.id, .../** @type {[any, any, any, any]} */ (rest)),
  },
  C,
];

test('weights that are not finite, or too large for f16, are refused by name', () => {
  for (const codec of both) {
    for (const type of types) {
      for (const bad of [NaN, Infinity, -Infinity]) {
        const src = weights(96);
        src[70] = bad;
        assert.throws(
          () => codec.quantize(type, ROWS, src, 3, 32),
          (/** @type {any} */ error) => error.code === 'FORMAT' && error.details.index === 70,
          `${codec.name} ${type.name} ${bad}`,
        );
      }
    }
    for (const [name, size] of /** @type {const} */ ([
      ['f16', 65520],
      ['bq4h', 7 * 65520],
      ['bq8', 127 * 65520],
      ['bf16', 3.4e38],
    ])) {
      const src = weights(64);
      src[33] = size;
      const fails = () => codec.quantize(typeNamed(name), ROWS, src, 2, 32);
      assert.throws(fails, { code: 'FORMAT' }, `${codec.name} ${name}`);
      src[33] = size * 0.99;
      if (name !== 'bf16') fails();
    }
  }
});

test('a scale that is not finite is refused when decoding', () => {
  for (const codec of both) {
    for (const name of ['bq4', 'bq4h', 'bq8']) {
      const type = typeNamed(name);
      const bytes = quantize(type.id, ROWS, weights(32), 1, 32);
      bytes.set([0xff, 0x7f], type.blockBytes - 2);
      assert.throws(() => codec.dequantize(type, ROWS, bytes, 1, 32), { code: 'FORMAT' }, `${codec.name} ${name}`);
    }
  }
});

test('a weight that cannot be encoded is named by its index in the tensor, whatever piece it is in', async () => {
  const [rows, cols, first] = [8, 32, 64];
  const values = new Float32Array(rows * cols);
  values[3 * cols + 7] = NaN;
  const match = /** @type {any} */ ({ slot: { name: 'some.weight', dims: [128, cols] }, tensor: {} });
  const from = { type: typeNamed('f32'), bytes: new Uint8Array(values.buffer) };
  const place = (first + 3) * cols;
  await assert.rejects(
    encodePiece(C, match, from, typeNamed('bq4_32'), ROWS, rows, first),
    (/** @type {any} */ error) => {
      assert.equal(error.code, 'FORMAT');
      assert.equal(error.details.tensor, 'some.weight');
      assert.ok(error.details.index >= place && error.details.index < place + cols, `at ${error.details.index}`);
      return /NaN/.test(error.message);
    },
  );
});
