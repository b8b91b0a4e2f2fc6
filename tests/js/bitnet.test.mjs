// Tests of BitNet b1.58: ternary weights in unrounded checkpoints, packed in bytes and in GGUF files; the difference between activations of
// 8 bits with a scale per block and those of BitNet with a scale per token; and refused files.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { withTernaryWeights } from '../../js/convert/ternary-weights.js';
import { configOf } from '../../js/format/families/names.js';
import { ternaryWeights } from '../../js/format/families/bitnet.js';
import { openGguf } from '../../js/format/gguf/open.js';
import { f16FromNumber } from '../../js/format/bq4/half.js';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { testFolder } from './folders.mjs';
import { randomWeights } from './checkpoints.mjs';
import { bytesTokenizer, gguf, ggufName, llamaMetadata } from './gguf-writer.mjs';
import { openLogits } from './logits.mjs';

const FIXTURE = fileURLToPath(new URL('../golden/fixtures/bitnet/', import.meta.url));
const GGUF = fileURLToPath(new URL('../golden/gguf/bitnet.gguf', import.meta.url));
const { fresh } = testFolder('bitnet');
const readJson = (/** @type {string} */ name) => JSON.parse(readFileSync(join(FIXTURE, name), 'utf8'));
const config = readJson('config.json');
const { ids, logits } = readJson('expected.json');
/** @param {string} base64 */
const floatsOf = (base64) => new Float32Array(Uint8Array.from(Buffer.from(base64, 'base64')).buffer);
const TERNARY = /^h\.\d+\.(attn\.[qkvo]|mlp\.(gate|up|down))\.weight$/;

/** The folder of a checkpoint. @param {{ weights?: string, change?: (bytes: Buffer) => void, quantization?: object | null }} [options]  `weights`: its file in the fixture */
function folderOf({ weights = 'model.safetensors', change, quantization = config.quantization_config } = {}) {
  const folder = fresh();
  const to = join(folder, 'model.safetensors');
  copyFileSync(join(FIXTURE, weights), to);
  if (change) {
    const bytes = readFileSync(to);
    change(bytes);
    writeFileSync(to, bytes);
  }
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, quantization_config: quantization }));
  return folder;
}

/** @param {string} folder @param {object} [options]  of the conversion */
async function converted(folder, options = {}) {
  const path = join(fresh(), 'model.bq4');
  const report = await convert(folder, path, options);
  return { path, report };
}

/** Logits of all positions. @param {string} path @param {object} [options] */
async function logitsOf(path, options) {
  const model = await openLogits(fromFile(path), { contextTokens: 32, ...options });
  const rows = ids.map((/** @type {number} */ id, /** @type {number} */ i) => (i ? model.next(id) : model.start([id])));
  model.close();
  return Float32Array.from(rows.flatMap((/** @type {Float32Array} */ row) => [...row]));
}

/** Largest and mean distance. @param {Float32Array} found @param {Float32Array} wanted */
function distances(found, wanted) {
  assert.equal(found.length, wanted.length);
  const all = Array.from(found, (x, i) => Math.abs(x - wanted[i]));
  return { most: Math.max(...all), mean: all.reduce((a, b) => a + b, 0) / all.length };
}

const PACKED = ['bitlinear', 'autobitlinear'].map((linear) => ({
  weights: `packed-${linear}.safetensors`,
  quantization: { quant_method: 'bitnet', linear_class: linear, quantization_mode: 'offline' },
}));

for (const [name, options] of /** @type {[string, Parameters<typeof folderOf>[0]][]} */ ([
  ['bf16 weights that are made ternary', {}],
  ...PACKED.map((options) => [options.weights, options]),
]))
  test(`${name}: in f32 the logits of transformers, in bqt_64 the same weights`, async () => {
    const folder = folderOf(options);
    const { path } = await converted(folder, { quant: 'f32' });
    const { most } = distances(await logitsOf(path), floatsOf(logits));
    assert.ok(most < 1e-3, `${most}`);
    const { report } = await converted(folder, { embed: 'f32' });
    const ternary = report.tensors.filter((tensor) => TERNARY.test(tensor.name));
    assert.equal(ternary.length, 14);
    for (const tensor of ternary) assert.deepEqual([tensor.type, tensor.maxAbs], ['bqt_64', 0], tensor.name);
    const wide = await converted(folder, { quant: 'bq8' });
    assert.equal(
      wide.report.tensors.find((tensor) => TERNARY.test(tensor.name))?.type,
      'bq8_32',
      'a type that is asked for',
    );
  });

test('a checkpoint without quantization_config is read without conversion', async () => {
  const { path, report } = await converted(folderOf({ quantization: null }), { quant: 'f32' });
  assert.ok(report.tensors.every(({ name }) => !name.endsWith('.scale')));
  assert.ok(distances(await logitsOf(path), floatsOf(logits)).most > 1);
});

test('activations of 8 bits are as precise as those of BitNet, with one scale per token; 16 bits are more precise', async () => {
  const { path } = await converted(folderOf(), { embed: 'f32' });
  const [plain, rounded] = [floatsOf(logits), floatsOf(readJson('rounded.json').logits)];
  const bitnets = distances(rounded, plain);
  const eight = await logitsOf(path);
  const sixteen = await logitsOf(path, { activations: 'i16' });
  const found = {
    bitnets,
    eight: distances(eight, plain),
    eightToBitnets: distances(eight, rounded),
    sixteen: distances(sixteen, plain),
    sixteenToBitnets: distances(sixteen, rounded),
  };
  const summary = JSON.stringify(found);
  assert.ok(found.eight.mean < bitnets.mean, summary);
  assert.ok(found.eightToBitnets.mean < 2 * bitnets.mean, summary);
  assert.ok(found.sixteen.most < bitnets.most / 20, summary);
});

test('all builds compute the same bits, with one thread and with three', async () => {
  const { path } = await converted(folderOf(), {});
  for (const kind of /** @type {const} */ (['i8', 'i16'])) {
    /** @type {Float32Array[]} */
    const all = [];
    for (const build of /** @type {const} */ (['simd128', 'relaxed', 'relaxed16']))
      for (const threads of [0, 1, 3]) all.push(await logitsOf(path, { build, threads, activations: kind }));
    for (const other of all) assert.deepEqual(other, all[0]);
  }
});

/** Where the tensor whose name begins so lies. @param {Buffer} bytes @param {string} name */
function placeOf(bytes, name) {
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, start));
  const [found] = Object.keys(header).filter((key) => key.endsWith(name));
  return start + header[found].data_offsets[0];
}

for (const [what, change, error] of /** @type {[string, (bytes: Buffer) => void, object][]} */ ([
  [
    'bits that are no weight',
    (bytes) => bytes.fill(255, placeOf(bytes, 'up_proj.weight'), placeOf(bytes, 'up_proj.weight') + 9),
    { code: 'FORMAT', message: /bits 3 for a weight/ },
  ],
  [
    'a scale of 0',
    (bytes) => bytes.writeFloatLE(0, placeOf(bytes, 'k_proj.weight_scale')),
    {
      code: 'FORMAT',
      message: /^tensor "model\.layers\.0\.self_attn\.k_proj\.weight_scale" is 0; expected a positive number/,
    },
  ],
  [
    'a scale of none',
    (bytes) => bytes.writeFloatLE(NaN, placeOf(bytes, 'k_proj.weight_scale')),
    { code: 'FORMAT', message: /is NaN; expected a positive number/ },
  ],
  [
    'a matrix without a scale',
    (bytes) => void bytes.write('k_proj.weight_scala', bytes.indexOf('k_proj.weight_scale')),
    { code: 'UNSUPPORTED', message: /weight_scala/ },
  ],
]))
  test(`a damaged packed checkpoint is refused: ${what}`, async () => {
    await assert.rejects(converted(folderOf({ ...PACKED[0], change })), error);
  });

for (const [value, layer, tensor] of /** @type {const} */ ([
  [NaN, 0, 'self_attn.k_proj.weight'],
  [Infinity, 1, 'mlp.down_proj.weight'],
  [-Infinity, 0, 'mlp.gate_proj.weight'],
  [NaN, 1, 'self_attn.o_proj.weight'],
  [NaN, 0, 'input_layernorm.weight'],
]))
  test(`weights that are ${value} are refused under the name that their file has: ${tensor}`, async () => {
    const name = `model.layers.${layer}.${tensor}`;
    const bits = new Float32Array([value]);
    const change = (/** @type {Buffer} */ bytes) => {
      const { dtype } = JSON.parse(bytes.toString('utf8', 8, 8 + Number(bytes.readBigUInt64LE(0))))[name];
      const [word] = new Uint32Array(bits.buffer);
      if (dtype === 'F32') bytes.writeUInt32LE(word, placeOf(bytes, name) + 12);
      else bytes.writeUInt16LE(word >>> 16, placeOf(bytes, name) + 6);
    };
    await assert.rejects(converted(folderOf({ change })), (/** @type {any} */ error) => {
      assert.equal(error.code, 'FORMAT');
      assert.ok(error.message.startsWith(`tensor "${name}", weight 3 is ${value}`), error.message);
      assert.equal(error.details.tensor, name);
      return true;
    });
  });

test('a packed matrix has one scale', () => {
  const tensor = (/** @type {number[]} */ ...dims) => ({ dims, read: async () => new Float32Array(1) });
  const how = { packed: true, divides: true };
  const of = (/** @type {[string, any][]} */ ...more) => new Map([['h.0.attn.q.weight', tensor(4, 4)], ...more]);
  assert.throws(() => withTernaryWeights(of(), how), { code: 'SHAPE', message: /"h.0.attn.q.scale" is missing/ });
  assert.throws(() => withTernaryWeights(of(['h.0.attn.q.scale', tensor(4)]), how), {
    code: 'SHAPE',
    message: /is 4; expected one number/,
  });
});

for (const [change, says] of /** @type {[Record<string, any>, RegExp][]} */ ([
  [{ linear_class: 'linear' }, /linear_class "linear"/],
  [{ quantization_mode: 'later' }, /quantization_mode "later"/],
  [{ use_rms_norm: true }, /norms of all products/],
  [{ modules_to_not_convert: ['lm_head', 'model.layers.0'] }, /"model.layers.0" in modules_to_not_convert/],
]))
  test(`refused by name: ${JSON.stringify(change)}`, () => {
    const changed = { ...config, quantization_config: { ...config.quantization_config, ...change } };
    assert.throws(() => ternaryWeights(changed), { code: 'UNSUPPORTED', message: says });
  });

test('ternary weights of other models are refused by name; what config.json omits is as in the published model', () => {
  assert.throws(() => ternaryWeights({ ...config, model_type: 'llama' }), {
    code: 'UNSUPPORTED',
    message: /of type "llama"/,
  });
  assert.equal(ternaryWeights({ ...config, quantization_config: { quant_method: 'other' } }), null);
  const {
    layers,
    hidden,
    ffn,
    heads,
    kv_heads: kv,
    rope_theta: theta,
    activation,
  } = configOf({ model_type: 'bitnet' });
  assert.deepEqual([layers, hidden, ffn, heads, kv, theta, activation], [30, 2560, 6912, 20, 5, 500000, 'relu2']);
});

test('GGUF: the activation function is read, with SiLU as default; others, and weights and files of bitnet.cpp, are refused by name', async () => {
  const bytes = readFileSync(GGUF);
  const open = (/** @type {Buffer} */ file) => openGguf(openBytes(file), file.subarray(0, 64));
  assert.equal((await open(bytes)).config.activation, 'relu2');
  const silent = Buffer.from(bytes);
  silent.write('hidden_activatioN', silent.indexOf('hidden_activation'));
  assert.equal((await open(silent)).config.activation, 'silu');
  const other = Buffer.from(bytes);
  other.write('relu3', other.indexOf('relu2'));
  await assert.rejects(open(other), { code: 'UNSUPPORTED', message: /hidden_activation is "relu3"/ });
  const i2s = Buffer.from(bytes);
  const name = i2s.indexOf('blk.0.attn_q.weight');
  i2s.writeUInt32LE(36, name + 'blk.0.attn_q.weight'.length + 4 + 2 * 8);
  await assert.rejects(open(i2s), {
    code: 'UNSUPPORTED',
    message: /blk.0.attn_q.weight" has the unsupported type I2_S/,
  });
  const file = gguf({ 'general.architecture': ['text', 'bitnet-b1.58'] }, []);
  await assert.rejects(open(file), {
    code: 'UNSUPPORTED',
    message: /"bitnet-b1.58"/,
    hint: /I2_S; convert the safetensors/,
  });
});

/** Blocks of TQ2_0: in each half of 256 weights, 32 bytes whose bits 2 j are weights 32 j, 32 j + 1, … plus 1; an f16 scale. @param {Float32Array} values  ternary @param {number} scale */
function tq2Blocks(values, scale) {
  const out = Buffer.alloc((values.length / 256) * 66);
  values.forEach((w, i) => {
    const [block, k] = [Math.floor(i / 256), i % 256];
    out[66 * block + 32 * (k >> 7) + (k & 31)] |= (w + 1) << (2 * ((k >> 5) & 3));
    if (!k) out.writeUInt16LE(f16FromNumber(scale), 66 * block + 64);
  });
  return out;
}

test('GGUF: ternary blocks stay ternary, and give the same tokens as their weights in floats', async () => {
  const scale = 0.0625;
  const sizes = { layers: 1, hidden: 256, heads: 4, kv_heads: 2, ffn: 256, vocab: 128, context: 32, norm_eps: 1e-5 };
  const weights = randomWeights({ arch: 'other', ...sizes, activation: 'relu2', sub_norms: true });
  const metadata = Object.fromEntries(
    Object.entries(llamaMetadata(sizes)).map(([key, value]) => [key.replace('llama.', 'bitnet.'), value]),
  );
  const fileOf = (/** @type {boolean} */ packs) =>
    gguf(
      {
        ...metadata,
        ...bytesTokenizer(sizes.vocab),
        'general.architecture': ['text', 'bitnet'],
        'bitnet.hidden_activation': ['text', 'relu2'],
      },
      [...weights].map(([name, { dims, values }]) => {
        const [, layer, module] = /^h\.(\d)\.(attn|mlp)\.sub_norm/.exec(name) ?? [];
        const theirs = module ? `blk.${layer}.${module === 'mlp' ? 'ffn' : 'attn'}_sub_norm.weight` : ggufName(name);
        const ternary = values.map((w) => Math.round(2 * w));
        const isTernary = TERNARY.test(name);
        const floats = isTernary ? ternary.map((w) => w * scale) : values;
        return isTernary && packs
          ? { name: theirs, dims, type: 35, bytes: tq2Blocks(ternary, scale) }
          : { name: theirs, dims, type: 0, bytes: new Uint8Array(floats.slice().buffer) };
      }),
    );
  const prompt = Array.from({ length: 12 }, (_, i) => (i * 37) % 100);
  const engine = await createEngine({ cache: false });
  /** @param {Buffer} bytes */
  async function generated(bytes) {
    const model = await engine.load(fromBytes(bytes), { activations: 'i16', kv: 'f32' });
    const session = await model.createSession();
    const { tokens } = await session.generate(prompt, { temperature: 1, seed: 3, maxTokens: 16 }).result;
    const { weightBytes } = model.info;
    await model.close();
    return { tokens: [...tokens], weightBytes };
  }
  const [floats, packed] = [await generated(fileOf(false)), await generated(fileOf(true))];
  await engine.close();
  assert.ok(new Set(floats.tokens).size > 4, `${floats.tokens}`);
  assert.deepEqual(packed.tokens, floats.tokens);
  const [others, ternary] = [8 * sizes.vocab * sizes.hidden, 6 * sizes.hidden ** 2];
  assert.ok(packed.weightBytes - others < 0.3 * ternary, `${packed.weightBytes}`);
});
