// Tests of the converter: inputs, outputs, refused inputs, and its limited memory.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
  closeSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { dequantize, quantize } from './encode.mjs';
import { f16FromNumber, f16ToNumber } from '../../js/format/bq4/half.js';
import { convert } from '../../js/convert/index.js';
import { tensorTable } from '../../js/format/bq4/names.js';
import { memorySink } from '../../js/format/output.js';
import { FLAT, TYPES, WRITABLE } from '../../js/format/bq4/weight-types.js';
import { writeV1 } from '../../js/format/bq4/write-v1.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { createEngine, fromFile } from '../../js/node.js';
import { inspect } from '../../bin/inspect.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import {
  CONFIG,
  hfConfig,
  hfFolder,
  hfName,
  llama2c,
  randomWeights,
  safetensors,
  tokenizerBin,
} from './checkpoints.mjs';
import { testFolder } from './folders.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { folder, fresh } = testFolder('convert');
/** The path of a new file. @param {string} name @param {Uint8Array | string} bytes */
function file(name, bytes) {
  const path = join(fresh(), name);
  writeFileSync(path, bytes);
  return path;
}

/** Converts, and reads every tensor of the result. @param {string} input @param {import('../../js/convert/index.js').ConvertOptions} [options] */
async function converted(input, options) {
  const out = join(fresh(), 'out.bq4');
  const report = await convert(input, out, options);
  const bytes = new Uint8Array(readFileSync(out));
  const found = await inspect(openBytes(bytes));
  const tensors = new Map(
    found.tensors.map(({ name, type, layout, dims, offset, bytes: n }) => {
      const { rows, cols } = matrixOf(dims);
      const data = bytes.slice(offset, offset + n);
      return [
        name,
        {
          type,
          layout,
          dims,
          offset,
          data,
          values: dequantize(
            TYPES.findIndex((t) => t.name === type),
            layout === 'tiled' ? 1 : 0,
            data,
            rows,
            cols,
          ),
        },
      ];
    }),
  );
  return { out, report, bytes, tensors, found };
}

test('llama2.c, legacy and version 1, tied and untied: all tensors are unchanged', async () => {
  for (const tied of [true, false]) {
    const config = { ...CONFIG, tied };
    const weights = randomWeights(config);
    for (const variant of /** @type {const} */ (['legacy', 'v1'])) {
      const input = file('model.bin', llama2c(weights, variant, config));
      writeFileSync(join(input, '..', 'tokenizer.bin'), tokenizerBin(config.vocab));
      const { tensors, found } = await converted(input, { quant: 'f32' });
      assert.deepEqual([...tensors.keys()], [...weights.keys()], 'execution order');
      for (const [name, { dims, values }] of weights) {
        assert.deepEqual(tensors.get(name)?.values, values, `${name}, ${variant}`);
        assert.deepEqual(tensors.get(name)?.dims, dims);
      }
      const { layers, hidden, heads, kv_heads, ffn, vocab, context, rope_pairs, norm } = found.config;
      assert.deepEqual(
        { layers, hidden, heads, kv_heads, ffn, vocab, context, rope_pairs, norm, tied: found.config.tied },
        {
          layers: 2,
          hidden: 24,
          heads: 4,
          kv_heads: 2,
          ffn: 40,
          vocab: 52,
          context: 32,
          rope_pairs: 'adjacent',
          norm: 'rms',
          tied: Number(tied),
        },
      );
      assert.equal(found.tokenizer?.tokens, 52);
      assert.equal(found.tokenizer?.kind, 'spm');
    }
  }
});

test('safetensors: f32, f64, f16 and bf16; biases; an untied head, or a tied one that is stored anyway', async () => {
  for (const dtype of ['F32', 'F64', 'F16', 'BF16']) {
    const config = { ...CONFIG, tied: false };
    const weights = randomWeights(config, { biases: true });
    if (dtype.endsWith('F16'))
      for (const { values } of weights.values())
        values.forEach((v, i) => {
          values[i] = f16ToNumber(f16FromNumber(v) & 0xffc0);
        });
    const { tensors, found } = await converted(hfFolder(fresh(), weights, { dtype, config: hfConfig(config) }), {
      quant: 'f32',
    });
    for (const [name, { values }] of weights) assert.deepEqual(tensors.get(name)?.values, values, `${name}, ${dtype}`);
    assert.equal(found.config.rope_pairs, 'half');
  }
  const weights = randomWeights();
  weights.set('lm_head.weight', weights.get('wte.weight'));
  const { tensors } = await converted(hfFolder(fresh(), weights), {});
  assert.ok(!tensors.has('lm_head.weight'));
});

test('shards, and a single file with config.json next to it', async () => {
  const weights = randomWeights();
  const named = [...weights].map(([name, tensor]) => /** @type {[string, any]} */ ([hfName(name), tensor]));
  const path = fresh();
  writeFileSync(join(path, 'config.json'), JSON.stringify(hfConfig()));
  const halves = [named.slice(0, 7), named.slice(7)];
  halves.forEach((half, i) => writeFileSync(join(path, `part-${i}.safetensors`), safetensors(half)));
  const weight_map = Object.fromEntries(
    halves.flatMap((half, i) => half.map(([name]) => [name, `part-${i}.safetensors`])),
  );
  writeFileSync(join(path, 'model.safetensors.index.json'), JSON.stringify({ weight_map }));
  const { tensors } = await converted(path, { quant: 'f32' });
  for (const [name, { values }] of weights) assert.deepEqual(tensors.get(name)?.values, values, name);

  const whole = hfFolder(fresh(), weights);
  const { tensors: again } = await converted(join(whole, 'model.safetensors'), { quant: 'f32' });
  assert.equal(again.size, weights.size);
  weight_map[named[0][0]] = '../part-0.safetensors';
  writeFileSync(join(path, 'model.safetensors.index.json'), JSON.stringify({ weight_map }));
  await assert.rejects(convert(path, join(fresh(), 'x.bq4')), { code: 'FORMAT' });
});

test('config.json as written by Python: Infinity and NaN', async () => {
  const original = fileURLToPath(new URL('../golden/fixtures/mamba2', import.meta.url));
  const text = readFileSync(join(original, 'config.json'), 'utf8');
  const copy = fresh();
  copyFileSync(join(original, 'model.safetensors'), join(copy, 'model.safetensors'));
  const special = String.raw`{"time_step_limit": [0.0, Infinity], "unused": [NaN, -Infinity, "Infinity, \"NaN\""],`;
  writeFileSync(join(copy, 'config.json'), text.replace('{', special));
  assert.deepEqual((await converted(copy)).tensors, (await converted(original)).tensors);
  writeFileSync(join(copy, 'config.json'), text.replace('{', '{"unused": Infinite,'));
  await assert.rejects(converted(copy), { code: 'FORMAT', message: /config.json is not valid JSON/ });
});

test('offsets: alignment, hashes, types by default and by option', async () => {
  const input = hfFolder(fresh(), randomWeights());
  const typesOf = async (/** @type {any} */ options) => {
    const { tensors, found, bytes } = await converted(input, options);
    for (const { offset } of tensors.values()) assert.equal(offset % 64, 0);
    assert.deepEqual(
      {
        header: found.hashes?.header,
        plan: found.hashes?.plan,
        prefix: found.hashes?.prefix,
        damaged: found.hashes?.damaged,
      },
      { header: 'ok', plan: 'ok', prefix: 'ok', damaged: [] },
    );
    assert.equal(found.format.fileLength, bytes.length);
    const kind = (/** @type {string} */ name) => `${tensors.get(name)?.type} ${tensors.get(name)?.layout}`;
    return [kind('wte.weight'), kind('h.0.attn.q.weight'), kind('h.1.ln1.weight')];
  };
  assert.deepEqual(await typesOf({}), ['bq8_32 tiled', 'bq4a_32 tiled', 'f32 rows']);
  assert.deepEqual(await typesOf({ quant: 'bq4' }), ['bq8_32 tiled', 'bq4_32 tiled', 'f32 rows']);
  assert.deepEqual(await typesOf({ quant: 'bq4h', embed: 'f16' }), ['f16 rows', 'bq4h_32 tiled', 'f32 rows']);
  assert.deepEqual(await typesOf({ quant: 'f16' }), ['f16 rows', 'f16 rows', 'f32 rows']);
  assert.deepEqual(await typesOf({ quant: 'bq4_64', embed: 'bq4_16' }), ['bq4_16 tiled', 'bq4_64 tiled', 'f32 rows']);
});

test('every type that can be written is loaded and run; the report has its errors', async () => {
  const input = hfFolder(fresh(), randomWeights());
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  for (const quant of WRITABLE) {
    const { out, report, tensors } = await converted(input, { quant, embed: quant });
    const model = await engine.load(fromFile(out));
    const { tokens: ids } = await (await model.createSession()).generate([1, 2, 3], { maxTokens: 3, temperature: 0 })
      .result;
    assert.equal(ids.length, 3, quant);
    await model.close();
    const source = randomWeights();
    assert.equal(report.tensors.length, source.size);
    for (const t of report.tensors) {
      const errors = [...source.get(t.name).values].map((v, i) => Math.abs(v - tensors.get(t.name).values[i]));
      assert.equal(t.maxAbs, Math.fround(Math.max(...errors)), t.name);
      const mean = errors.reduce((a, b) => a + b) / errors.length;
      const rms = Math.sqrt(errors.reduce((a, b) => a + b * b, 0) / errors.length);
      assert.ok(Math.abs(t.meanAbs - mean) <= 1e-6 * mean && Math.abs(t.rms - rms) <= 1e-6 * rms, t.name);
      assert.equal(t.bytes, tensors.get(t.name).data.length);
    }
    const weights = tensorTable(CONFIG)
      .filter((s) => s.required)
      .reduce((sum, s) => sum + s.dims.reduce((a, b) => a * b), 0);
    assert.equal(report.weights, weights);
    assert.equal(report.ratio, (4 * weights) / report.dataBytes);
  }
  await engine.close();
});

/** Reads a v1 file by the rules of docs/FORMAT.md §3 alone. @param {Uint8Array} bytes */
function readV1(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 12;
  const u32 = () => view.getUint32((at += 4) - 4, true);
  assert.equal(new TextDecoder().decode(bytes.subarray(0, 4)), 'BQ4F');
  assert.equal(view.getUint32(4, true), 1);
  return Array.from({ length: view.getUint32(8, true) }, () => {
    const length = u32();
    const name = new TextDecoder().decode(bytes.subarray(at, (at += length)));
    const dims = Array.from({ length: u32() }, u32);
    const [block, blocks] = [u32(), u32()];
    const offset = Number(view.getBigUint64((at += 8) - 8, true));
    return { name, dims, block, blocks, data: bytes.slice(offset, offset + blocks * (block / 2 + 4)) };
  });
}

test('v1: blocks of 32 if they fit, else 16, else the companion; byte-exact round trip', async () => {
  const config = { ...CONFIG, hidden: 20, heads: 2, kv_heads: 1, ffn: 24 };
  const weights = randomWeights(config);
  const input = file('model.bin', llama2c(weights, 'legacy', config));
  const out = join(fresh(), 'out.bq4');
  await convert(input, out, { v1: true, license: 'MIT', name: 'test' });
  const bytes = new Uint8Array(readFileSync(out));
  const entries = readV1(bytes);
  const companion = JSON.parse(readFileSync(out.replace('.bq4', '.json'), 'utf8'));
  assert.deepEqual(
    [companion.bq4_companion, companion.license, companion.name, companion.config.layers],
    [1, 'MIT', 'test', 2],
  );
  for (const [name, { dims, values }] of weights) {
    const entry = entries.find((e) => e.name === name);
    const block = values.length % 32 === 0 ? 32 : values.length % 16 === 0 ? 16 : 0;
    if (!block) {
      assert.equal(entry, undefined, name);
      assert.deepEqual(companion.tensors[name].dims, dims);
      assert.deepEqual(Buffer.from(companion.tensors[name].f32, 'base64'), Buffer.from(values.buffer), name);
      continue;
    }
    assert.deepEqual([entry?.block, entry?.blocks, entry?.dims], [block, values.length / block, dims], name);
    const type = TYPES.findIndex((t) => t.name === `bq4_${block}`);
    assert.deepEqual(entry?.data, quantize(type, FLAT, values, 1, values.length), name);
  }
  assert.ok(
    new Set(entries.map((e) => e.block)).size === 2 && Object.keys(companion.tensors).length,
    'all three kinds were met',
  );

  const sink = memorySink();
  await writeV1(
    sink,
    entries.map(({ name, dims, block, data }) => ({
      name,
      dims,
      type: TYPES.find((t) => t.name === `bq4_${block}`),
      pieces: async function* () {
        yield data;
      },
    })),
  );
  assert.deepEqual(sink.bytes, bytes);
  await assert.rejects(writeV1(memorySink(), [{ name: 'odd', dims: [3, 5], pieces: async function* () {} }]), {
    code: 'SHAPE',
    message: /"odd"/,
  });
});

/**
 * Faults of the input, how to create them, and the error.
 * @type {Record<string, { input: () => string, options?: any, error: { code: string, message?: RegExp } }>}
 */
const BAD = {
  'no such file': { input: () => join(folder, 'none.bin'), error: { code: 'READ' } },
  'an empty folder': { input: fresh, error: { code: 'NOT_A_MODEL', message: /config\.json/ } },
  'a text': {
    input: () => file('a.bin', 'hello world, this is a text, not a model at all'),
    error: { code: 'NOT_A_MODEL' },
  },
  'a .bq4 file': { input: () => file('a.bq4', 'BQ4F....'), error: { code: 'UNSUPPORTED', message: /already/ } },
  'a GGUF file': { input: () => file('a.gguf', 'GGUF....'), error: { code: 'UNSUPPORTED', message: /GGUF/ } },
  'a PyTorch archive cut short': {
    input: () => file('a.pt', 'PK\x03\x04...'),
    error: { code: 'FORMAT', message: /directory/ },
  },
  'a llama2.c checkpoint of version 2': {
    input: () => file('a.bin', Buffer.from(Int32Array.of(0x616b3432, 2, ...new Array(70).fill(1)).buffer)),
    error: { code: 'UNSUPPORTED', message: /version 2/ },
  },
  'a header of impossible sizes': {
    input: () => file('a.bin', Buffer.from(Int32Array.of(24, 40, 2e9, 4, 2, 52, 32, 0).buffer)),
    error: { code: 'NOT_A_MODEL' },
  },
  'a header of huge sizes': {
    input: () => file('a.bin', Buffer.from(Int32Array.of(2 ** 30, 2 ** 30, 1000, 4, 2, 2 ** 30, 32, 0).buffer)),
    error: { code: 'TRUNCATED' },
  },
  'a checkpoint cut short': {
    input: () => file('a.bin', llama2c(randomWeights(), 'legacy').subarray(0, -4)),
    error: { code: 'TRUNCATED' },
  },
  'a checkpoint with more behind it': {
    input: () => file('a.bin', Buffer.concat([llama2c(randomWeights(), 'v1'), Buffer.alloc(4)])),
    error: { code: 'FORMAT' },
  },
  'a NaN': {
    input: () => {
      const weights = randomWeights();
      weights.get('h.1.mlp.up.weight').values[777] = NaN;
      return hfFolder(fresh(), weights);
    },
    error: { code: 'FORMAT', message: /^tensor "model\.layers\.1\.mlp\.up_proj\.weight", weight 777 is NaN/ },
  },
  'a weight too large for f16': {
    input: () => {
      const weights = randomWeights();
      weights.get('wte.weight').values[5] = 1e6;
      return hfFolder(fresh(), weights);
    },
    options: { quant: 'f16' },
    error: { code: 'FORMAT', message: /^tensor "model\.embed_tokens\.weight", weight 5 is 1000000/ },
  },
  'a missing tensor': {
    input: () => {
      const weights = randomWeights();
      weights.delete('h.0.attn.k.weight');
      return hfFolder(fresh(), weights);
    },
    error: { code: 'SHAPE', message: /"h\.0\.attn\.k\.weight" is missing/ },
  },
  'a tensor of another shape': {
    input: () => {
      const weights = randomWeights();
      weights.get('wte.weight').dims.reverse();
      return hfFolder(fresh(), weights);
    },
    error: { code: 'SHAPE', message: /24 × 52; the configuration expects 52 × 24/ },
  },
  'a tensor without a place': {
    input: () => hfFolder(fresh(), randomWeights({ ...CONFIG, layers: 3 })),
    error: { code: 'SHAPE', message: /no counterpart/ },
  },
  'a tensor of another family': {
    input: () => {
      const path = hfFolder(fresh(), randomWeights());
      writeFileSync(
        join(path, 'model.safetensors'),
        safetensors([['model.layers.0.self_attn.q_norm.weight', { dims: [2], values: new Float32Array(2) }]]),
      );
      return path;
    },
    error: { code: 'UNSUPPORTED', message: /q_norm/ },
  },
  'another model type': {
    input: () => hfFolder(fresh(), randomWeights(), { config: { ...hfConfig(), model_type: 'mamba' } }),
    error: { code: 'UNSUPPORTED', message: /mamba/ },
  },
  'scaled positions': {
    input: () =>
      hfFolder(fresh(), randomWeights(), { config: { ...hfConfig(), rope_scaling: { rope_type: 'wavy', factor: 8 } } }),
    error: { code: 'UNSUPPORTED', message: /wavy/ },
  },
  'a config.json without layers': {
    input: () => hfFolder(fresh(), randomWeights(), { config: { ...hfConfig(), num_hidden_layers: undefined } }),
    error: { code: 'FORMAT', message: /layers/ },
  },
  'a config.json that is no JSON': {
    input: () => {
      const path = hfFolder(fresh(), randomWeights());
      writeFileSync(join(path, 'config.json'), '{');
      return path;
    },
    error: { code: 'FORMAT' },
  },
  'a safetensors header that lies': {
    input: () => {
      const path = hfFolder(fresh(), randomWeights());
      const bytes = readFileSync(join(path, 'model.safetensors'));
      bytes.writeBigUInt64LE(2n ** 40n);
      writeFileSync(join(path, 'model.safetensors'), bytes);
      return path;
    },
    error: { code: 'FORMAT', message: /header/ },
  },
  'safetensors cut short': {
    input: () => {
      const path = hfFolder(fresh(), randomWeights());
      truncateSync(join(path, 'model.safetensors'), readFileSync(join(path, 'model.safetensors')).length - 1);
      return path;
    },
    error: { code: 'FORMAT', message: /outside the file/ },
  },
  'a tokenizer of another model': {
    input: () => file('a.bin', llama2c(randomWeights(), 'v1')),
    options: {
      get tokenizer() {
        return file('tokenizer.bin', tokenizerBin(40));
      },
    },
    error: { code: 'FORMAT' },
  },
  'an unknown type': {
    input: () => hfFolder(fresh(), randomWeights()),
    options: { quant: 'q4_k' },
    error: { code: 'ARGUMENT', message: /q4_k/ },
  },
  'v1 in another type': {
    input: () => hfFolder(fresh(), randomWeights()),
    options: { quant: 'f16', v1: true },
    error: { code: 'ARGUMENT' },
  },
};

for (const [what, { input, options, error }] of Object.entries(BAD)) {
  test(`refused, without output: ${what}`, async () => {
    const out = fresh();
    await assert.rejects(convert(input(), join(out, 'out.bq4'), { ...options }), (/** @type {any} */ e) => {
      assert.equal(e.name, 'BqError', e.stack);
      assert.equal(e.code, error.code, e.message);
      assert.match(e.message, error.message ?? /./);
      return true;
    });
    assert.deepEqual(readdirSync(out), []);
  });
}

test('an abort or a failure keeps the existing file', async () => {
  const out = fresh();
  const path = join(out, 'out.bq4');
  writeFileSync(path, 'old');
  const input = hfFolder(fresh(), randomWeights());
  const abort = new AbortController();
  let calls = 0;
  const stopped = convert(input, path, {
    signal: abort.signal,
    onProgress: () => {
      if (++calls === 3) abort.abort(new Error('enough'));
    },
  });
  await assert.rejects(stopped, /enough/);
  assert.equal(calls, 3);
  assert.deepEqual(readdirSync(out), ['out.bq4']);
  assert.equal(readFileSync(path, 'utf8'), 'old');
  await convert(input, path);
  assert.equal(readFileSync(path).subarray(0, 4).toString(), 'BQ4F');
  await assert.rejects(convert(input, join(out, 'none', 'out.bq4')), { code: 'WRITE' });
});

test('a checkpoint of the 135M shape with 269 MB is converted in parts', () => {
  const config = {
    arch: 'llama',
    layers: 30,
    hidden: 576,
    heads: 9,
    kv_heads: 3,
    ffn: 1536,
    vocab: 49152,
    context: 2048,
    norm_eps: 1e-5,
    tied: true,
  };
  const path = fresh();
  /** @type {Record<string, any>} */
  const header = {};
  let at = 0;
  for (const { name, dims, required } of tensorTable(config)) {
    if (required)
      header[hfName(name)] = {
        dtype: 'F16',
        shape: dims,
        data_offsets: [at, (at += 2 * dims.reduce((a, b) => a * b))],
      };
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const fd = openSync(join(path, 'model.safetensors'), 'w');
  writeSync(fd, Buffer.concat([length, json]));
  closeSync(fd);
  // The rest is a hole, which reads as zeros and uses no space.
  truncateSync(join(path, 'model.safetensors'), 8 + json.length + at);
  writeFileSync(join(path, 'config.json'), JSON.stringify(hfConfig(config)));
  const script = `
    import { convert } from ${JSON.stringify(new URL('../../js/convert/index.js', import.meta.url).href)};
    const { largestPiece, bytes } = await convert(...process.argv.slice(1));
    console.log(JSON.stringify({ largestPiece, bytes, peak: process.resourceUsage().maxRSS * 1024 }));`;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script, path, join(path, 'out.bq4')], {
    encoding: 'utf8',
  });
  assert.equal(child.status, 0, child.stderr);
  const { largestPiece, bytes, peak } = JSON.parse(child.stdout);
  rmSync(path, { recursive: true });
  assert.ok(at > 268e6 && bytes > 90e6, `${at} bytes became ${bytes}`);
  assert.ok(largestPiece <= 4 << 20, `${largestPiece} bytes at once`);
  assert.ok(peak < 200e6, `${peak} bytes of memory at most`);
});

test('the command: a table of errors, exit codes, chat format and card', async () => {
  const out = join(fresh(), 'out.bq4');
  const card = file('card.md', '# A card');
  const run = (/** @type {string[]} */ ...args) =>
    spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), 'convert', ...args], { encoding: 'utf8' });
  const good = run(join(ROOT, 'tests/golden/tiny'), out, '--quant', 'bq4', '--license', 'MIT', '--card', card);
  assert.equal(good.status, 0, good.stderr);
  assert.match(good.stdout, /h\.2\.mlp\.down\.weight +bq4_32 +\d+ +\S+e-\d+ +\S+e-\d+ +\S+e-\d+\n/);
  assert.match(good.stdout, /66576 weights in \d+ bytes: \d\.\d\d bits each, \d\.\d\d times smaller than f32\n/);
  const found = await inspect(openBytes(new Uint8Array(readFileSync(out))));
  assert.equal(found.license, 'MIT');
  assert.deepEqual(found.chat, {
    roles: { user: { before: '<|user|>', after: '<|end|>' }, assistant: { before: '<|assistant|>', after: '<|end|>' } },
    stop: ['<|end|>'],
    bos: false,
  });
  const bad = run(join(folder, 'none'), out);
  assert.equal(bad.status, 1);
  assert.match(bad.stderr, /^bq4: READ: /);
  assert.equal(run(out).status, 2);
  assert.ok(existsSync(out));
});

test('tokens that generation_config.json suppresses are never generated', async () => {
  const folder = fresh();
  cpSync(join(ROOT, 'tests/golden/tiny'), folder, { recursive: true });
  const engine = await createEngine({ threads: 1 });
  /** @param {any} generation @returns {Promise<number[]>} */
  const tokensWith = async (generation) => {
    const out = join(fresh(), 'out.bq4');
    writeFileSync(join(folder, 'generation_config.json'), JSON.stringify(generation));
    await convert(folder, out, { quant: 'f32' });
    const model = await engine.load(fromFile(out));
    const { tokens } = await model.generate('Once', { temperature: 0, maxTokens: 4 }).result;
    await model.close();
    return [...tokens];
  };
  const [first] = await tokensWith({});
  const tokens = await tokensWith({ suppress_tokens: [first] });
  assert.ok(tokens.length && !tokens.includes(first), `${first}: ${tokens}`);
  assert.deepEqual(await tokensWith({ suppress_tokens: null }), await tokensWith({}));
  await assert.rejects(tokensWith({ suppress_tokens: { 3: 1 } }), { code: 'FORMAT', message: /suppress_tokens/ });
  await engine.close();
});
