// Tests of families from GGUF files: files that llama.cpp's converter writes for the fixtures (tests/golden/make_gguf.py) give
// transformers' logits. Also tests config.json files with older or shorter names than those of the fixtures.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { FAMILIES, familyOf } from '../../js/format/families/index.js';
import { canonicalTensors, configOf, joinParts, tablesOf } from '../../js/format/families/names.js';
import { createEngine, fromFile } from '../../js/node.js';
import { openGguf } from '../../js/format/gguf/open.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { CONFIG } from './fixture.mjs';
import { gguf, llamaMetadata } from './gguf-writer.mjs';
import { modelRows, referenceOf } from '../models-report.mjs';
import { openLogits } from './logits.mjs';

const GOLDEN = fileURLToPath(new URL('../golden/', import.meta.url));
const TOLERANCE = 1e-3;
const readJson = (/** @type {string} */ path) => JSON.parse(readFileSync(path, 'utf8'));
const configFile = (/** @type {string} */ name) => readJson(join(GOLDEN, 'fixtures', name, 'config.json'));

/** Largest difference of the logits of all positions, fed one by one. @param {Awaited<ReturnType<typeof openLogits>>} model @param {any} expected */
function errorOf(model, { ids, vocab, logits }) {
  const wanted = new Float32Array(Uint8Array.from(Buffer.from(logits, 'base64')).buffer);
  let most = 0;
  ids.forEach((/** @type {number} */ id, /** @type {number} */ i) => {
    const got = i ? model.next(id) : model.start([id]);
    got.forEach((x, k) => (most = Math.max(most, Math.abs(x - wanted[i * vocab + k]))));
  });
  return most;
}

/** @type {Record<string, string | number>[]} */
const rows = [];
after(() => modelRows('architectures', 'gguf', rows));

for (const file of readdirSync(join(GOLDEN, 'gguf'))) {
  const name = file.replace('.gguf', '');
  const expected = readJson(join(GOLDEN, 'fixtures', name, 'expected.json'));
  if (!expected.logits) continue;
  test(`${name} from GGUF: logits of PyTorch at every position, by decode and in batches`, async () => {
    const source = fromFile(join(GOLDEN, 'gguf', file));
    const model = await openLogits(source);
    const error = errorOf(model, expected);
    rows.push({
      architecture: name,
      source: 'GGUF',
      error,
      against: referenceOf(name, expected.made_with),
    });
    assert.ok(error < TOLERANCE, `${error}`);
    const whole = (await openLogits(source, { prefillBatch: 5, prefillWindow: 7 })).start(expected.ids);
    assert.deepEqual(whole, model.start(expected.ids));
  });
}

test('a BERT model in GGUF gives the hidden states of PyTorch as vectors', async () => {
  const { ids, hidden, states, made_with: output } = readJson(join(GOLDEN, 'fixtures/bert/expected.json'));
  const rowsOf = new Float32Array(Uint8Array.from(Buffer.from(states, 'base64')).buffer);
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromFile(join(GOLDEN, 'gguf/bert.gguf')));
  let most = 0;
  for (const [pooling, i] of /** @type {['cls' | 'last', number][]} */ ([
    ['cls', 0],
    ['last', ids.length - 1],
  ])) {
    const {
      vectors: [vector],
    } = await model.embed([ids], { pooling, normalize: false });
    vector.forEach((x, k) => (most = Math.max(most, Math.abs(x - rowsOf[i * hidden + k]))));
  }
  await engine.close();
  assert.ok(most < TOLERANCE, `${most}`);
  rows.push({ architecture: 'bert', source: 'GGUF', error: most, against: `transformers ${output.transformers}` });
});

test('a GGUF file whose experts are missing is refused by name', async () => {
  const bytes = gguf(
    {
      ...llamaMetadata({ ...CONFIG, hidden: 64 }),
      'llama.expert_count': ['u32', 8],
      'llama.expert_used_count': ['u32', 2],
    },
    [],
  );
  await assert.rejects(openGguf(openBytes(bytes), bytes), { message: /token_embd|ffn_down_exps/ });
});

for (const [key, value, says] of /** @type {[string, import('./gguf-writer.mjs').Value, RegExp][]} */ ([
  ['llama.attention.head_count_kv', ['array', ['u32', [2, 1]]], /different numbers of heads/],
]))
  test(`refused by name: a GGUF file with ${key}`, async () => {
    const bytes = gguf({ ...llamaMetadata({ ...CONFIG, hidden: 64 }), [key]: value }, []);
    await assert.rejects(openGguf(openBytes(bytes), bytes), { code: 'UNSUPPORTED', message: says });
  });

test('every family has a fixture', () => {
  const configs = readdirSync(join(GOLDEN, 'fixtures')).map((name) => configFile(name));
  const rows = new Set(configs.filter((hf) => hf.model_type !== 'bq4').map((hf) => familyOf(hf).family));
  assert.deepEqual(
    Object.keys(FAMILIES).filter((type) => !rows.has(FAMILIES[type])),
    [],
  );
});

test('switching off a feature of a family changes a logit by at least 100 tolerances', () => {
  // LLaMA as it began has nothing that others lack; without a longer text scaling of this kind changes nothing.
  const plain = ['bullet', 'bullet-tied', 'llama-biases', 'llama-dynamic', 'llama-gqa', 'llama-odd'];
  const names = readdirSync(join(GOLDEN, 'fixtures'));
  for (const name of names) {
    const { moved_without: moved } = readJson(join(GOLDEN, 'fixtures', name, 'expected.json'));
    assert.equal(moved === undefined, plain.includes(name), name);
    for (const [what, by] of Object.entries(moved ?? {}))
      assert.ok(by >= 100 * TOLERANCE, `${name} without ${what}: ${by}`);
  }
});

/** Our configuration and tables. @param {Record<string, any>} hf */
async function meaningOf(hf) {
  const config = configOf(hf);
  const tables = Object.entries(tablesOf(hf, config)).map(async ([name, table]) => [
    name,
    [...(await table.read(0, 1))],
  ]);
  return { config, tables: Object.fromEntries(await Promise.all(tables)) };
}

/** A fixture's config.json with keys changed; undefined: without. @param {string} name @param {Record<string, any>} change */
const changed = (name, change) => JSON.parse(JSON.stringify({ ...configFile(name), ...change }));

/** Fixtures, and how files from before transformers 5 say the same. @type {[string, Record<string, any>][]} */
const OLDER = [
  ['llama-gqa', { rope_parameters: undefined, rope_theta: 10000, rope_scaling: null, head_dim: null }],
  [
    'llama3',
    {
      rope_parameters: undefined,
      rope_theta: 10000,
      rope_scaling: {
        rope_type: 'llama3',
        factor: 8,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 32,
      },
    },
  ],
  ['llama-linear', { rope_parameters: undefined, rope_scaling: { type: 'linear', factor: 4 } }],
  ['llama-dynamic', { rope_parameters: undefined, rope_scaling: { type: 'dynamic', factor: 4 } }],
  [
    'qwen2',
    {
      rope_parameters: undefined,
      rope_theta: 10000,
      use_sliding_window: false,
      sliding_window: 32768,
      max_window_layers: 2,
      layer_types: undefined,
    },
  ],
  [
    'qwen2-yarn',
    {
      rope_parameters: undefined,
      rope_theta: 10000,
      rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 16, beta_fast: 4, beta_slow: 1 },
    },
  ],
  ['smollm3', { no_rope_layers: undefined, no_rope_layer_interval: 4, layer_types: undefined }],
  [
    'gemma',
    { hidden_act: 'gelu', hidden_activation: null, rope_parameters: undefined, tie_word_embeddings: undefined },
  ],
  ['gemma2', { layer_types: undefined, rope_parameters: undefined, tie_word_embeddings: undefined }],
  ['phi', { rope_parameters: undefined, partial_rotary_factor: 0.5, rope_scaling: null }],
  [
    'phi3',
    {
      rope_parameters: undefined,
      partial_rotary_factor: 0.75,
      rope_scaling: { type: 'su', short_factor: [1, 1.5, 2.5], long_factor: [1.2, 3, 6] },
    },
  ],
  ['stablelm', { rope_parameters: undefined, partial_rotary_factor: 0.25, rope_theta: 10000 }],
  [
    'falcon',
    {
      num_attention_heads: undefined,
      n_head: 4,
      num_hidden_layers: undefined,
      n_layer: 2,
      rope_parameters: undefined,
      num_kv_heads: undefined,
    },
  ],
  [
    'falcon-40b',
    { num_attention_heads: undefined, n_head: 4, num_kv_heads: undefined, n_head_kv: 2, rope_parameters: undefined },
  ],
  ['bloom', { hidden_size: undefined, n_embed: 36, n_head: undefined, num_attention_heads: 6 }],
  ['neox', { rope_parameters: undefined, rotary_pct: 0.25, rotary_emb_base: 10000 }],
  ['qwen2-listed', { layer_types: undefined }],
  [
    'qwen2vl',
    {
      ...configFile('qwen2vl').text_config,
      model_type: 'qwen2_5_vl',
      text_config: undefined,
      layer_types: undefined,
      rope_parameters: undefined,
      rope_theta: 10000,
      rope_scaling: { type: 'mrope', mrope_section: [1, 1, 1] },
      vision_config: {},
    },
  ],
  ['smollm3-listed', { layer_types: undefined }],
  [
    'granite-hybrid',
    {
      layer_types: ['mamba', 'mamba', 'attention', 'mamba'],
      position_embedding_type: 'nope',
      mamba_d_head: 'auto',
      mamba_expand: undefined,
      mamba_d_conv: undefined,
      time_step_limit: [0, { __float__: 'Infinity' }],
    },
  ],
  ['granite-hybrid', { layer_types: undefined, layers_block_type: ['mamba', 'mamba', 'attention', 'mamba'] }],
  ['falcon-h1', { mamba_d_ssm: null, mamba_conv_bias: undefined, time_step_limit: undefined }],
  ['mamba2', { conv_kernel: undefined, hidden_act: undefined }],
  ['exaone4', { layer_types: undefined, sliding_window_pattern: 4 }],
  ['exaone4', { sliding_window_pattern: 'LLLG' }],
  [
    'hunyuan',
    { rope_parameters: undefined, rope_theta: 10000, rope_scaling: { type: 'dynamic', alpha: 50, factor: 1 } },
  ],
  ['cohere2', { layer_types: undefined, sliding_window_pattern: 4, rope_parameters: undefined, rope_theta: 10000 }],
  ['cohere', { rope_parameters: undefined, rope_theta: 500000, tie_word_embeddings: undefined }],
  ['glm', { rope_parameters: undefined, rope_theta: 10000, partial_rotary_factor: 0.5 }],
  ['nemotron', { rope_parameters: undefined, rope_theta: 10000, partial_rotary_factor: undefined }],
  ['gptj', { n_inner: null, activation_function: undefined }],
  ['jina-v3', { rope_parameters: undefined }],
  ['helium', { rope_parameters: undefined }],
  ['helium', { rope_parameters: undefined, rope_theta: 100000, rope_scaling: null }],
  [
    'jais',
    {
      embeddings_scale: undefined,
      mup_embeddings_scale: 3,
      width_scale: undefined,
      mup_output_alpha: 2,
      mup_width_scale: 0.25,
      scale_qk_dot_by_d: undefined,
      mup_scale_qk_dot_by_d: true,
    },
  ],
  [
    'lfm3',
    {
      layer_types: undefined,
      tie_word_embeddings: undefined,
      rope_parameters: {
        full_attention: { rope_type: 'default', rope_theta: 1000, partial_rotary_factor: 0.5 },
        sliding_attention: { rope_theta: 100 },
      },
    },
  ],
];
for (const [name, change] of OLDER)
  test(`${name}: the same configuration in older words`, async () => {
    assert.deepEqual(await meaningOf(changed(name, change)), await meaningOf(configFile(name)));
  });

test('Gemma 3 in a vision model: its text_config contains differences from the defaults, and names have a prefix', async () => {
  const whole = configFile('gemma3');
  const { rope_parameters: _, layer_types: _kinds, model_type, tie_word_embeddings: _tied, ...text } = whole;
  const seeing = {
    model_type: 'gemma3',
    text_config: { ...text, model_type, rope_scaling: { rope_type: 'linear', factor: 4 } },
    vision_config: {},
  };
  assert.deepEqual(await meaningOf(seeing), await meaningOf(whole));
  const publicOne = configOf({
    model_type: 'gemma3',
    text_config: {
      model_type,
      hidden_size: 2560,
      intermediate_size: 10240,
      num_hidden_layers: 34,
      sliding_window: 1024,
    },
  });
  assert.deepEqual(
    [publicOne.heads, publicOne.kv_heads, publicOne.head_dim, publicOne.vocab, publicOne.window, publicOne.tied],
    [8, 4, 256, 262208, 1024, true],
  );
  const config = configOf(seeing);
  const ours = (/** @type {string} */ name) =>
    canonicalTensors(seeing, config, name, { dims: [24], read: async () => new Float32Array(24) }).map(([own]) => own);
  for (const before of ['language_model.model.', 'model.language_model.', 'model.'])
    assert.deepEqual(ours(`${before}layers.2.self_attn.q_norm.weight`), ['h.2.attn.q_norm.weight']);
  assert.deepEqual(ours('vision_tower.vision_model.post_layernorm.weight'), []);
  assert.deepEqual(ours('model.multi_modal_projector.mm_soft_emb_norm.weight'), []);
});

test('the vision parts of Qwen 2 and 3 are not read', () => {
  const inner = configFile('qwen3vl');
  for (const [hf, name] of /** @type {[any, string][]} */ ([
    [{ ...inner.text_config, model_type: 'qwen2_vl' }, 'visual.blocks.0.attn.qkv.weight'],
    [inner, 'model.visual.blocks.0.attn.qkv.weight'],
  ])) {
    const tensor = { dims: [4, 4], read: async () => new Float32Array(4) };
    assert.deepEqual(canonicalTensors(hf, configOf(hf), name, tensor), []);
    assert.throws(() => canonicalTensors(hf, configOf(hf), 'tactile.weight', tensor), { code: 'UNSUPPORTED' });
  }
});

test('LFM3: the gates of attention have the names of published files and of transformers', () => {
  const hf = configFile('lfm3');
  const gates = { dims: [4, 32], read: async () => new Float32Array(128) };
  for (const name of ['g_proj', 'gate_proj'])
    assert.deepEqual(
      canonicalTensors(hf, configOf(hf), `model.layers.2.self_attn.${name}.weight`, gates).map(([ours]) => ours),
      ['h.2.attn.gate.weight'],
    );
});

test('a model with scaled scores is limited to the positions of its training', () => {
  const hf = configFile('ministral3');
  assert.equal(configOf(hf).context, 32);
  const { llama_4_scaling_beta: _, ...rope } = hf.rope_parameters;
  assert.equal(configOf({ ...hf, rope_parameters: rope }).context, 128);
});

/** @type {[string, Record<string, any>, RegExp][]} */
const REFUSED = [
  ['llama-gqa', { model_type: 'mamba' }, /"mamba".*llama, mistral/],
  ['llama-gqa', { hidden_act: 'mish' }, /"mish"/],
  ['llama-gqa', { rope_parameters: { rope_type: 'proportional' } }, /"proportional".*linear, llama3, yarn, longrope/],
  ['qwen2-listed', { layer_types: Array(4).fill('chunked_attention') }, /of type "chunked_attention"/],
  ['mpt', { attn_config: { alibi: false } }, /without ALiBi/],
  ['mpt', { attn_config: { qk_ln: true } }, /MPT with norms of q and k/],
  ['bloom', { apply_residual_connection_post_layernorm: true }, /residuals taken after the norm/],
  ['granite-hybrid', { layer_types: ['mamba', 'mamba', 'conv', 'mamba'] }, /layers of type "conv"/],
  ['granite-hybrid', { position_embedding_type: 'alibi' }, /positions of type "alibi"/],
  ['falcon-h1', { time_step_limit: [0.001, 0.1] }, /time_step_limit \[0.001,0.1\]/],
  ['falcon-h1', { mamba_conv_bias: false }, /convolutions without a bias/],
  ['mamba2', { hidden_act: 'gelu' }, /activation "gelu"/],
  ['gemma', { use_bidirectional_attention: true }, /bidirectional attention/],
  ['exaone4', { layer_types: undefined, sliding_window_pattern: 'LLLG' }, /sliding_window_pattern "LLLG"/],
  // transformers ignores these keys, or fails.
  ['llama-gqa', { partial_rotary_factor: 0.5 }, /partial_rotary_factor is 0.5.*rotated completely/],
  ['qwen3', { rope_parameters: { rope_theta: 100, partial_rotary_factor: 0.25 } }, /partial_rotary_factor is 0.25/],
  ['gemma3', { rope_parameters: { full_attention: { partial_rotary_factor: 0.5 } } }, /partial_rotary_factor is 0.5/],
  ['starcoder2', { rope_scaling: { type: 'linear', factor: 2, partial_rotary_factor: 0.5 } }, /partial_rotary_factor/],
  ['mistral', { rotary_pct: 0.5 }, /rotary_pct is 0.5/],
  ['gemma3', { attn_logit_softcapping: 30 }, /Gemma 3 with attn_logit_softcapping/],
  // The activation is also that of convolutions and gates.
  ['qwen35', { hidden_act: 'gelu' }, /Qwen3.5 with the activation "gelu"/],
  ['granite-hybrid', { hidden_act: 'gelu' }, /Mamba-2 with the activation "gelu"/],
  ['falcon-h1', { hidden_act: 'relu' }, /Mamba-2 with the activation "relu"/],
  ['spark', { gate_attn_act_mode: 'tanh' }, /Spark with gates of "tanh"/],
  ['spark', { headwise_attn_output_gate: false }, /not one for each head/],
  ['spark', { rope_parameters: { full_attention: { rope_type: 'yarn', factor: 4 } } }, /scaled positions \(yarn\)/],
  ['granite_swa', { layer_rope_theta: [10, 10, 20, 10] }, /layers of one kind with different bases/],
  [
    'granite_swa-bases',
    { rope_parameters: { rope_type: 'linear', factor: 2, rope_theta: 10 } },
    /scaled positions \(linear\) with two bases/,
  ],
  ['jais', { activation_function: 'gelu_new' }, /Jais with the activation "gelu_new"/],
  ['jais', { position_embedding_type: 'learned' }, /Jais with positions of type "learned"/],
  ['jais', { alibi_scaling: { type: 'linear', factor: 2 } }, /Jais with alibi_scaling/],
  ['llama-bidirec', { pooling: 'weighted' }, /llama_bidirec with pooling "weighted"/],
  ['lfm3', { rope_scaling: {}, rope_parameters: { rope_theta: 100 } }, /rope_parameters is .*for each kind of layer/],
  ['lfm3', { sliding_window: null }, /sliding_attention without a sliding_window/],
  ['lfm3', { layer_types: Array(8).fill('linear_attention') }, /layers of type "linear_attention"/],
  [
    'lfm3',
    { rope_parameters: { full_attention: { rope_type: 'yarn', rope_theta: 1000 } } },
    /positions of type "yarn"/,
  ],
  [
    'lfm3',
    { rope_parameters: { sliding_attention: { rope_type: 'linear', factor: 2 } } },
    /"linear" in layers with a window/,
  ],
  // In transformers rope_scaling replaces rope_parameters; both need an entry for each kind of layer.
  ['lfm3', { rope_scaling: { rope_type: 'linear', factor: 2 } }, /rope_scaling is .*each kind of layer/],
  ['lfm3', { rope_parameters: { rope_type: 'default', rope_theta: 500 } }, /rope_parameters is .*each kind of layer/],
  ['gemma4', { rope_parameters: { rope_theta: 500 } }, /rope_parameters is .*each kind of layer/],
  ['lfm3', { model_type: 'gpt_oss' }, /"gpt_oss" its smallest model has 21 billion weights.*at most 4 GB/],
];
for (const [name, change, says] of REFUSED)
  test(`refused by name: ${name} with ${JSON.stringify(change)}`, () => {
    const hf = changed(name, change);
    const error = /** @type {any} */ (
      (() => {
        try {
          configOf(hf);
        } catch (e) {
          return e;
        }
      })()
    );
    assert.equal(error?.code, 'UNSUPPORTED');
    assert.match(`${error.message} ${error.hint}`, says);
  });

/** Which keys a fixture's config.json becomes, changed. @type {[string, Record<string, any>, Record<string, any>][]} */
const LISTED = [
  ['gemma3-listed', {}, { window: 5, global_layers: [0, 3], global_every: undefined }],
  ['gemma3-listed', { layer_types: Array(5).fill('full_attention') }, { window: undefined, global_layers: undefined }],
  ['qwen2-listed', {}, { window: 5, global_layers: [0, 1], global_every: undefined }],
  ['qwen2-listed', { use_sliding_window: false }, { window: undefined, global_layers: undefined }],
  // Lists with a period become one: readers from before there were lists know it.
  ['gemma3', {}, { global_every: 6, global_layers: undefined }],
  ['smollm3', {}, { unrotated_every: 4, unrotated_layers: undefined }],
  ['smollm3-listed', {}, { unrotated_layers: [0, 2, 3], window: 6, global_layers: [1] }],
  ['qwen2moe-dense', {}, { experts: 6, dense_layers: [0, 1, 2] }],
  ['qwen2moe-dense', { mlp_only_layers: null }, { dense_layers: [0, 2] }],
  ['qwen2moe-dense', { mlp_only_layers: [0, 1, 2, 3] }, { experts: undefined, shared_ffn: undefined }],
  ['qwen2moe-dense', { use_sliding_window: true, sliding_window: 5 }, { window: 5, global_every: 2 }],
  ['qwen3moe-dense', { use_sliding_window: true, sliding_window: 5 }, { window: 5, global_every: 0 }],
  ['qwen3moe-dense', {}, { dense_layers: [1, 2], window: undefined }],
  // Of these models only layers with a window have rotary positions; EXAONE 4 has them in all layers if none has a window.
  ['exaone4', {}, { window: 5, global_every: 4, unrotated_every: 4, unrotated_layers: undefined }],
  ['exaone4', { sliding_window: null }, { window: undefined, unrotated_every: undefined }],
  ['exaone4', { layer_types: Array(4).fill('full_attention') }, { window: undefined, unrotated_every: 1 }],
  [
    'exaone4',
    { layer_types: ['full_attention', 'sliding_attention', 'sliding_attention', 'full_attention'] },
    { window: 5, global_layers: [0, 3], unrotated_layers: [0, 3], unrotated_every: undefined },
  ],
  ['exaone4-full', {}, { window: undefined, unrotated_every: undefined }],
  ['cohere2', {}, { window: 5, global_every: 4, unrotated_every: 4 }],
  ['cohere2', { sliding_window: null }, { window: undefined, unrotated_every: 1 }],
  ['ministral3', {}, { window: undefined }],
  ['ministral3', { sliding_window: 5 }, { window: 5, global_every: 0 }],
  ['spark', {}, { window: 5, global_every: 4, rope_dim: 4, local_rope_dim: 16, rope_theta: 1000, local_theta: 100 }],
  [
    'spark',
    { layer_types: Array(4).fill('full_attention') },
    { window: undefined, local_theta: undefined, local_rope_dim: undefined, rope_dim: 4 },
  ],
  [
    'granite_swa',
    {},
    { window: 5, global_layers: [0, 3], unrotated_layers: [0], rope_theta: 10000, local_theta: undefined },
  ],
  ['granite_swa', { layer_types: undefined }, { global_layers: [0], unrotated_layers: [0], attn_sinks: true }],
  ['granite_swa', { layer_rope_theta: null }, { unrotated_layers: undefined, rope_theta: 10000 }],
  ['granite_swa', { layer_rope_theta: [0, 50, 50, 0] }, { unrotated_layers: [0, 3], rope_theta: 50 }],
  [
    'granitemoe_swa',
    {},
    { window: 5, global_layers: [0, 3], unrotated_layers: [0], experts: 5, shared_ffn: 24, attn_sinks: true },
  ],
  ['granite_swa-bases', {}, { rope_theta: 1000, local_theta: 20, unrotated_layers: undefined }],
  ['mistral', { model_type: 'ministral', layer_types: ['sliding_attention', 'full_attention'] }, { global_every: 2 }],
  // Beyond this number of positions the first Qwen scales scores and positions by the length of the text.
  ['qwen', {}, { context: 32, ffn: 24, head_dim: 6 }],
  ['llama-biases', { model_type: 'PanguEmbedded' }, { arch: 'llama', rope_pairs: 'half' }],
  ['jais', { scale_qk_dot_by_d: false }, { attn_scale: undefined, embed_scale: 3, logit_scale: 0.5 }],
  ['jais', { scale_qk_dot_by_d: false, scale_attn_weights: false }, { attn_scale: 1 }],
  ['llama-bidirec', { pooling: 'last' }, { pooling: 'last', normalize: true, bidirectional: true }],
  ['lfm3', {}, { window: 6, global_layers: [0, 1, 2, 3, 5, 6, 7], conv_layers: [0, 1, 3, 5, 7], local_theta: 100 }],
  [
    'lfm3',
    { rope_theta: 7, rope_parameters: { full_attention: {}, sliding_attention: {} } },
    { rope_theta: 7, local_theta: 7 },
  ],
  ['lfm3', { use_attention_gate: false, use_sandwich_norm: false }, { attn_gate: 'no', norm_place: 'before' }],
  [
    'lfm3',
    { layer_types: Array(8).fill('full_attention') },
    { window: undefined, local_theta: undefined, conv_layers: [] },
  ],
];
for (const [name, change, keys] of LISTED)
  test(`${name} with ${JSON.stringify(change)}: which layers are of which kind`, () => {
    const config = configOf(changed(name, change));
    assert.deepEqual(Object.fromEntries(Object.keys(keys).map((key) => [key, config[key]])), keys);
  });

test('lists without an entry for each layer are refused', () => {
  for (const change of [{ layer_types: ['full_attention'] }, { layer_types: 'full' }, { num_hidden_layers: 1e9 }])
    assert.throws(() => configOf(changed('qwen2-listed', change)), { code: 'FORMAT' });
  assert.throws(() => configOf(changed('smollm3-listed', { no_rope_layers: [1, 0] })), {
    code: 'FORMAT',
    message: /no_rope_layers lists 2 of 4 layers/,
  });
  assert.throws(() => configOf(changed('qwen3moe-dense', { num_hidden_layers: 1e9 })), { code: 'FORMAT' });
});

test('lists of factors that fit no head, and a head without its norm, are refused', async () => {
  const hf = changed('phi3', { rope_parameters: { ...configFile('phi3').rope_parameters, long_factor: [1, 2] } });
  assert.throws(() => tablesOf(hf, configOf(hf)), { code: 'FORMAT', message: /long_factor has 2 numbers; expected 3/ });
  const vector = { dims: [2], read: async () => new Float32Array([1, 2]) };
  assert.throws(
    () =>
      joinParts(
        new Map([
          ['h.0.attn.q_norm.weight#0', vector],
          ['h.0.attn.q_norm.weight#2', vector],
        ]),
      ),
    { code: 'SHAPE', message: /part 1 .* is missing/ },
  );
  const whole = joinParts(
    new Map([
      ['a.weight#1', vector],
      ['b.weight', vector],
      ['a.weight#0', vector],
    ]),
  );
  assert.deepEqual([...whole.keys()], ['b.weight', 'a.weight']);
  assert.deepEqual([...(await /** @type {any} */ (whole.get('a.weight')).read(0, 1))], [1, 2, 1, 2]);
});
