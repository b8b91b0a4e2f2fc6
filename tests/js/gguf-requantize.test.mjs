// Tests of GGUF files that are converted to other types: values, encoding, errors, unchanged parts, and continuation after a kill.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { convertGguf } from '../../bin/convert-gguf.js';
import { inspect } from '../../bin/inspect.js';
import { sourceOf } from '../../bin/options.js';
import { createCodec } from '../../js/format/bq4/codec.js';
import { f16ToNumber } from '../../js/format/bq4/half.js';
import { runLayout, typeNamed } from '../../js/format/bq4/weight-types.js';
import { readableTypes } from '../../js/format/gguf/types.js';
import { openSource } from '../../js/storage/sources/index.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { CONFIG, randomWeights } from './checkpoints.mjs';
import { testFolder } from './folders.mjs';
import { bytesTokenizer, gguf, ggufName, ggufTensor, llamaMetadata, randomGguf, randomParts } from './gguf-writer.mjs';

const golden = new URL('../golden/', import.meta.url);
const { folder, fresh } = testFolder('gguf-requantize');
const codec = await createCodec(1 << 20);
const config = { ...CONFIG, layers: 1, hidden: 256, ffn: 512, vocab: 104, context: 32 };
const weights = randomWeights(config);
// Rows of different sizes, so that each has a factor of its own.
weights.get('h.0.mlp.up.weight')?.values.forEach((w, i, all) => {
  all[i] = w * 2 ** (Math.floor(i / config.hidden) % 7);
});
const metadata = { ...llamaMetadata(config), ...bytesTokenizer(config.vocab) };

/** Every tensor of a .bq4 file. @param {string} path */
async function tensorsOf(path) {
  const bytes = new Uint8Array(readFileSync(path));
  const { tensors } = await inspect(openBytes(bytes));
  return new Map(
    tensors.map(({ name, type, dims, offset, bytes: n }) => [
      name,
      { type, dims, data: Buffer.from(bytes.subarray(offset, offset + n)) },
    ]),
  );
}

/** @param {string} path  of a GGUF file @param {import('../../js/convert/index.js').ConvertOptions} options */
async function converted(path, options) {
  const out = join(fresh(), 'out.bq4');
  const file = await openSource(await sourceOf(path));
  try {
    const report = await convertGguf(file, out, options);
    return { report, tensors: await tensorsOf(out) };
  } finally {
    await file.close();
  }
}

/** @param {Uint8Array} bytes */
function file(bytes) {
  const path = join(fresh(), 'in.gguf');
  writeFileSync(path, bytes);
  return path;
}

/** An embedding of these blocks and their values by PyPI gguf, again and again. @param {string} name  of a type */
function embeddingOf(name) {
  const bytes = new Uint8Array(readFileSync(new URL(`gguf_blocks/${name}.bin`, golden)));
  const [count, cols, size] = new Uint32Array(bytes.buffer, 0, 3);
  const all = (config.vocab * config.hidden) / cols;
  const [blocks, values] = [bytes.subarray(12, 12 + count * size), bytes.subarray(12 + count * size)];
  const again = (/** @type {Uint8Array} */ from, /** @type {number} */ each) =>
    Buffer.concat(Array.from({ length: all }, (_, i) => from.subarray((i % count) * each, ((i % count) + 1) * each)));
  return { blocks: again(blocks, size), values: again(values, 4 * cols) };
}

/** A LLaMA with this embedding. @param {number} type  GGUF's number @param {Uint8Array} bytes */
function withEmbedding(type, bytes) {
  const others = [...weights].filter(([name]) => name !== 'wte.weight');
  return file(
    gguf(metadata, [
      { name: ggufName('wte.weight'), dims: [config.vocab, config.hidden], type, bytes },
      ...others.map(([name, tensor]) => ggufTensor(name, tensor, 'q4_1')),
    ]),
  );
}

/** GGUF's numbers. @type {Record<string, number>} */
const NUMBERS = {
  f32: 0,
  f16: 1,
  q4_0: 2,
  q4_1: 3,
  q5_0: 6,
  q5_1: 7,
  q8_0: 8,
  q2_k: 10,
  q3_k: 11,
  q4_k: 12,
  q5_k: 13,
  q6_k: 14,
  iq2_xxs: 16,
  iq2_xs: 17,
  iq3_xxs: 18,
  iq1_s: 19,
  iq4_nl: 20,
  iq3_s: 21,
  iq2_s: 22,
  iq4_xs: 23,
  iq1_m: 29,
  bf16: 30,
  tq1_0: 34,
  tq2_0: 35,
  mxfp4: 39,
  nvfp4: 40,
  q1_0: 41,
  q2_0: 42,
};

for (const name of readableTypes().map((type) => type.toLowerCase()))
  test(`${name}: encoded values equal those of PyPI gguf`, async () => {
    const { blocks, values } = embeddingOf(name);
    const path = withEmbedding(NUMBERS[name], blocks);
    const { tensors, report } = await converted(path, { quant: 'bq4', embed: 'f32' });
    const { data, type } = /** @type {any} */ (tensors.get('wte.weight'));
    assert.equal(type, 'f32');
    assert.ok(data.equals(values));
    assert.equal(tensors.get('h.0.attn.q.weight')?.type, 'bq4_32');
    assert.ok(report.tensors.some(({ name: n, rms }) => n === 'h.0.attn.q.weight' && rms > 0));
  });

test('requantized blocks equal those of the encoder', async () => {
  const path = file(
    gguf(
      metadata,
      [...weights].map(([name, tensor]) => ggufTensor(name, tensor, 'q4_1')),
    ),
  );
  const plain = await converted(path, { quant: 'f32', embed: 'f32' });
  for (const asked of ['bq4h', 'bq8', 'bq4a', 'f16']) {
    const type = typeNamed(asked);
    const { tensors } = await converted(path, { embed: asked, quant: asked });
    for (const name of ['wte.weight', 'h.0.attn.q.weight', 'h.0.mlp.down.weight']) {
      const { data, dims } = /** @type {any} */ (plain.tensors.get(name));
      const floats = new Float32Array(new Uint8Array(data).buffer);
      const wanted = codec.quantize(type, runLayout(type), floats, dims[0], dims[1]);
      assert.ok(tensors.get(name)?.data.equals(wanted), `${name} as ${asked}`);
    }
  }
});

test('row scales: a row times its factor equals the original row', async () => {
  const { blocks, values } = embeddingOf('q8_0');
  const plain = await converted(withEmbedding(NUMBERS.q8_0, blocks), { quant: 'f32', embed: 'f32' });
  const scaled = await converted(withEmbedding(NUMBERS.q8_0, blocks), { quant: 'f32', embed: 'f32', rowScales: true });
  const [was, is, factors] = [
    plain.tensors.get('h.0.mlp.up.weight'),
    scaled.tensors.get('h.0.mlp.up.weight'),
    scaled.tensors.get('h.0.mlp.up.scale'),
  ].map((tensor) => new Float32Array(new Uint8Array(/** @type {any} */ (tensor).data).buffer));
  assert.ok(factors.some((f) => f !== 1));
  is.forEach((w, i) => assert.equal(w * factors[Math.floor(i / config.hidden)], was[i]));
  assert.ok(scaled.tensors.get('wte.weight')?.data.equals(values), 'the embedding has none');
});

/** The tensors that a fused one becomes. @param {string} name */
function partsOf(name) {
  const [, fused] = /\.(qkv|gate_up)\./.exec(name) ?? [];
  if (!fused) return [name];
  return (fused === 'qkv' ? ['q', 'k', 'v'] : ['gate', 'up']).map((part) => name.replace(fused, part));
}

for (const name of readdirSync(new URL('gguf/', golden)).filter((n) => n.endsWith('.gguf')))
  test(`${name}: every tensor of the family finds its place`, async () => {
    const path = new URL(`gguf/${name}`, golden).href;
    const [kept, anew] = [await converted(path, {}), await converted(path, { quant: 'f32' })];
    let same = 0;
    const seen = new Set();
    for (const [tensor, { type, dims, data }] of kept.tensors) {
      const parts = partsOf(tensor).map((part) => /** @type {any} */ (anew.tensors.get(part)));
      for (const part of partsOf(tensor)) seen.add(part);
      assert.ok(parts.every((part) => part.type === 'f32'));
      const rows = parts.reduce((sum, part) => sum + part.dims[0], 0);
      assert.deepEqual([rows, ...parts[0].dims.slice(1)], dims, tensor);
      const now = Buffer.concat(parts.map((part) => part.data));
      if (type === 'f32') assert.ok(now.equals(data), tensor);
      if (type === 'f16')
        for (let i = 0; i < data.length; i += 2)
          assert.equal(now.readFloatLE(2 * i), f16ToNumber(data.readUInt16LE(i)), tensor);
      same += Number(type === 'f32' || type === 'f16');
    }
    assert.deepEqual(new Set(anew.tensors.keys()), seen);
    assert.ok(same > 0);
  });

test('a damaged block is reported with its tensor and offset', async () => {
  const { blocks } = embeddingOf('q8_0');
  const path = withEmbedding(NUMBERS.q8_0, blocks);
  const bytes = readFileSync(path);
  const at = bytes.indexOf(blocks.subarray(0, 340)) + 34 * 29;
  bytes.writeUInt16LE(0x7c00, at);
  await assert.rejects(converted(file(bytes), { quant: 'bq4h' }), {
    code: 'FORMAT',
    message: /tensor "wte.weight" has a scale is NaN or infinite \(q8_0\)/,
    offset: at,
  });
});

test('truncated files and options that GGUF files do not support are refused', async () => {
  const { blocks } = embeddingOf('q8_0');
  const path = withEmbedding(NUMBERS.q8_0, blocks);
  const bytes = readFileSync(path);
  await assert.rejects(converted(file(bytes.subarray(0, bytes.length - 5000)), { quant: 'bq8' }), {
    code: 'TRUNCATED',
  });
  for (const [options, message] of /** @type {const} */ ([
    [{ v1: true, quant: 'bq4' }, /--v1 is not supported for GGUF files$/],
    [{ compress: 'lz4' }, /--compress is not supported for GGUF files$/],
    [{ activationSteps: 'a.json' }, /--activation-steps is not supported for GGUF files whose weights are not changed/],
    [{ tokenizer: 'a.json' }, /--tokenizer is not supported for GGUF files whose weights are not changed/],
    [{ quant: 'q4_k' }, /unknown weight type "q4_k"/],
  ]))
    await assert.rejects(converted(path, options), { code: 'ARGUMENT', message: message });
  assert.deepEqual(
    readdirSync(folder, { recursive: true }).filter((n) => String(n).includes('.part')),
    [],
  );
});

test('several files give the same result as one', async () => {
  const small = { ...config, layers: 2 };
  const parts = randomParts(small, 3).map((bytes, i) => {
    const path = join(folder, `many-0000${i + 1}-of-00003.gguf`);
    writeFileSync(path, bytes);
    return path;
  });
  const [one, many] = [
    await converted(file(randomGguf(small)), { quant: 'bq4h' }),
    await converted(parts[0], { quant: 'bq4h' }),
  ];
  assert.equal(many.tensors.size, one.tensors.size);
  for (const [name, { data }] of one.tensors) assert.ok(many.tensors.get(name)?.data.equals(data), name);
});

test('after a kill, quantize continues and writes the same tensors', async () => {
  const large = { ...config, layers: 10, ffn: 1024 };
  const path = file(randomGguf(large));
  const out = join(fresh(), 'out.bq4');
  const script = `
    import { convertGguf } from ${JSON.stringify(new URL('../../bin/convert-gguf.js', import.meta.url).href)};
    import { sourceOf } from ${JSON.stringify(new URL('../../bin/options.js', import.meta.url).href)};
    import { openSource } from ${JSON.stringify(new URL('../../js/storage/sources/index.js', import.meta.url).href)};
    const [from, to, at] = process.argv.slice(1);
    let first = -1;
    const onProgress = (done, total) => {
      if (first < 0) first = done / total;
      if (done / total > Number(at)) process.kill(process.pid, 'SIGKILL');
    };
    await convertGguf(await openSource(await sourceOf(from)), to, { quant: 'f32', onProgress });
    console.log(first);
    process.exit();`;
  const run = (/** @type {number} */ at) =>
    spawnSync(process.execPath, ['--input-type=module', '-e', script, path, out, String(at)], { encoding: 'utf8' });
  assert.equal(run(0.7).signal, 'SIGKILL');
  assert.deepEqual([existsSync(out), existsSync(`${out}.part.journal`)], [false, true]);
  const { status, stdout, stderr } = run(2);
  assert.equal(status, 0, stderr);
  assert.ok(Number(stdout) > 0.4, `begun at ${stdout}`);
  const [found, wanted] = [await tensorsOf(out), (await converted(path, { quant: 'f32' })).tensors];
  assert.equal(found.size, wanted.size);
  for (const [name, { data }] of wanted) assert.ok(found.get(name)?.data.equals(data), name);
});
