// Tests of the published EmbeddingGemma 2: a folder whose vision and audio parts are named as unused; pooling from both kinds of files; the
// same bits with every build; no table of per-layer embeddings to page; variants that are refused by name.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { configOf } from '../../js/format/families/names.js';
import { readSafetensors } from '../../js/format/safetensors.js';
import { createEngine, fromFile } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { safetensors } from './checkpoints.mjs';
import { testFolder } from './folders.mjs';

const FIXTURE = fileURLToPath(new URL('../golden/fixtures/embedding-gemma2/', import.meta.url));
const GGUF = fileURLToPath(new URL('../golden/gguf/embedding-gemma2.gguf', import.meta.url));
const { fresh } = testFolder('embedding-gemma2');
const config = JSON.parse(readFileSync(join(FIXTURE, 'config.json'), 'utf8'));
const { ids, hidden, states } = JSON.parse(readFileSync(join(FIXTURE, 'expected.json'), 'utf8'));

/** The mean of the states of transformers, of length 1, as modules.json and GGUF's pooling_type say. */
function expectedVector() {
  const all = new Float32Array(Uint8Array.from(Buffer.from(states, 'base64')).buffer);
  const mean = Array.from({ length: hidden }, (_, k) =>
    ids.reduce(
      (/** @type {number} */ sum, /** @type {number} */ _id, /** @type {number} */ i) => sum + all[i * hidden + k],
      0,
    ),
  );
  const length = Math.hypot(...mean);
  return mean.map((x) => x / length);
}

/** As transformers' EmbeddingGemma2Model saves it, with parts for pictures and sound, and what sentence-transformers puts beside it. */
async function publishedFolder() {
  const folder = fresh();
  const bytes = readFileSync(join(FIXTURE, 'model.safetensors'));
  const { tensors } = await readSafetensors(openBytes(bytes));
  /** @type {[string, { dims: number[], values: Float32Array }][]} */
  const all = [];
  for (const [name, tensor] of tensors) {
    assert.ok(tensor);
    const values = await tensor.read(0, tensor.dims.length > 1 ? tensor.dims[0] : 1);
    all.push([`language_model.${name}`, { dims: tensor.dims, values: Float32Array.from(values) }]);
  }
  for (const name of [
    'vision_tower.encoder.layers.0.mlp.up_proj.linear.weight',
    'embed_vision.embedding_projection.weight',
    'audio_tower.output_proj.weight',
    'embed_audio.embedding_projection.weight',
  ])
    all.push([name, { dims: [2, 2], values: new Float32Array(4) }]);
  writeFileSync(join(folder, 'model.safetensors'), safetensors(all));
  const whole = {
    architectures: ['EmbeddingGemma2Model'],
    model_type: 'embedding_gemma2',
    text_config: config,
    vision_config: { model_type: 'gemma4_vision' },
    audio_config: { model_type: 'gemma4_audio' },
  };
  const files = {
    'config.json': whole,
    'modules.json': ['Transformer', 'Pooling', 'Normalize'].map((kind, i) => ({
      idx: i,
      name: String(i),
      path: i ? `${i}_${kind}` : '',
      type: `sentence_transformers.models.${kind}`,
    })),
    '1_Pooling/config.json': { pooling_mode_mean_tokens: true },
    'config_sentence_transformers.json': { prompts: { query: 'task: search result | query: ' } },
  };
  mkdirSync(join(folder, '1_Pooling'));
  for (const [name, json] of Object.entries(files)) writeFileSync(join(folder, name), JSON.stringify(json));
  return folder;
}

/** @param {any} engine @param {string} path @param {object} [options] */
async function embedded(engine, path, options) {
  const model = await engine.load(fromFile(path));
  const { vectors } = await model.embed([ids], options);
  const { info } = model;
  await model.close();
  return { vector: vectors[0], info };
}

test('a published folder uses mean pooling with length 1; its vision and audio parts are named as unused', async () => {
  const path = join(fresh(), 'model.bq4');
  await convert(await publishedFolder(), path, { quant: 'f32' });
  const engine = await createEngine({ build: 'relaxed', threads: 1, cache: false });
  const { vector, info } = await embedded(engine, path);
  await engine.close();
  assert.deepEqual(info.unused, ['audio_tower', 'embed_audio', 'embed_vision', 'vision_tower']);
  assert.deepEqual(
    [info.embedding.width, info.embedding.pooling, info.embedding.normalize, Object.keys(info.prompts)],
    [40, 'mean', true, ['query']],
  );
  const expected = expectedVector();
  vector.forEach((/** @type {number} */ x, /** @type {number} */ k) => assert.ok(Math.abs(x - expected[k]) < 1e-5));
});

test('the pooling of a GGUF file is read', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1, cache: false });
  const { vector, info } = await embedded(engine, GGUF);
  await engine.close();
  assert.deepEqual([info.embedding.width, info.embedding.pooling, info.embedding.normalize], [40, 'mean', true]);
  const expected = expectedVector();
  vector.forEach((/** @type {number} */ x, /** @type {number} */ k) => assert.ok(Math.abs(x - expected[k]) < 1e-5));
});

test('all builds compute the same bits, with one thread and three, from both kinds of files, also in 4 bits', async () => {
  for (const quant of /** @type {const} */ (['f32', 'bq4'])) {
    const path = join(fresh(), 'model.bq4');
    await convert(FIXTURE, path, { quant });
    /** @type {Map<string, Float32Array>} */
    const vectors = new Map();
    for (const build of /** @type {const} */ (['simd128', 'relaxed', 'relaxed16']))
      for (const threads of [1, 3]) {
        const engine = await createEngine({ build, threads, cache: false });
        vectors.set(`${build} ${threads}`, (await embedded(engine, path)).vector);
        if (quant === 'f32')
          vectors.set(`${build} ${threads} GGUF`, (await embedded(engine, GGUF, { normalize: false })).vector);
        await engine.close();
      }
    const [first, ...others] = vectors.values();
    for (const vector of others) assert.deepEqual(vector, first, `${quant}: ${[...vectors.keys()]}`);
  }
});

test('the plan leaves no table of per-layer embeddings in the file', async () => {
  const path = join(fresh(), 'model.bq4');
  await convert(FIXTURE, path, { quant: 'f32' });
  const engine = await createEngine({ cache: false });
  for (const file of [path, GGUF]) {
    const plan = await engine.plan(fromFile(file));
    assert.deepEqual([plan.residency, plan.paging], ['resident', null]);
    assert.doesNotMatch(plan.fitsReason, /per-layer/);
  }
  await engine.close();
});

const RULES = config.rope_parameters;
for (const [change, says] of /** @type {[Record<string, any>, RegExp][]} */ ([
  [
    { rope_parameters: { ...RULES, full_attention: { rope_type: 'proportional' } } },
    /positions of type "proportional"/,
  ],
  [{ rope_parameters: { ...RULES, sliding_attention: { rope_type: 'yarn' } } }, /positions of type "yarn"/],
  [{ layer_types: Array(4).fill('full_attention') }, /layers of one kind/],
  [{ layer_types: ['full_attention', 'conv', 'full_attention', 'full_attention'] }, /layers of type "conv"/],
  [{ per_layer_config: { 1: { head_dim: 16 } } }, /lists other layers than those without a window/],
  [{ per_layer_config: { 1: { head_dim: 16 }, 3: { head_dim: 32 } } }, /layers with 16 and 32 for head_dim/],
  [{ per_layer_config: { 1: { sliding_window: 2 }, 3: {} } }, /"sliding_window" in per_layer_config/],
]))
  test(`refused by name: ${JSON.stringify(change)}`, () => {
    assert.throws(() => configOf({ ...config, ...change }), { code: 'UNSUPPORTED', message: says });
  });

test('missing values of config.json are those of the published model; the last layer has no window, whatever the file contains', () => {
  const published = configOf({ model_type: 'embedding_gemma2_text' });
  const { layers, hidden: width, head_dim: local, global_head_dim: global, global_kv_heads: heads, window } = published;
  assert.deepEqual([layers, width, local, global, heads, window], [24, 512, 256, 512, 1, 513]);
  assert.deepEqual([published.global_every, published.layer_embed, published.dense1], [6, 512, 768]);
  const { per_layer_config: _, ...others } = config;
  const slides = { ...others, layer_types: Array(4).fill('sliding_attention') };
  assert.deepEqual([configOf(slides).global_every, configOf(slides).global_head_dim], [4, 512]);
});
