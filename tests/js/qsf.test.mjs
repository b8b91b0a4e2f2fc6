// QSF files: the bytes of the writer and the values of the reader match tests/py/qsf_reference.py; damaged and hostile files are refused.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import { f16FromNumber, f16ToNumber } from '../../js/format/bq4/half.js';
import { convert } from '../../js/convert/index.js';
import { pack, unpack } from '../../js/format/qsf/compression.js';
import { readQsf } from '../../js/format/qsf/read.js';
import { writeQsf } from '../../js/format/qsf/write.js';
import { memorySink } from '../../js/format/output.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { matchTensors } from '../../js/format/bq4/names.js';
import { createEngine, fromFile } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { CONFIG, hfConfig, hfFolder, llama2c, randomWeights, tokenizerBin } from './checkpoints.mjs';
import { random } from './fixture.mjs';
import { testFolder } from './folders.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { fresh } = testFolder('qsf');

const NONE = 0xffffffff;
const KINDS = ['q2s', 'q2a', 'q3a', 'q4a', 'tern', 'f16'];
/** Odd sizes: rows of 70, 24 and 131 weights. */
const LLAMA = {
  arch: 'llama',
  layers: 2,
  hidden: 70,
  heads: 5,
  kv_heads: 1,
  head_dim: 14,
  ffn: 131,
  vocab: 53,
  context: 40,
  tied: false,
};
const GPT2 = {
  arch: 'gpt2',
  layers: 1,
  hidden: 24,
  heads: 3,
  ffn: 75,
  vocab: 37,
  context: 19,
  norm: 'layer',
  position: 'learned',
  activation: 'gelu',
  gated: false,
  tied: true,
};
const MODELS = [
  { config: LLAMA, biases: false, header: { arch: 1, activation: 1, norm: 1, position: 1 } },
  {
    config: {
      ...LLAMA,
      arch: 'bullet',
      norm: 'layer',
      position: 'learned',
      activation: 'gelu',
      gated: true,
      layers: 1,
    },
    biases: true,
    header: { arch: 4, activation: 0, norm: 0, position: 0 },
  },
  { config: GPT2, biases: true, header: { arch: 0, activation: 0, norm: 0, position: 0 } },
];

/** @param {Map<string, { dims: number[], values: Float32Array }>} weights */
const readable = (weights) =>
  new Map(
    [...weights].map(([name, { dims, values }]) => {
      const { cols } = matrixOf(dims);
      return [
        name,
        {
          dims,
          read: async (/** @type {number} */ row, /** @type {number} */ rows) =>
            values.slice(row * cols, (row + rows) * cols),
        },
      ];
    }),
  );

/** @param {Record<string, any>} config @param {Map<string, any>} weights @param {any} [options] */
async function written(config, weights, options = {}) {
  const sink = memorySink();
  const report = await writeQsf(sink, matchTensors(config, readable(weights)), options, { config, tokenizer: null });
  return { ...report, bytes: sink.bytes };
}

/** Reads all contents of a file. @param {Uint8Array} bytes */
async function read(bytes) {
  const { config, tensors, ends } = await readQsf(openBytes(bytes));
  const values = new Map();
  for (const { slot, tensor } of matchTensors(config, tensors))
    values.set(slot.name, await tensor.read(0, matrixOf(slot.dims).rows));
  return { config, values, ends };
}

/**
 * Writes the same file with the reference; returns the decoded weights.
 * @param {any} config @param {Map<string, any>} weights @param {any} header @param {string} quant @param {string} embed
 */
function reference(config, weights, header, quant, embed) {
  const at = fresh();
  const names = ['model.json', 'weights.f32', 'out.qsf', 'values.f32'].map((name) => join(at, name));
  const sizes = {
    layers: config.layers,
    hidden: config.hidden,
    heads: config.heads,
    kv_heads: config.kv_heads ?? config.heads,
    vocab: config.vocab,
    context: config.context,
    ffn: config.ffn,
  };
  const facts = {
    header: {
      ...sizes,
      head_dim: config.head_dim ?? config.hidden / config.heads,
      theta: config.rope_theta ?? 10000,
      bos: NONE,
      eos: NONE,
      pad: NONE,
      ...header,
    },
    quant,
    embed,
  };
  writeFileSync(names[0], JSON.stringify({ ...facts, tensors: [...weights].map(([name, { dims }]) => [name, dims]) }));
  writeFileSync(names[1], Buffer.concat([...weights.values()].map(({ values }) => Buffer.from(values.buffer))));
  execFileSync(process.env.BQ4_PYTHON ?? 'python3', ['-B', join(ROOT, 'tests/py/qsf_reference.py'), ...names]);
  const floats = new Float32Array(new Uint8Array(readFileSync(names[3])).buffer);
  let from = 0;
  const values = new Map([...weights].map(([name, t]) => [name, floats.slice(from, (from += t.values.length))]));
  return { bytes: new Uint8Array(readFileSync(names[2])), values };
}

/** Removes the sign of zeros, which -0.0 * scale in Python keeps. @param {Float32Array} values */
const plain = (values) => values.map((x) => x + 0);

for (const quant of KINDS.filter((kind) => kind !== 'f16'))
  test(`${quant}: bytes and values match the reference; rows of odd lengths, biases, positions, tied and untied`, async () => {
    for (const { config, biases, header } of MODELS) {
      const weights = randomWeights(config, { biases, seed: 7 });
      weights.delete('lm_head.bias');
      // A row of zeros, and one of equal weights.
      weights
        .get('h.0.mlp.up.weight')
        .values.fill(0, 0, config.hidden)
        .fill(0.25, config.hidden, 2 * config.hidden);
      const embed = quant === 'q3a' ? 'f16' : quant;
      const expected = reference(config, weights, header, quant, embed);
      const { bytes, reports } = await written(config, weights, { quant, embed });
      assert.ok(Buffer.from(bytes).equals(Buffer.from(expected.bytes)), `${config.arch}: other bytes`);
      const back = await read(expected.bytes);
      assert.deepEqual([...back.values.keys()], [...weights.keys()]);
      for (const [name, values] of back.values)
        assert.deepEqual(plain(values), plain(expected.values.get(name)), `${config.arch}: ${name}`);
      for (const t of reports) {
        const errors = [...weights.get(t.name).values].map((w, i) => Math.abs(w - expected.values.get(t.name)[i]));
        assert.equal(t.maxAbs, Math.fround(Math.max(...errors)), t.name);
      }
    }
  });

test('the configuration is preserved, and settings that the format lacks are refused by name', async () => {
  const { config } = await read((await written(GPT2, randomWeights(GPT2, {}))).bytes);
  assert.deepEqual(config, { ...GPT2, kv_heads: 3, head_dim: 8, norm_eps: 1e-5 });
  const llama = await read((await written({ ...LLAMA, rope_theta: 5e5 }, randomWeights(LLAMA))).bytes);
  assert.deepEqual(llama.config, {
    ...LLAMA,
    rope_theta: 5e5,
    norm: 'rms',
    norm_eps: 1e-5,
    position: 'rope',
    rope_pairs: 'half',
    activation: 'silu',
    gated: true,
  });
  assert.equal(
    (await read((await written({ ...LLAMA, arch: 'phi3' }, randomWeights(LLAMA))).bytes)).config.arch,
    'phi3',
  );
  const older = (await written(GPT2, randomWeights(GPT2))).bytes;
  older[12] = 3;
  await assert.rejects(read(reseal(older)), { code: 'UNSUPPORTED', message: /Phi model older than Phi-3/ });
  for (const [more, what] of /** @type {[object, RegExp][]} */ ([
    [{ norm_eps: 1e-6 }, /norm_eps/],
    [{ unrotated_layers: [0] }, /unrotated_layers/],
    [{ window: 8 }, /window/],
    [{ rope_dim: 4 }, /rope_dim/],
    [{ activation: 'gelu_erf' }, /activation/],
    [{ position: 'none' }, /position/],
  ])) {
    const other = { ...LLAMA, ...more };
    await assert.rejects(written(other, randomWeights(other)), { code: 'UNSUPPORTED', message: what });
  }
  const normed = { ...LLAMA, arch: 'qwen3', qk_norm: 'heads' };
  await assert.rejects(written(normed, randomWeights(normed)), { code: 'UNSUPPORTED', message: /qk_norm/ });
  for (const [value, name] of /** @type {[number, string][]} */ ([
    [NaN, 'h.1.attn.o.weight'],
    [1e6, 'h.0.ln1.weight'],
    [1e6, 'wte.weight'],
  ])) {
    const weights = randomWeights(LLAMA);
    weights.get(name).values[3] = value;
    await assert.rejects(
      written(LLAMA, weights),
      (/** @type {any} */ e) => e.code === 'FORMAT' && e.message.includes(`"${name}", weight`),
    );
  }
  for (const options of [{ quant: 'bq4' }, { embed: 'x' }, { compress: 'gzip' }, { hash: 'sha256' }])
    await assert.rejects(written(LLAMA, randomWeights(LLAMA), options), { code: 'ARGUMENT' });
});

test('more than 50,000 vectors are in chunks', async () => {
  const config = { arch: 'llama', layers: 1, hidden: 4, heads: 2, ffn: 4, vocab: 100_003, context: 8, tied: true };
  const weights = randomWeights(config);
  const expected = reference(config, weights, { arch: 1, activation: 1, norm: 1, position: 1 }, 'q4a', 'f16');
  const { bytes } = await written(config, weights, { embed: 'f16' });
  assert.ok(Buffer.from(bytes).equals(Buffer.from(expected.bytes)));
  const { tensors } = await readQsf(openBytes(bytes));
  const wte = expected.values.get('wte.weight');
  assert.deepEqual(await tensors.get('wte.weight')?.read(49_998, 50_005), wte.slice(4 * 49_998, 4 * 100_003));
  const { offset } = chunkOf(bytes);
  bytes[offset] ^= 8;
  await assert.rejects(readQsf(openBytes(bytes)), { code: 'FORMAT', message: /chunk of 50000/ });
});

/** Returns the length of the first chunk of the embedding. @param {Uint8Array} bytes */
const chunkOf = (bytes) => ({ offset: Number(new DataView(bytes.buffer).getBigUint64(64, true)) + 16 });

/** The output of lz4 4.4.5 (Python) for `text`, fast and HC. */
const LZ4 = [
  '/woAYmxvY2sgb2Ygc2l4dHktZm91ciABAQEBGAABEgIBAA8bAAEVAwEADx4AARgEAQAPIQABGwUBAA8kAAEeBgEADycAAR8AAQACDyoAAR8BAQAFDy0AAQL7AA8CAAMPMAABBRABDwIAAw8zAAEIJQEPAgADDzYAAQs6AQ8CAAMPOQABDk8BDwIAAw88AAEPZAECDwIAAw8/AAEPeQEFDwIAAw9CAAHwDwABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHQ==',
  '/woAYmxvY2sgb2Ygc2l4dHktZm91ciABAQEBGAABEgIBAA8bAAEVAwEADx4AARgEAQAPIQABGwUBAA8kAAEeBgEADycAAR8AAQACD+cABQ4BAA/8AAsOAQAPEQEODgEADyYBEQ4BAA87ARQOAQAPUAEXLwYGZQEqD3oBLw+PARbwDwABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHQ==',
];
const text = () =>
  Buffer.concat([
    ...Array.from({ length: 16 }, (_, i) =>
      Buffer.concat([Buffer.alloc(3 * i + 1, i % 7), Buffer.from('block of sixty-four ')]),
    ),
    Buffer.from(Array.from({ length: 30 }, (_, i) => i)),
  ]);

test('LZ4: blocks of the reference are unpacked; own blocks are restored; damage and wrong sizes are refused', () => {
  for (const packed of LZ4)
    assert.deepEqual(Buffer.from(unpack(1, Buffer.from(packed, 'base64'), text().length)), text());
  const next = random(5);
  for (let i = 0; i < 60; i++) {
    const bytes = Uint8Array.from({ length: i < 30 ? i + 1 : 40 * i }, () =>
      Math.floor((2 + (i % 5) ** 3) * Math.abs(next())),
    );
    for (const method of [1, 3])
      assert.deepEqual(new Uint8Array(unpack(method, pack(method, bytes), bytes.length)), bytes, `${i}, ${method}`);
  }
  const packed = Buffer.from(LZ4[0], 'base64');
  for (const size of [0, 1, text().length - 1, text().length + 1])
    assert.throws(() => unpack(1, packed, size), { code: 'FORMAT' });
  for (let length = 0; length < packed.length; length++)
    assert.throws(() => unpack(1, packed.subarray(0, length), text().length), { code: 'FORMAT' });
  assert.throws(() => unpack(1, packed, 2 ** 30), { code: 'FORMAT', message: /can't decompress to/ });
  // A match before the beginning, or with distance 0.
  for (const back of [5, 0])
    assert.throws(() => unpack(1, Uint8Array.of(0x10, 65, back, 0, 0x50, 1, 2, 3, 4, 5), 10), {
      code: 'FORMAT',
      message: /out of range/,
    });
  for (const bad of [
    [0x04, 1, 0],
    [0x10, 65, 0, 0],
    [0xff, 255, 255],
    [0x1f, 65, 1, 0, 255],
  ])
    assert.throws(() => unpack(1, Uint8Array.from(bad), 100), { code: 'FORMAT' });
  assert.throws(() => unpack(3, Uint8Array.of(1, 2, 3), 100), { code: 'FORMAT' });
});

test('packed layers have the same contents; a layer that unpacks to more than its model has is refused', async () => {
  const weights = randomWeights(LLAMA);
  weights.get('h.1.mlp.up.weight').values.fill(0);
  const expected = await read((await written(LLAMA, weights, { quant: 'tern' })).bytes);
  for (const compress of ['lz4', 'zstd']) {
    const { bytes } = await written(LLAMA, weights, { quant: 'tern', compress });
    assert.ok(
      bytes[128 + 17] &&
        new DataView(bytes.buffer).getUint32(128 + 40, true) < new DataView(bytes.buffer).getUint32(128 + 44, true),
      'the second layer is smaller',
    );
    assert.deepEqual((await read(bytes)).values, expected.values);
  }
  const bomb = pack(3, new Uint8Array(64 << 20));
  for (const size of [64 << 20, 4000, NONE]) {
    const { bytes } = await written(LLAMA, weights);
    const view = new DataView(bytes.buffer);
    bytes.set(bomb, Number(view.getBigUint64(128, true)));
    bytes[128 + 17] = 3;
    view.setUint32(128 + 8, bomb.length, true);
    view.setUint32(128 + 12, size, true);
    await assert.rejects(
      readQsf(openBytes(reseal(bytes))),
      (/** @type {any} */ e) => e.code === 'FORMAT' && /decompressed bytes|longer than 4000/.test(e.message),
    );
  }
});

/** Corrects the sums and the length, as far as the index has the offsets of layers. @param {Uint8Array} bytes */
function reseal(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const [layers, index] = [view.getUint32(16, true), Number(view.getBigUint64(56, true))];
  for (let at = index; at < index + 32 * layers && at + 32 <= bytes.length; at += 32) {
    const offset = Number(view.getBigUint64(at, true));
    view.setUint32(
      at + 20,
      crc32(
        bytes.subarray(Math.min(offset, bytes.length), Math.min(offset + view.getUint32(at + 8, true), bytes.length)),
      ),
      true,
    );
  }
  view.setUint32(92, bytes.length, true);
  view.setUint32(96, crc32(bytes.subarray(0, 96)), true);
  return bytes;
}

/**
 * Changes of a valid file, whether its sums are corrected, and the error.
 * @type {Record<string, { change: (b: Uint8Array, view: DataView) => unknown, sealed?: boolean, error: { code: string, message: RegExp } }>}
 */
const BAD = {
  'another version': { change: (b) => void (b[4] = 2), error: { code: 'UNSUPPORTED', message: /version 2/ } },
  'a flipped bit of the header': {
    change: (b) => void (b[21] ^= 1),
    error: { code: 'FORMAT', message: /header is damaged/ },
  },
  'a flipped bit of a layer': {
    change: (b, v) => void (b[Number(v.getBigUint64(160, true)) + 99] ^= 1),
    error: { code: 'FORMAT', message: /layer 1 is damaged/ },
  },
  'an unknown architecture': {
    change: (b) => void (b[12] = 9),
    sealed: true,
    error: { code: 'UNSUPPORTED', message: /unknown architecture 9, expected one of 0 GPT-2/ },
  },
  'an unknown activation': {
    change: (b) => void (b[49] = 3),
    sealed: true,
    error: { code: 'UNSUPPORTED', message: /activation 3/ },
  },
  'no layers': {
    change: (b, v) => v.setUint32(16, 0, true),
    sealed: true,
    error: { code: 'FORMAT', message: /"layers"/ },
  },
  'four milliards of layers': {
    change: (b, v) => v.setUint32(16, NONE, true),
    sealed: true,
    error: { code: 'FORMAT', message: /index/ },
  },
  'a huge vocabulary': {
    change: (b, v) => v.setUint32(32, NONE, true),
    sealed: true,
    error: { code: 'SHAPE', message: /embedding is 53/ },
  },
  'an embedding outside': {
    change: (b, v) => v.setBigUint64(64, 2n ** 63n, true),
    sealed: true,
    error: { code: 'FORMAT', message: /"embedding"/ },
  },
  'a layer outside': {
    change: (b, v) => v.setBigUint64(128, 2n ** 63n, true),
    sealed: true,
    error: { code: 'FORMAT', message: /layer 0 exceeds the file/ },
  },
  'an unknown compression': {
    change: (b) => void (b[128 + 17] = 4),
    sealed: true,
    error: { code: 'UNSUPPORTED', message: /compression 4/ },
  },
  'an unknown kind of blocks': {
    change: (b, v) => void (b[Number(v.getBigUint64(128, true)) + 12] = 7),
    sealed: true,
    error: { code: 'UNSUPPORTED', message: /kind 7/ },
  },
  'an unknown tensor': {
    change: (b, v) => v.setUint32(Number(v.getBigUint64(128, true)), 14, true),
    sealed: true,
    error: { code: 'UNSUPPORTED', message: /type 14/ },
  },
  'a huge tensor': {
    change: (b, v) => v.setUint32(Number(v.getBigUint64(128, true)) + 4, NONE, true),
    sealed: true,
    error: { code: 'FORMAT', message: /exceeds its layer/ },
  },
  outliers: {
    change: (b, v) => void (b[Number(v.getBigUint64(128, true)) + 13] = 1),
    sealed: true,
    error: { code: 'UNSUPPORTED', message: /reserved/ },
  },
  'a tensor less': {
    change: (b, v) => v.setUint16(128 + 18, 8, true),
    sealed: true,
    error: { code: 'FORMAT', message: /belong to no tensor/ },
  },
  'a norm of many rows': {
    change: (b, v) => {
      const last = Number(v.getBigUint64(128, true)) + v.getUint32(136, true) - 16 - 140;
      v.setUint32(last + 4, 70, true);
      v.setUint32(last + 8, 1, true);
    },
    sealed: true,
    error: { code: 'SHAPE', message: /type 8 has 70 rows/ },
  },
  'a tensor more': {
    change: (b, v) => v.setUint16(128 + 18, 10, true),
    sealed: true,
    error: { code: 'FORMAT', message: /header of tensor 9/ },
  },
  'a tensor of another shape': {
    change: (b, v) => v.setUint32(16, 1, true) ?? v.setUint32(40, 60, true),
    sealed: true,
    error: { code: 'SHAPE', message: /mlp.gate/ },
  },
  'an end in the final norm': {
    change: (b, v) => reseal(b.slice(0, Number(v.getBigUint64(72, true)) + 10)),
    error: { code: 'TRUNCATED', message: /ends after \d+ bytes/ },
  },
};

for (const [what, { change, sealed, error }] of Object.entries(BAD))
  test(`refused: ${what}`, async () => {
    const { bytes } = await written(LLAMA, randomWeights(LLAMA));
    const result = change(bytes, new DataView(bytes.buffer));
    const changed = result instanceof Uint8Array ? result : bytes;
    await assert.rejects(read(sealed ? reseal(changed) : changed), { name: 'BqError', ...error });
  });

test('files that are truncated anywhere, and 1,500 changed files, have typed errors or are read', async () => {
  const small = { ...LLAMA, hidden: 10, head_dim: 2, ffn: 9, vocab: 11 };
  const next = random(11);
  let refused = 0;
  for (const compress of ['none', 'lz4', 'zstd']) {
    const { bytes } = await written(small, randomWeights(small), { compress });
    const attempt = async (/** @type {Uint8Array} */ changed) => {
      await read(changed).catch((error) => {
        assert.equal(error.name, 'BqError', error.stack);
        refused++;
      });
    };
    for (let length = 0; length < bytes.length; length += 31) {
      await assert.rejects(read(bytes.slice(0, length)), { name: 'BqError' });
      if (length > 128) await attempt(reseal(bytes.slice(0, length)));
    }
    for (let i = 0; i < 500; i++) {
      const changed = bytes.slice();
      // Mostly in the lengths: header and index.
      const where = Math.floor(Math.abs(next()) * (i % 3 ? 192 : bytes.length));
      changed[where] = i % 2 ? changed[where] ^ (1 << (i % 8)) : [0, 255, 127, 128][i % 4];
      await attempt(i % 5 ? reseal(changed) : changed);
    }
  }
  assert.ok(refused > 700, `${refused}`);
});

/** Weights that are exact in f16. @param {any} config */
function halves(config) {
  const weights = randomWeights(config);
  for (const { values } of weights.values())
    values.forEach((w, i) => {
      values[i] = f16ToNumber(f16FromNumber(w));
    });
  return weights;
}

/** @param {any} engine @param {string} path */
async function idsOf(engine, path) {
  const model = await engine.load(fromFile(path));
  const { tokens: ids } = await (await model.createSession()).generate([1, 2, 3, 9], { maxTokens: 12, temperature: 0 })
    .result;
  await model.close();
  return ids;
}

test('convert: to .qsf and then to .bq4, the model has the same logits, also with adjacent rotary pairs', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  for (const adjacent of [false, true]) {
    const config = { ...CONFIG, tied: false };
    const weights = halves(config);
    const at = fresh();
    if (adjacent) writeFileSync(join(at, 'model.bin'), llama2c(weights, 'v1', config));
    else hfFolder(at, weights, { config: { ...hfConfig(config), rope_theta: 500 } });
    writeFileSync(join(at, 'tokenizer.bin'), tokenizerBin(config.vocab));
    const input = adjacent ? join(at, 'model.bin') : at;
    const tokenizer = join(at, 'tokenizer.bin');
    await convert(input, join(at, 'a.bq4'), { quant: 'f32', tokenizer });
    const report = await convert(input, join(at, 'b.qsf'), { quant: 'f16', embed: 'f16', compress: 'lz4', tokenizer });
    assert.equal(report.bytes, readFileSync(join(at, 'b.qsf')).length);
    await convert(join(at, 'b.qsf'), join(at, 'c.bq4'), { quant: 'f32', tokenizer });
    assert.deepEqual(await idsOf(engine, join(at, 'c.bq4')), await idsOf(engine, join(at, 'a.bq4')));
  }
  await engine.close();
});

test('blocks of two and three bits, and ternary ones, keep their values in our types', async () => {
  const config = { ...CONFIG, tied: false };
  const at = fresh();
  hfFolder(at, halves(config), { config: { ...hfConfig(config), rope_theta: 500 } });
  writeFileSync(join(at, 'tokenizer.bin'), tokenizerBin(config.vocab));
  const tokenizer = join(at, 'tokenizer.bin');
  for (const [theirs, ours] of [
    ['q3a', 'bq3a'],
    ['q2a', 'bq2a'],
    ['q2s', 'bq2'],
    ['tern', 'bqt'],
  ]) {
    const [qsf, own, direct, back, again] = ['a.qsf', 'b.bq4', 'c.bq4', 'd.bq4', 'e.bq4'].map((name) => join(at, name));
    await convert(at, qsf, { quant: theirs, embed: 'f16', tokenizer });
    const { tensors } = await convert(qsf, own, { quant: ours, embed: 'f32', tokenizer, name: 'x' });
    assert.ok(tensors.some(({ type }) => type.startsWith(`${ours}_64`)));
    for (const { name, rms } of tensors) assert.equal(rms, 0, `${theirs}: ${name}`);
    await convert(qsf, direct, { quant: 'f32', embed: 'f32', tokenizer, name: 'x' });
    for (const [from, to] of [
      [own, back],
      [direct, again],
    ]) {
      const line = ['bin/bq4.js', 'quantize', from, to, '--quant', 'f32', '--embed', 'f32'];
      assert.equal(spawnSync(process.execPath, line, { cwd: ROOT, encoding: 'utf8' }).stderr, '');
    }
    assert.deepEqual(readFileSync(back), readFileSync(again), theirs);
  }
});

test('the command: convert, inspect; a refused file leaves no output', () => {
  const at = fresh();
  const out = fresh();
  const run = (/** @type {string[]} */ ...args) =>
    spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), ...args], { encoding: 'utf8' });
  hfFolder(at, randomWeights());
  const output = run('convert', at, join(out, 'm.qsf'), '--quant', 'q3a', '--compress', 'zstd');
  assert.equal(output.status, 0, output.stderr);
  assert.match(output.stdout, /h\.1\.mlp\.down\.weight +q3a +672 /);
  const card = run('inspect', join(out, 'm.qsf'));
  assert.equal(card.status, 0, card.stderr);
  assert.match(
    card.stdout,
    /format +QSF[^]*rope_theta +10000[^]*wte\.weight +q4a[^]*h\.1\.attn\.q\.weight +q3a[^]*h\.1\.ln2\.weight +f16/,
  );
  for (const options of [['--quant', 'bq4a'], ['--v1'], ['--license', 'MIT']]) {
    const bad = run('convert', at, join(out, 'n.qsf'), ...options);
    assert.match(bad.stderr, /^bq4: ARGUMENT: /);
  }
  assert.match(run('convert', at, join(out, 'n.bq4'), '--compress', 'lz4').stderr, /^bq4: ARGUMENT: /);
  assert.deepEqual(readdirSync(out), ['m.qsf']);
});
