// GGUF files like published ones: for each family, metadata as written by the converter and quantizer of llama.cpp, its kind of tokenizer,
// and the mixture of weight types called Q4_K_M. They run, and files with the same contents in another form have the same logits, to the
// bit.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { f16FromNumber } from '../../js/format/bq4/half.js';
import { FLAG, NONE } from '../../js/text/tokenizers/section.js';
import { composed } from '../../js/text/tokenizers/normalizers.js';
import { PATTERNS, patternNamed } from '../../js/text/tokenizers/patterns.js';
import { readHeader } from '../../js/format/gguf/header.js';
import { tokenizerFromGguf } from '../../js/format/gguf/tokenizer.js';
import { configOfGguf, metaOfGguf, openGguf } from '../../js/format/gguf/open.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { random } from './fixture.mjs';
import { gguf } from './gguf-writer.mjs';
import { openLogits } from './logits.mjs';

/** @import { Tensor, Value } from './gguf-writer.mjs' */
/** @typedef {Record<string, Value>} Metadata */

const [HIDDEN, FFN, HEADS, KV, DIM, LAYERS, CONTEXT] = [256, 512, 4, 2, 64, 4, 128];
/** GGUF numbers of types, bytes and weights of blocks, and the offsets and sizes of f16 factors; the other bytes are random. */
const TYPES = {
  f32: { number: 0 },
  q5_0: { number: 6, bytes: 22, weights: 32, factors: { 0: 0.004 } },
  q8_0: { number: 8, bytes: 34, weights: 32, factors: { 0: 0.0008 } },
  q4_k: { number: 12, bytes: 144, weights: 256, factors: { 0: 0.0002, 2: 0.0014 } },
  q6_k: { number: 14, bytes: 210, weights: 256, factors: { 208: 0.00002 } },
};

/** @param {keyof typeof TYPES} type @param {number} weights @param {() => number} next */
function blocks(type, weights, next) {
  const { bytes, weights: each, factors } = /** @type {any} */ (TYPES[type]);
  const out = Uint8Array.from({ length: (weights / each) * bytes }, () => 128 + 128 * next());
  const view = new DataView(out.buffer);
  for (let at = 0; at < out.length; at += bytes)
    for (const [place, size] of Object.entries(factors))
      view.setUint16(at + Number(place), f16FromNumber(size * (1 + 0.2 * next())), true);
  return out;
}

/**
 * The mixture of llama-quantize: v and down have more bits in some layers, or other types if 256 does not divide their columns.
 * @param {string} name
 */
function typeOf(name) {
  if (/^(token_embd|output)\./.test(name)) return 'q6_k';
  if (/attn_(v|qkv)\.|ffn_down/.test(name)) return /blk\.[02]/.test(name) ? 'q6_k' : 'q5_0';
  return /attn_k\./.test(name) ? 'q8_0' : 'q4_k';
}

/** @param {string} name @param {number[]} dims @param {() => number} next @param {keyof typeof TYPES} type @returns {Tensor} */
function tensor(name, dims, next, type) {
  const weights = dims.reduce((a, b) => a * b, 1);
  if (dims.length > 1) {
    return { name, dims, type: TYPES[type].number, bytes: blocks(type, weights, next) };
  }
  const around = name.endsWith('.bias') ? 0 : 1;
  const values = Float32Array.from({ length: weights }, () => around + 0.2 * next());
  return { name, dims, type: 0, bytes: new Uint8Array(values.buffer) };
}

/** Tensors of a layer by the part of their GGUF name after "blk.N.". @type {Record<string, number[]>} */
const DENSE = {
  'attn_norm.weight': [HIDDEN],
  'attn_q.weight': [HEADS * DIM, HIDDEN],
  'attn_k.weight': [KV * DIM, HIDDEN],
  'attn_v.weight': [KV * DIM, HIDDEN],
  'attn_output.weight': [HIDDEN, HEADS * DIM],
  'ffn_norm.weight': [HIDDEN],
  'ffn_gate.weight': [FFN, HIDDEN],
  'ffn_up.weight': [FFN, HIDDEN],
  'ffn_down.weight': [HIDDEN, FFN],
};
const BIASES = { 'attn_q.bias': [HEADS * DIM], 'attn_k.bias': [KV * DIM], 'attn_v.bias': [KV * DIM] };
const HEAD_NORMS = { 'attn_q_norm.weight': [DIM], 'attn_k_norm.weight': [DIM] };
const POST = { 'post_attention_norm.weight': [HIDDEN], 'post_ffw_norm.weight': [HIDDEN] };
/** @param {Record<string, number[]>} of @param {string[]} names */
const without = (of, ...names) => Object.fromEntries(Object.entries(of).filter(([name]) => !names.includes(name)));

/** @param {number} n */
const letters = (n) => {
  const printable = [...Array(256).keys()].filter(
    (c) => (c > 0x20 && c < 0x7f) || (c > 0xa0 && c !== 0xad && c < 0x100),
  );
  const all = printable.map((c) => String.fromCharCode(c));
  for (let i = 0; all.length < 256; i++) all.push(String.fromCharCode(256 + i));
  return all.slice(0, n);
};
const WORDS = ['he', 'll', 'hell', 'hello', 'Ġw', 'or', 'Ġwor', 'ld', 'Ġworld'];
const MERGES = ['h e', 'l l', 'he ll', 'hell o', 'Ġ w', 'o r', 'Ġw or', 'l d', 'Ġwor ld'];
const PADS = Array.from({ length: 12 }, (_, i) => `[PAD${i}]`);

/**
 * A byte-level tokenizer with added tokens with spaces, special tokens, and unused numbers.
 * @param {string} pre @param {string[]} specials @param {Metadata} [more] @returns {Metadata}
 */
function byteLevel(pre, specials, more = {}) {
  const users = ['  ', '<tool_call>', '漢字'];
  const tokens = [...letters(256), ...WORDS, ...users, ...specials, ...PADS];
  const types = tokens.map((token) =>
    users.includes(token) ? 4 : specials.includes(token) ? 3 : PADS.includes(token) ? 5 : 1,
  );
  const id = tokens.indexOf(specials[0]);
  return {
    'tokenizer.ggml.model': ['text', 'gpt2'],
    'tokenizer.ggml.pre': ['text', pre],
    'tokenizer.ggml.tokens': ['array', ['text', tokens]],
    'tokenizer.ggml.token_type': ['array', ['i32', types]],
    'tokenizer.ggml.merges': ['array', ['text', MERGES]],
    'tokenizer.ggml.bos_token_id': ['u32', id],
    'tokenizer.ggml.eos_token_id': ['u32', id],
    'tokenizer.ggml.padding_token_id': ['u32', id],
    ...more,
  };
}

/** @param {string[]} specials @param {Metadata} [more] @returns {Metadata} */
function sentencePiece(specials, more = {}) {
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const pieces = [
    '▁',
    'h',
    'e',
    'l',
    'o',
    'w',
    'r',
    'd',
    'he',
    'll',
    'hell',
    'hello',
    '▁w',
    'or',
    '▁hello',
    '▁▁',
    '\n',
  ];
  const tokens = ['<unk>', '<s>', '</s>', ...bytes, ...pieces, ...specials, ...PADS];
  const types = tokens.map((token, i) => {
    if (i < 3) return i ? 3 : 2;
    return i < 259 ? 6 : specials.includes(token) ? 3 : PADS.includes(token) ? 5 : token === '▁▁' ? 4 : 1;
  });
  return {
    'tokenizer.ggml.model': ['text', 'llama'],
    'tokenizer.ggml.pre': ['text', 'default'],
    'tokenizer.ggml.tokens': ['array', ['text', tokens]],
    'tokenizer.ggml.scores': ['array', ['f32', tokens.map((_, i) => (i < 259 ? 0 : -i))]],
    'tokenizer.ggml.token_type': ['array', ['i32', types]],
    'tokenizer.ggml.bos_token_id': ['u32', 1],
    'tokenizer.ggml.eos_token_id': ['u32', 2],
    'tokenizer.ggml.unknown_token_id': ['u32', 0],
    'tokenizer.ggml.padding_token_id': ['u32', 0],
    'tokenizer.ggml.add_bos_token': ['bool', true],
    'tokenizer.ggml.add_eos_token': ['bool', false],
    ...more,
  };
}

const CHATML =
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n';
/** Metadata that converter and quantizer write for every model. @type {Metadata} */
const GENERAL = {
  'general.type': ['text', 'model'],
  'general.name': ['text', 'Some Model 0.5B Instruct'],
  'general.finetune': ['text', 'Instruct'],
  'general.basename': ['text', 'Some-Model'],
  'general.size_label': ['text', '0.5B'],
  'general.license': ['text', 'apache-2.0'],
  'general.license.link': ['text', 'https://example.com/LICENSE'],
  'general.base_model.count': ['u32', 1],
  'general.base_model.0.name': ['text', 'Some Model 0.5B'],
  'general.base_model.0.organization': ['text', 'Some'],
  'general.base_model.0.repo_url': ['text', 'https://example.com/some/model'],
  'general.tags': ['array', ['text', ['chat', 'text-generation']]],
  'general.languages': ['array', ['text', ['en', 'de']]],
  'general.sampling.top_k': ['i32', 20],
  'general.sampling.temp': ['f32', 0.7],
  'general.quantization_version': ['u32', 2],
  'general.file_type': ['u32', 15],
  'quantize.imatrix.file': ['text', '/models/imatrix.dat'],
  'quantize.imatrix.dataset': ['text', 'calibration.txt'],
  'quantize.imatrix.entries_count': ['i32', 168],
  'quantize.imatrix.chunks_count': ['i32', 128],
};

/**
 * @typedef {object} Family
 * @property {string} arch
 * @property {Metadata} [more]     behind the architecture's name
 * @property {Metadata} tokenizer
 * @property {Record<string, number[]>} layer
 * @property {boolean} [untied]
 * @property {Record<string, number[]>} [outer]
 */

const QWEN = byteLevel('qwen2', ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|fim_pad|>'], {
  'tokenizer.ggml.add_bos_token': ['bool', false],
  'tokenizer.chat_template': ['text', CHATML],
});
const LENGTHS = { 'attention.key_length': ['u32', DIM], 'attention.value_length': ['u32', DIM] };
const SIZED = { vocab_size: ['u32', 300], 'rope.dimension_count': ['u32', DIM] };
const LLAMA3 = byteLevel('llama-bpe', ['<|begin_of_text|>', '<|eot_id|>', '<|eom_id|>', '<|python_tag|>'], {
  'tokenizer.chat_template': ['text', '{{ bos_token }}{{ messages[0].content }}<|eot_id|>'],
});
const EXPERTS = {
  ...without(DENSE, 'ffn_gate.weight', 'ffn_up.weight', 'ffn_down.weight'),
  'ffn_gate_inp.weight': [4, HIDDEN],
  'ffn_gate_exps.weight': [4, FFN, HIDDEN],
  'ffn_up_exps.weight': [4, FFN, HIDDEN],
  'ffn_down_exps.weight': [4, HIDDEN, FFN],
};
const SCALES = {
  embedding_scale: ['f32', 12],
  residual_scale: ['f32', 0.22],
  logit_scale: ['f32', 8],
  'attention.scale': ['f32', 1 / 64],
};

/** @type {Record<string, any>} */
const FAMILIES = {
  'Llama 3.2': {
    arch: 'llama',
    more: { ...LENGTHS, ...SIZED },
    tokenizer: LLAMA3,
    layer: DENSE,
    outer: { 'rope_freqs.weight': [DIM / 2] },
  },
  'Qwen 2.5': { arch: 'qwen2', tokenizer: QWEN, layer: { ...DENSE, ...BIASES }, untied: true },
  'Qwen 3': { arch: 'qwen3', more: LENGTHS, tokenizer: QWEN, layer: { ...DENSE, ...HEAD_NORMS } },
  'Gemma 3': {
    arch: 'gemma3',
    more: {
      ...LENGTHS,
      'attention.sliding_window': ['u32', 16],
      'rope.scaling.type': ['text', 'linear'],
      'rope.scaling.factor': ['f32', 8],
    },
    tokenizer: sentencePiece(['<start_of_turn>', '<end_of_turn>'], {
      'tokenizer.ggml.add_space_prefix': ['bool', false],
      'tokenizer.ggml.eot_token_id': ['u32', 277],
      'tokenizer.ggml.mask_token_id': ['u32', 4],
    }),
    layer: { ...DENSE, ...HEAD_NORMS, ...POST },
  },
  'Phi 3': {
    arch: 'phi3',
    more: {
      'rope.dimension_count': ['u32', DIM],
      'rope.scaling.original_context_length': ['u32', 32],
      'rope.scaling.attn_factor': ['f32', 1.19],
      'attention.sliding_window': ['u32', 262144],
    },
    tokenizer: sentencePiece(['<|endoftext|>', '<|assistant|>', '<|end|>', '<|user|>']),
    layer: {
      ...without(DENSE, 'attn_q.weight', 'attn_k.weight', 'attn_v.weight', 'ffn_gate.weight'),
      'attn_qkv.weight': [(HEADS + 2 * KV) * DIM, HIDDEN],
      'ffn_up.weight': [2 * FFN, HIDDEN],
    },
    outer: { 'rope_factors_long.weight': [DIM / 2], 'rope_factors_short.weight': [DIM / 2] },
    untied: true,
  },
  Mistral: {
    arch: 'llama',
    more: { ...LENGTHS, ...SIZED },
    tokenizer: byteLevel('tekken', ['<unk>', '<s>', '</s>', '[INST]', '[/INST]'], {
      'tokenizer.ggml.add_space_prefix': ['bool', false],
    }),
    layer: DENSE,
    untied: true,
  },
  'Mistral 0.3': {
    arch: 'llama',
    more: SIZED,
    tokenizer: sentencePiece(['[INST]', '[/INST]']),
    layer: DENSE,
    untied: true,
  },
  'OLMo 2': {
    arch: 'olmo2',
    tokenizer: byteLevel('dbrx', ['<|endoftext|>', '<|pad|>']),
    layer: {
      ...without(DENSE, 'attn_norm.weight', 'ffn_norm.weight'),
      ...POST,
      'attn_q_norm.weight': [HEADS * DIM],
      'attn_k_norm.weight': [KV * DIM],
    },
    untied: true,
  },
  Granite: {
    arch: 'granite',
    more: { ...SIZED, ...SCALES },
    tokenizer: byteLevel('refact', ['<|end_of_text|>', '<|start_of_role|>', '<|end_of_role|>']),
    layer: DENSE,
  },
  'Granite MoE': {
    arch: 'granitemoe',
    more: { ...SIZED, ...SCALES, expert_count: ['u32', 4], expert_used_count: ['u32', 2] },
    tokenizer: byteLevel('refact', ['<|end_of_text|>']),
    layer: EXPERTS,
  },
  SmolLM3: {
    arch: 'smollm3',
    more: SIZED,
    tokenizer: byteLevel('smaug-bpe', ['<|endoftext|>', '<|im_start|>', '<|im_end|>']),
    layer: DENSE,
  },
};

/** @param {any} family @param {keyof typeof TYPES} [type]  of all matrices @returns {Tensor[]} */
function tensorsOf({ layer, outer = {}, untied, tokenizer }, type) {
  const next = random(11);
  const vocab = tokenizer['tokenizer.ggml.tokens'][1][1].length + 4; // rounded up to this number
  const all = {
    'token_embd.weight': [vocab, HIDDEN],
    ...outer,
    ...Object.fromEntries(
      Array.from({ length: LAYERS }, (_, i) =>
        Object.entries(layer).map(([name, dims]) => [`blk.${i}.${name}`, dims]),
      ).flat(),
    ),
    'output_norm.weight': [HIDDEN],
    ...(untied && { 'output.weight': [vocab, HIDDEN] }),
  };
  return Object.entries(all).map(([name, dims]) =>
    tensor(name, /** @type {number[]} */ (dims), next, type ?? typeOf(name)),
  );
}

/** @param {any} family @param {string} [arch] @returns {Metadata} */
function metadataOf({ arch: own, more = {}, tokenizer }, arch = own) {
  const keys = {
    block_count: ['u32', LAYERS],
    context_length: ['u32', CONTEXT],
    embedding_length: ['u32', HIDDEN],
    feed_forward_length: ['u32', FFN],
    'attention.head_count': ['u32', HEADS],
    'attention.head_count_kv': ['u32', KV],
    'attention.layer_norm_rms_epsilon': ['f32', 1e-6],
    'rope.freq_base': ['f32', 10000],
    ...more,
  };
  const named = Object.entries(keys).map(([key, value]) => [`${arch}.${key}`, value]);
  return { 'general.architecture': ['text', arch], ...GENERAL, ...Object.fromEntries(named), ...tokenizer };
}

const PROMPT = Array.from({ length: 40 }, (_, i) => (i * 37 + 5) % 256);
/** @param {Uint8Array} file */
async function logitsOf(file) {
  const model = await openLogits(fromBytes(file));
  const all = [model.start(PROMPT), model.next(3)].map((logits) => logits.slice());
  model.close();
  assert.ok(
    all.every((logits) => logits.every(Number.isFinite) && new Set(logits).size > 100),
    'numbers, of all sorts',
  );
  return all;
}

const engine = await createEngine({ threads: 1 });

for (const [name, family] of Object.entries(FAMILIES))
  test(`${name} as Q4_K_M, with the metadata of the converter: it loads, splits text and generates`, async () => {
    const file = gguf(metadataOf(family), tensorsOf(family));
    const model = await engine.load(fromBytes(file), { contextTokens: 64 });
    const ids = await model.tokenize('hello world');
    assert.ok(ids.length <= 6, `${ids}`);
    assert.equal(await model.detokenize(ids), 'hello world');
    const session = await model.createSession();
    const result = await session.generate('hello world', { temperature: 0, maxTokens: 4 }).result;
    assert.ok(result.tokens.length > 0);
    await model.close();
    await logitsOf(file);
  });

test('files that differ in form only are the same model, to the bit', async () => {
  const family = FAMILIES['Llama 3.2'];
  const tensors = tensorsOf(family);
  const expected = await logitsOf(gguf(metadataOf(family), tensors));
  /** @param {Uint8Array} file @param {string} what */
  const same = async (file, what) => assert.deepEqual(await logitsOf(file), expected, what);
  for (const alignment of [8, 256, 4096])
    await same(gguf(metadataOf(family), tensors, { alignment }), `alignment ${alignment}`);
  await same(gguf(metadataOf(family), tensors.toReversed(), { version: 2 }), 'backwards');
  const perLayer = metadataOf({
    ...family,
    more: { ...family.more, 'attention.head_count_kv': ['array', ['i32', Array(LAYERS).fill(KV)]] },
  });
  await same(gguf(perLayer, tensors), 'numbers of heads for each layer');
  for (const alias of ['internlm2', 'ernie4_5']) await same(gguf(metadataOf(family, alias), tensors), alias);
  const differ = metadataOf({
    ...family,
    more: { ...family.more, 'attention.head_count_kv': ['array', ['i32', [2, 4, 2, 2]]] },
  });
  await assert.rejects(
    logitsOf(gguf(differ, tensors)),
    (/** @type {any} */ e) => e.code === 'UNSUPPORTED' && /different numbers of heads/.test(e.message),
  );
});

/** Returns one tensor with the rows of three. @param {Tensor[]} tensors @returns {Tensor[]} */
function fused(tensors) {
  const all = new Map(tensors.map((one) => [one.name, one]));
  return tensors.flatMap((one) => {
    const [, layer, what, ending] = /^(blk\.\d+\.)attn_([qkv])\.(.+)$/.exec(one.name) ?? [];
    if (!what) return [one];
    if (what !== 'q') return [];
    const parts = ['q', 'k', 'v'].map((part) => /** @type {Tensor} */ (all.get(`${layer}attn_${part}.${ending}`)));
    const rows = parts.reduce((sum, { dims }) => sum + dims[0], 0);
    const bytes = Buffer.concat(parts.map((part) => part.bytes));
    return [{ ...one, name: `${layer}attn_qkv.${ending}`, dims: [rows, ...one.dims.slice(1)], bytes }];
  });
}

test('queries, keys and values in one tensor are the same model as in three', async () => {
  for (const name of ['Llama 3.2', 'Qwen 2.5']) {
    const tensors = tensorsOf(FAMILIES[name], 'q8_0');
    const metadata = metadataOf(FAMILIES[name]);
    assert.deepEqual(await logitsOf(gguf(metadata, fused(tensors))), await logitsOf(gguf(metadata, tensors)), name);
  }
});

test('the language part of vision models is computed; EXAONE is Qwen 2 without biases', async () => {
  for (const [name, alias, more] of /** @type {[string, string, Metadata][]} */ ([
    ['Qwen 2.5', 'qwen2vl', { 'rope.dimension_sections': ['array', ['i32', [16, 24, 24, 0]]] }],
    [
      'Qwen 3',
      'qwen3vl',
      { 'rope.dimension_sections': ['array', ['i32', [24, 20, 20, 0]]], n_deepstack_layers: ['u32', 3] },
    ],
  ])) {
    const family = FAMILIES[name];
    const tensors = tensorsOf(family);
    const file = gguf(metadataOf({ ...family, more: { ...family.more, ...more } }, alias), tensors);
    assert.deepEqual(await logitsOf(file), await logitsOf(gguf(metadataOf(family), tensors)), alias);
  }
  const plain = { ...FAMILIES['Qwen 2.5'], layer: DENSE };
  const tensors = tensorsOf(plain);
  assert.deepEqual(
    await logitsOf(gguf(metadataOf(plain, 'exaone'), tensors)),
    await logitsOf(gguf(metadataOf(plain), tensors)),
  );
});

test('refused: positions of Spark that are scaled, Jais without ALiBi, Granite SWA with experts', async () => {
  for (const [name, key, value, says] of /** @type {[string, string, any, RegExp][]} */ ([
    ['spark', 'spark2_5.rope.scaling.factor', 2, /Spark with scaled positions/],
    ['spark', 'spark2_5.rope.scale_linear', 2, /Spark with scaled positions/],
    ['spark', 'spark2_5.rope.scaling.attn_factor', 1.5, /Spark with scaled positions/],
    ['jais', 'jais.attention.max_alibi_bias', 0, /Jais without ALiBi/],
    ['granite_swa', 'granite_swa.expert_count', 4, /Granite SWA with experts/],
  ])) {
    const header = await goldenHeader(name);
    configOfGguf(header);
    const changed = { ...header, metadata: { ...header.metadata, [key]: value } };
    assert.throws(() => configOfGguf(changed), { code: 'UNSUPPORTED', message: says });
  }
});

test('openPangu-Embedded is Qwen 2 with a bias of the output of attention', async () => {
  const family = { ...FAMILIES['Qwen 2.5'], layer: { ...DENSE, ...BIASES, 'attn_output.bias': [HIDDEN] } };
  const tensors = tensorsOf(family);
  assert.deepEqual(
    await logitsOf(gguf(metadataOf(family, 'pangu-embedded'), tensors)),
    await logitsOf(gguf(metadataOf(family), tensors)),
  );
});

/**
 * Returns q, k and their norms with the rows in another order: pair i of a head is (2i, 2i + 1) in place of
 * (i, i + half).
 * @param {Tensor} tensor @returns {Tensor}
 */
function withAdjacentPairs(tensor) {
  if (!/attn_[qk](_norm)?\.weight$/.test(tensor.name)) return tensor;
  const [rows] = tensor.dims;
  const size = tensor.bytes.length / rows;
  const half = DIM / 2;
  const bytes = Uint8Array.from({ length: tensor.bytes.length }, (_, at) => {
    const [row, rest] = [Math.floor(at / size), at % size];
    const [head, within] = [row - (row % DIM), row % DIM];
    return tensor.bytes[(head + (within % 2) * half + Math.floor(within / 2)) * size + rest];
  });
  return { ...tensor, bytes };
}

test('Maincoder is Hunyuan with adjacent rotary pairs', async () => {
  const family = { arch: 'hunyuan-dense', more: LENGTHS, tokenizer: QWEN, layer: { ...DENSE, ...HEAD_NORMS } };
  const tensors = tensorsOf(family, 'q8_0');
  /** With activations of 16 bits, since those of 8 bits round small differences up. @param {string} arch @param {Tensor[]} of */
  const logits = async (arch, of) => {
    const model = await openLogits(fromBytes(gguf(metadataOf(family, arch), of)), { activations: 'i16' });
    const values = model.start(PROMPT).slice();
    model.close();
    return values;
  };
  const expected = await logits('hunyuan-dense', tensors);
  /** @param {Tensor[]} of */
  const differenceOf = async (of) =>
    Math.max(...(await logits('maincoder', of)).map((x, i) => Math.abs(x - expected[i])));
  const difference = await differenceOf(tensors.map(withAdjacentPairs));
  assert.ok(difference < 1e-3, `${difference}`);
  assert.ok((await differenceOf(tensors)) > 0.1);
});

test('Granite with experts and without its factors is Mixtral', async () => {
  const family = FAMILIES['Granite MoE'];
  const tensors = tensorsOf(family);
  /** @type {Metadata} */
  const neutral = {
    embedding_scale: ['f32', 1],
    residual_scale: ['f32', 1],
    logit_scale: ['f32', 1],
    'attention.scale': ['f32', 1 / 8],
  };
  const { embedding_scale: _, residual_scale: __, logit_scale: ___, 'attention.scale': ____, ...more } = family.more;
  const mixtral = await logitsOf(gguf(metadataOf({ ...family, more }, 'llama'), tensors));
  assert.deepEqual(await logitsOf(gguf(metadataOf({ ...family, more: { ...more, ...neutral } }), tensors)), mixtral);
  assert.notDeepEqual(await logitsOf(gguf(metadataOf(family), tensors)), mixtral);
});

test('MiniCPM is Granite with the usual factor of scores; factors that older files lack are known', async () => {
  const family = FAMILIES.Granite;
  const tensors = tensorsOf(family);
  /** @param {string} arch @param {Metadata} factors */
  const logits = (arch, factors) =>
    logitsOf(gguf(metadataOf({ ...family, more: { ...SIZED, ...factors } }, arch), tensors));
  /** @type {Metadata} */
  const usual = { 'attention.scale': ['f32', DIM ** -0.5] };
  const { 'attention.scale': _, ...message } = /** @type {any} */ (SCALES);
  assert.deepEqual(await logits('minicpm', message), await logits('granite', { ...message, ...usual }));
  assert.notDeepEqual(await logits('minicpm', message), await logits('minicpm', {}));
  assert.deepEqual(
    await logits('minicpm', {}),
    await logits('granite', {
      ...usual,
      embedding_scale: ['f32', 12],
      residual_scale: ['f32', 1.4 / LAYERS ** 0.5],
      logit_scale: ['f32', HIDDEN / 256],
    }),
  );
});

test('Mistral 3 is LLaMA, up to the positions from which its scores are scaled', async () => {
  const family = FAMILIES.Mistral;
  const tensors = tensorsOf(family);
  /** @type {Metadata} */
  const yarn = {
    'rope.scaling.type': ['text', 'yarn'],
    'rope.scaling.factor': ['f32', 16],
    'rope.scaling.original_context_length': ['u32', 64],
    'rope.scaling.yarn_log_multiplier': ['f32', 1],
  };
  /** @param {string} arch @param {Metadata} [more] */
  const file = (arch, more = {}) =>
    gguf(metadataOf({ ...family, more: { ...family.more, ...yarn, ...more } }, arch), tensors);
  /** @type {Metadata} */
  const grows = { 'attention.temperature_scale': ['f32', 0.1] };
  assert.deepEqual(await logitsOf(file('mistral3', grows)), await logitsOf(file('llama')));
  /** @param {Uint8Array} bytes */
  const contextOf = async (bytes) => (await openGguf(openBytes(bytes), bytes)).config.context;
  assert.deepEqual([await contextOf(file('mistral3')), await contextOf(file('mistral3', grows))], [CONTEXT, 64]);
});

test('layers with a window are given by a period, or by a list of booleans or numbers', async () => {
  const family = FAMILIES['Gemma 3'];
  const tensors = tensorsOf(family);
  /** @param {Value} [pattern] @param {string} [key] */
  const logits = (pattern, key = 'attention.sliding_window_pattern') =>
    logitsOf(gguf(metadataOf({ ...family, more: { ...family.more, ...(pattern && { [key]: pattern }) } }), tensors));
  const everySecond = await logits(['u32', 2]);
  assert.notDeepEqual(everySecond, await logits());
  for (const type of ['bool', 'u8', 'i32'])
    assert.deepEqual(
      await logits(['array', [type, [true, false, true, false].map((is) => (type === 'bool' ? is : Number(is)))]]),
      everySecond,
      type,
    );
  const odd = await logits(['array', ['bool', [false, true, true, false]]]);
  assert.notDeepEqual(odd, everySecond);
  assert.deepEqual(
    await logits(['array', ['bool', Array(LAYERS).fill(false)]]),
    await logits(['u32', 0], 'attention.sliding_window'),
  );
  assert.deepEqual(
    await logits(['array', ['bool', Array(LAYERS).fill(true)]]),
    await logits(),
    'all but the sixth, of four',
  );
  for (const wrong of /** @type {Value[]} */ ([
    ['array', ['bool', [true, false]]],
    ['text', 'all'],
    ['array', ['text', ['a', 'b', 'c', 'd']]],
  ]))
    await assert.rejects(logits(wrong), (/** @type {any} */ e) => e.code === 'FORMAT', `${wrong}`);
});

test('OLMo 3: three of four layers have a window and positions without scaling', async () => {
  const family = FAMILIES['OLMo 2'];
  const tensors = tensorsOf(family);
  /** @param {Metadata} more */
  const logits = (more) => logitsOf(gguf(metadataOf({ ...family, more }), tensors));
  /** @type {Metadata} */
  const scaled = {
    'rope.scaling.type': ['text', 'yarn'],
    'rope.scaling.factor': ['f32', 8],
    'rope.scaling.original_context_length': ['u32', 16],
  };
  /** @param {boolean[]} list @returns {Metadata} */
  const where = (list) => ({ 'attention.sliding_window_pattern': ['array', ['bool', list]] });
  /** @type {Metadata} */
  const wide = { 'attention.sliding_window': ['u32', CONTEXT] };
  const plain = await logits({});
  assert.deepEqual(await logits({ ...scaled, ...wide, ...where(Array(LAYERS).fill(true)) }), plain, 'none is scaled');
  assert.notDeepEqual(await logits(scaled), plain);
  const narrow = { 'attention.sliding_window': /** @type {Value} */ (['u32', 8]) };
  assert.deepEqual(
    await logits({ ...scaled, ...narrow }),
    await logits({ ...scaled, ...narrow, ...where([true, true, true, false]) }),
    'by itself',
  );
  assert.notDeepEqual(await logits(narrow), plain);
});

test('YaRN: a factor of rotations in the file is the complete factor, and a multiplier of its logarithm reduces it', async () => {
  const family = FAMILIES['Qwen 2.5'];
  const tensors = tensorsOf(family);
  /** @param {Record<string, number>} [more] */
  const logits = (more = {}) => {
    const messages = Object.entries(more).map(([key, value]) => [`rope.scaling.${key}`, ['f32', value]]);
    return logitsOf(
      gguf(
        metadataOf({
          ...family,
          more: {
            ...family.more,
            'rope.scaling.type': ['text', 'yarn'],
            'rope.scaling.factor': ['f32', 4],
            'rope.scaling.original_context_length': ['u32', 16],
            ...Object.fromEntries(messages),
          },
        }),
        tensors,
      ),
    );
  };
  const own = 0.1 * Math.log(4) + 1;
  const [unsaid, none] = [await logits(), await logits({ yarn_attn_factor: 1 })];
  /** @param {Float32Array[]} a @param {Float32Array[]} b */
  const apart = ([a], [b]) => a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);
  assert.ok(apart(unsaid, none) > 0.01, 'its own factor does something');
  // in f32, as in the file
  assert.ok(apart(await logits({ yarn_attn_factor: own }), unsaid) < 1e-3 * apart(unsaid, none), 'not twice');
  assert.deepEqual(await logits({ yarn_log_multiplier: 1 }), none);
});

test('flags and tokens with another type of number are read; invalid values are refused by the key', async () => {
  const family = FAMILIES['Qwen 2.5'];
  const tensors = tensorsOf(family);
  /** @param {Metadata} more @returns {Promise<any>} */
  const tokenizerWith = async (more) => {
    const file = gguf(metadataOf({ ...family, tokenizer: { ...QWEN, ...more } }), tensors);
    return (await openGguf(openBytes(file), file)).tokenizer;
  };
  const { flags } = await tokenizerWith({ 'tokenizer.ggml.add_bos_token': ['bool', false] });
  for (const type of ['u8', 'u32', 'i64']) {
    const found = await tokenizerWith({
      'tokenizer.ggml.add_bos_token': [type, 0],
      'tokenizer.ggml.eos_token_id': [type, 3],
    });
    assert.deepEqual([found.flags, found.eos], [flags, 3], type);
  }
  for (const [key, value, says] of /** @type {[string, Value, RegExp][]} */ ([
    ['add_bos_token', ['text', 'false'], /add_bos_token is "false": expected true or false/],
    ['add_eos_token', ['u8', 2], /add_eos_token is 2: expected true or false/],
    ['eos_token_id', ['array', ['u32', [1, 2]]], /eos_token_id is .*: expected an integer/],
    ['bos_token_id', ['text', '1'], /bos_token_id is "1": expected an integer/],
  ]))
    await assert.rejects(
      tokenizerWith({ [`tokenizer.ggml.${key}`]: value }),
      (/** @type {any} */ e) => e.code === 'FORMAT' && says.test(e.message),
      key,
    );
});

test('a word that is a token is not split where llama.cpp ignores merges', async () => {
  const family = FAMILIES['Qwen 2.5'];
  const tensors = tensorsOf(family);
  /** @param {string} pre */
  const flagsOf = async (pre) => {
    const tokenizer = { ...QWEN, 'tokenizer.ggml.pre': ['text', pre] };
    const file = gguf(metadataOf({ ...family, tokenizer }), tensors);
    return (await openGguf(openBytes(file), file)).tokenizer?.flags ?? 0;
  };
  for (const [pre, ignores] of /** @type {[string, boolean][]} */ ([
    ['glm4', true],
    ['glm5', true],
    ['llama-bpe', true],
    ['chatglm-bpe', false],
    ['exaone4', false],
    ['hunyuan-dense', false],
  ]))
    assert.equal(Boolean((await flagsOf(pre)) & FLAG.ignoreMerges), ignores, pre);
});

test('a score that is not finite is refused with its token', async () => {
  const family = FAMILIES['Gemma 3'];
  const scores = [...family.tokenizer['tokenizer.ggml.scores'][1][1]];
  scores[270] = NaN;
  const tokenizer = { ...family.tokenizer, 'tokenizer.ggml.scores': ['array', ['f32', scores]] };
  const file = gguf(metadataOf({ ...family, tokenizer }), tensorsOf(family));
  await assert.rejects(openGguf(openBytes(file), file), { code: 'FORMAT', message: /the score of token 270 is NaN/ });
});

test('a vocabulary with unusual contents: tokens outside it, end tokens that are user tokens, letters of no alphabet, no pre-tokenizer', async () => {
  const family = FAMILIES['Qwen 2.5'];
  const tensors = tensorsOf(family);
  const [, [, texts]] = QWEN['tokenizer.ggml.tokens'];
  const types = [...QWEN['tokenizer.ggml.token_type'][1][1]];
  const at = texts.indexOf('<|im_end|>');
  types[at] = 4;
  types[texts.indexOf('漢字')] = 1;
  const { 'tokenizer.ggml.pre': _, ...unsaid } = QWEN;
  /** @type {Metadata} */
  const tokenizer = {
    ...unsaid,
    'tokenizer.ggml.token_type': ['array', ['i32', types]],
    'tokenizer.ggml.bos_token_id': ['u32', 151643],
    'tokenizer.ggml.padding_token_id': ['i32', -1],
  };
  const file = gguf(metadataOf({ ...family, tokenizer }), tensors);
  const model = await engine.load(fromBytes(file), { contextTokens: 64 });
  assert.deepEqual(await model.tokenize('hello 12'), [...(await model.tokenize('hello')), 220, 16, 17]);
  await model.close();
  const { tokenizer: read } = await openGguf(openBytes(file), file);
  assert.deepEqual([read?.bos, read?.pad], [NONE, NONE]);
  assert.deepEqual(
    read?.eog,
    ['<|endoftext|>', '<|im_end|>', '<|fim_pad|>'].map((text) => texts.indexOf(text)),
  );
});

test('Gemma: a ▁ in the text is a space, also several in a row', async () => {
  const family = FAMILIES['Gemma 3'];
  const model = await engine.load(fromBytes(gguf(metadataOf(family), tensorsOf(family))), { contextTokens: 64 });
  const [, [, tokens]] = family.tokenizer['tokenizer.ggml.tokens'];
  const ids = [1, 'he', '▁▁', 'he'].map((token) => (token === 1 ? 1 : tokens.indexOf(token)));
  for (const between of ['  ', ' ▁', '▁ ', '▁▁'])
    assert.deepEqual([...(await model.tokenize(`he${between}he`))], ids, JSON.stringify(between));
  await model.close();
});

test('a model in three files, the first of which has no tensors', async () => {
  const family = FAMILIES['Qwen 2.5'];
  const tensors = tensorsOf(family);
  /** @param {number} no @returns {Metadata} */
  const split = (no) => ({
    'split.no': ['u16', no],
    'split.count': ['u16', 3],
    'split.tensors.count': ['i32', tensors.length],
  });
  const parts = [
    gguf({ ...metadataOf(family), ...split(0) }, []),
    gguf(split(1), tensors.slice(0, 9)),
    gguf(split(2), tensors.slice(9), { alignment: 64 }),
  ];
  /** @param {any} source */
  const idsOf = async (source) => {
    const model = await engine.load(source, { contextTokens: 64 });
    const session = await model.createSession();
    const { tokens: ids } = await session.generate('hello world', { temperature: 0, maxTokens: 8 }).result;
    await model.close();
    return ids;
  };
  const expected = await idsOf(fromBytes(gguf(metadataOf(family), tensors)));
  assert.deepEqual(await idsOf(parts), expected);
  assert.deepEqual(await idsOf(parts.map((part) => new Blob([part]))), expected);
});

/** @param {string} name @returns {Promise<any>} the header of a golden file */
async function goldenHeader(name) {
  const bytes = readFileSync(new URL(`../golden/gguf/${name}.gguf`, import.meta.url));
  return readHeader(openBytes(bytes), bytes);
}
/** @param {any} header @param {string} key @param {any} value */
const configWith = (header, key, value) =>
  configOfGguf({
    ...header,
    metadata: { ...header.metadata, [`${header.metadata['general.architecture']}.${key}`]: value },
  });

const NOT_NUMBERS = [NaN, Infinity, 'x', '', Float32Array.of(NaN), [-1]];
/** Values that are invalid in a file, among them values that are no numbers. @param {...any} allowed */
const but = (...allowed) => [0, 1, 2, 3, 5, 0.5, -1, 4096, ...NOT_NUMBERS].filter((value) => !allowed.includes(value));
const ON = but(0);
const FACTOR = but(0, 1);
/** Files, a key, and values that contradict the tensors of the file or are not supported. @type {[string[], string, any[]][]} */
const REFUSED = [
  [['gemma4', 'gemma4-keys', 'llama3', 'qwen3', 'granite', 'phi3'], 'attention.value_length', but()],
  [['gemma4', 'gemma4-keys', 'gemma3', 'lfm3', 'embedding-gemma2'], 'attention.value_length_swa', but()],
  [['gemma3', 'modern-bert', 'olmo2', 'phi3', 'lfm3'], 'attention.key_length_swa', but()],
  [['gemma4', 'gemma4-keys', 'embedding-gemma2'], 'rope.dimension_count', but()],
  [['gemma4', 'gemma4-keys', 'embedding-gemma2'], 'rope.dimension_count_swa', but()],
  [['gemma3', 'lfm3'], 'rope.dimension_count_swa', but()],
  [['llama3', 'granite', 'spark', 'smollm3'], 'attention.rope_pattern', but(1)],
  [['gemma2-heads'], 'rope.freq_base_swa', but()],
  [['granite', 'granite-hybrid', 'qwen3', 'lfm2', 'lfm3', 'gemma4', 'bert', 'mamba2'], 'expert_count', ON],
  [['granite-hybrid-moe', 'qwen3moe', 'qwen2moe', 'mixtral'], 'expert_count', but(0, 5)],
  [['qwen3moe', 'qwen2moe', 'mixtral', 'granite-hybrid-moe'], 'expert_feed_forward_length', but()],
  [['qwen2moe', 'qwen3moe'], 'expert_shared_feed_forward_length', but(0)],
  [['qwen3moe', 'mixtral'], 'expert_shared_count', ON],
  [['qwen3moe', 'mixtral', 'granite-hybrid-moe'], 'expert_weights_norm', but(1)],
  [['qwen2moe'], 'expert_weights_norm', ON],
  ...['expert_weights_scale', 'expert_gating_func', 'expert_group_count', 'expert_group_used_count'].map(
    (key) => /** @type {[string[], string, any[]]} */ ([['qwen3moe', 'mixtral', 'granite-hybrid-moe'], key, FACTOR]),
  ),
  [['lfm2-moe'], 'expert_gating_func', but(2)],
  [['lfm2-moe'], 'expert_weights_norm', but(1)],
  [['lfm2-moe'], 'expert_weights_scale', FACTOR],
  [['lfm2-moe'], 'expert_count', but()],
  [['qwen3moe', 'mixtral'], 'leading_dense_block_count', ON],
  [['llama3', 'qwen2', 'gemma3', 'gemma4', 'falcon-h1', 'mpt'], 'attention.scale', but(0, 1, 0.5)],
  [['llama3', 'qwen2', 'mamba2', 'bert'], 'attention.output_scale', FACTOR],
  [['llama3', 'qwen3', 'gemma4', 'gpt2', 'granite', 'lfm2', 'lfm3', 'qwen35'], 'attention.causal', but(1)],
  [
    [
      'bert',
      'modern-bert',
      'gemma-embedding',
      'embedding-gemma2',
      'jina-bert-v2',
      'jina-v3',
      'eurobert',
      'llama-bidirec',
    ],
    'attention.causal',
    but(0),
  ],
  [['llama3', 'falcon', 'bert', 'gemma4'], 'attention.max_alibi_bias', ON],
  [['llama3', 'falcon', 'gemma4'], 'attention.clamp_kqv', ON],
  [['llama3', 'qwen2', 'qwen3', 'granite', 'lfm2', 'bert'], 'attention.sliding_window', ON],
  [['llama3', 'gemma3', 'qwen35', 'lfm3', 'embedding-gemma2'], 'attention.shared_kv_layers', ON],
  [['llama3', 'gemma3', 'gemma4', 'bert'], 'attn_logit_softcapping', ON],
  [['llama3', 'qwen3', 'granite', 'lfm2', 'lfm3', 'embedding-gemma2'], 'final_logit_softcapping', ON],
  [['llama3', 'qwen3', 'gemma3', 'lfm2', 'lfm3', 'mamba2', 'falcon-h1'], 'logit_scale', FACTOR],
  [['llama3', 'qwen3', 'gemma3', 'lfm2', 'mamba2'], 'residual_scale', FACTOR],
  [['llama3', 'qwen3', 'gemma3', 'lfm2', 'mamba2'], 'embedding_scale', FACTOR],
  [['gemma3', 'llama3', 'lfm2'], 'embedding_length_per_layer_input', ON],
  [['llama3', 'bert', 'gemma-embedding', 'embedding-gemma2'], 'embedding_length_out', but(0)],
  [['llama3', 'gpt2', 'lfm2'], 'pooling_type', but(0, 1, 2, 3)],
  [['llama3', 'granite-hybrid', 'mamba2'], 'ssm.dt_b_c_rms', ON],
  [['llama3', 'mamba2', 'qwen35'], 'shortconv.l_cache', ON],
  [['modern-bert', 'lfm2', 'lfm3'], 'decision.block_count', ON],
  [['llama3', 'lfm2', 'lfm3', 'mamba2'], 'full_attention_interval', FACTOR],
  [['glm4'], 'rope.dimension_sections', [[16, 24, 24, 0], [0, 1], [1], [8, 12, 12, 0], Int32Array.of(2, 2, 0, 0)]],
  [['llama3', 'qwen2', 'phi3', 'gemma3'], 'rope.scaling.alpha', FACTOR],
  [['gemma3', 'gemma4', 'lfm3', 'modern-bert'], 'rope.scaling.attn_factor', but(1)],
  [['qwen2-yarn'], 'rope.scaling.yarn_ext_factor', [0, 2, 0.5, NaN, Infinity, 'x']],
  [
    ['llama3', 'qwen2', 'gemma3', 'falcon'],
    'rope.scaling.type',
    ['llama4', '', 1, true, [], 'YARN', 'ntk', NaN, 'x', '__proto__'],
  ],
];

test('metadata that changes results is computed, or refused with the key and the expected values', async () => {
  let count = 0;
  for (const [names, key, values] of REFUSED) {
    assert.ok(values.length >= 5, key);
    for (const name of names) {
      const header = await goldenHeader(name);
      configOfGguf(header);
      for (const value of values) {
        count++;
        assert.throws(
          () => configWith(header, key, value),
          (/** @type {any} */ e) =>
            e.name === 'BqError' &&
            ['SHAPE', 'UNSUPPORTED', 'FORMAT'].includes(e.code) &&
            (e.message.includes(key) ||
              (key === 'rope.scaling.type' && e.message.includes('RoPE scaling')) ||
              (key === 'expert_count' && /ffn_gate_inp.weight" is missing|Gemma 4 with experts/.test(e.message))) &&
            /expected|incomplete|not supported/.test(e.hint),
          `${name}: ${key} is ${value}`,
        );
      }
    }
  }
  assert.ok(count > 1500, `${count}`);
});

test('metadata that repeats properties of tensors, or has no effect, changes nothing', async () => {
  for (const file of readdirSync(new URL('../golden/gguf/', import.meta.url))) {
    const header = await goldenHeader(file.replace('.gguf', ''));
    const config = configOfGguf(header);
    const { head_dim: head, global_head_dim: global = head, bidirectional, attn_scale: scale } = config;
    for (const [key, value] of /** @type {[string, any][]} */ ([
      ...(head ? [['attention.value_length', global]] : []),
      ...(head ? [['attention.key_length_swa', head]] : []),
      ...(head ? [['attention.scale', Math.fround(scale || global ** -0.5)]] : []),
      ['attention.causal', !bidirectional],
      ['embedding_length_out', 0],
      ['rope.scaling.alpha', 1],
      ['attention.output_scale', 1],
      ['router_logit_softcapping', 0],
      ['expert_weights_scale', 1],
      ['expert_used_count', config.experts_used ?? 8], // no layers
      ['expert_gating_func', config.experts_sigmoid ? 2 : 1],
      ['expert_group_count', 0],
      ['swiglu_clamp_exp', new Float32Array(4)],
      ['vocab_size', 5],
    ]))
      assert.deepEqual(configWith(header, key, value), config, `${file}: ${key} is ${value}`);
  }
});

test('LFM3: a file that does not list the layers with a window is refused, as by llama.cpp', async () => {
  const header = await goldenHeader('lfm3');
  assert.throws(() => configWith(header, 'attention.sliding_window_pattern', undefined), {
    code: 'FORMAT',
    message: /attention\.sliding_window_pattern/,
  });
});

test('Granite 4 without Mamba-2: the sizes of a state that no layer has are ignored, as the converter of hybrid models writes them', async () => {
  const header = await goldenHeader('granite');
  const config = configOfGguf(header);
  const written = {
    'ssm.conv_kernel': 4,
    'ssm.state_size': 256,
    'ssm.group_count': 1,
    'ssm.inner_size': 2 * config.hidden,
    'ssm.time_step_rank': 64,
    'attention.head_count_kv': Int32Array.from({ length: config.layers }, () => config.kv_heads),
    'rope.scaling.finetuned': true,
    expert_count: 0,
    expert_used_count: 0,
    expert_shared_feed_forward_length: config.ffn,
  };
  const keys = Object.entries(written).map(([key, value]) => [`granite.${key}`, value]);
  const metadata = { ...header.metadata, ...Object.fromEntries(keys) };
  assert.deepEqual(configOfGguf({ ...header, metadata }), config);
});

test('experts that only a part of the file describes are refused', async () => {
  const header = await goldenHeader('granite-hybrid-moe');
  for (const count of [0, undefined])
    assert.throws(
      () => metaOfGguf({ ...header, metadata: { ...header.metadata, 'granitehybrid.expert_count': count } }),
      (/** @type {any} */ e) => e.name === 'BqError' && /ffn_\w+_exps|expert/.test(e.message),
    );
});

test('positions that both tensors and metadata scale are refused', async () => {
  const family = FAMILIES['Llama 3.2'];
  for (const type of ['linear', 'yarn']) {
    /** @type {Metadata} */
    const more = { ...family.more, 'rope.scaling.type': ['text', type], 'rope.scaling.factor': ['f32', 4] };
    const file = gguf(metadataOf({ ...family, more }), tensorsOf(family));
    await assert.rejects(
      openGguf(openBytes(file), file),
      (/** @type {any} */ e) => e.code === 'UNSUPPORTED' && e.message.includes(`rope.scaling.type "${type}"`),
    );
  }
});

test('a decoder for embeddings: the vector of its last token, with length 1', async () => {
  const family = FAMILIES['Qwen 3'];
  const more = { ...family.more, pooling_type: ['u32', 3] };
  const tokenizer = { ...QWEN, 'tokenizer.ggml.add_eos_token': /** @type {Value} */ (['bool', true]) };
  const model = await engine.load(fromBytes(gguf(metadataOf({ ...family, more, tokenizer }), tensorsOf(family))));
  const { vectors } = await model.embed(['hello world']);
  assert.ok(Math.abs(vectors[0].reduce((sum, x) => sum + x * x, 0) - 1) < 1e-3);
  const { embedding } = model.info;
  assert.deepEqual([embedding?.pooling, embedding?.normalize], ['last', true]);
  await model.close();
});

test('the vision part of a model is refused with its kind', () =>
  assert.rejects(
    engine.load(fromBytes(gguf({ 'general.architecture': ['text', 'clip'] }, []))),
    (/** @type {any} */ e) => e.code === 'UNSUPPORTED' && /"clip"/.test(e.message) && /mmproj/.test(e.hint),
  ));

test('of several chat templates, the one without a name is used', async () => {
  const family = FAMILIES['Qwen 2.5'];
  /** @type {Metadata} */
  const tokenizer = {
    ...QWEN,
    'tokenizer.chat_templates': ['array', ['text', ['tool_use', 'rag']]],
    'tokenizer.chat_template.tool_use': ['text', '{{ raise_exception("tools") }}'],
    'tokenizer.chat_template.rag': ['text', 'rag'],
  };
  const model = await engine.load(fromBytes(gguf(metadataOf({ ...family, tokenizer }), tensorsOf(family))), {
    contextTokens: 64,
  });
  assert.ok((await model.countTokens([{ role: 'user', content: 'hello' }])) > 5);
  await model.close();
});

test('every pre-tokenizer that files of these families name is supported', () => {
  const known = new Set(PATTERNS.flatMap(({ names }) => names));
  for (const pre of 'qwen2 llama-bpe gpt-4o smollm tekken dbrx refact smaug-bpe deepseek-llm deepseek-coder deepseek-v3 deepseek-r1-qwen starcoder falcon bloom mpt olmo command-r stablelm2 gpt-2 default llama4 qwen35 exaone exaone4 hunyuan hunyuan-dense glm4 glm5 chatglm-bpe seed-coder jina-v5-nano spark2_5'.split(
    ' ',
  ))
    assert.ok(known.has(pre), pre);
});

test.after(() => engine.close());

test('end tokens have these names, also if the metadata declares them as normal tokens; "</s>" and "<eos>" must be control tokens', async () => {
  const family = FAMILIES['Gemma 3'];
  const specials = ['<|im_end|>', '<|eot|>', '<reponame>', '<eos>', '[EOT]', '<PRE>'];
  /** @param {number} type  of the special tokens @param {number} closing  type of "</s>" */
  const endsWith = async (type, closing) => {
    const tokenizer = sentencePiece(specials, { 'tokenizer.ggml.eos_token_id': ['u32', 1] });
    const [, [, texts]] = tokenizer['tokenizer.ggml.tokens'];
    const types = tokenizer['tokenizer.ggml.token_type'][1][1].map(
      (/** @type {number} */ own, /** @type {number} */ i) =>
        i === 2 ? closing : specials.includes(texts[i]) ? type : own,
    );
    const metadata = metadataOf({
      ...family,
      tokenizer: {
        ...tokenizer,
        'tokenizer.ggml.token_type': ['array', ['i32', types]],
        'tokenizer.ggml.fim_sep_token_id': ['u32', texts.indexOf('<PRE>')],
      },
    });
    const file = gguf(metadata, tensorsOf({ ...family, tokenizer }));
    const { tokenizer: read } = await openGguf(openBytes(file), file);
    const named = read?.eog.map((id) => texts[id]);
    const model = await engine.load(fromBytes(file), { contextTokens: 64 });
    const ids = [...(await model.tokenize('he<|im_end|>', { addSpecial: false, parseSpecial: true }))];
    await model.close();
    assert.equal(ids.at(-1), texts.indexOf('<|im_end|>'), `type ${type}`);
    return named?.sort();
  };
  const always = ['<s>', '<PRE>', '<|im_end|>', '<|eot|>'];
  assert.deepEqual(await endsWith(1, 1), always.sort());
  assert.deepEqual(await endsWith(4, 4), [...always, '<reponame>', '[EOT]'].sort());
  assert.deepEqual(await endsWith(3, 3), [...always, '<reponame>', '[EOT]', '<eos>', '</s>'].sort());
});

test("Phi 3: special tokens absorb the white space after them, as in the model's own tokenizer", async () => {
  const family = FAMILIES['Phi 3'];
  const model = await engine.load(fromBytes(gguf(metadataOf(family), tensorsOf(family))), { contextTokens: 32 });
  const [, [, texts]] = family.tokenizer['tokenizer.ggml.tokens'];
  /** @param {string} text */
  const tokensOf = async (text) =>
    [...(await model.tokenize(text, { addSpecial: false, parseSpecial: true }))].map((id) => texts[id]);
  assert.deepEqual(await tokensOf('<|user|>\nhello<|end|>\n<|assistant|>\n '), [
    '<|user|>',
    '▁hello',
    '<|end|>',
    '<|assistant|>',
  ]);
  assert.deepEqual(await tokensOf('<|endoftext|>\n'), ['<|endoftext|>', '▁', '\n']);
  assert.deepEqual(await tokensOf('<s>\n'), ['<s>', '▁', '\n']);
  await model.close();
});

test('the file states whether texts are composed (NFC)', async () => {
  for (const [model, composes] of /** @type {[string, boolean | undefined][]} */ ([
    ['t5', undefined],
    ['t5', true],
    ['gpt2', undefined],
    ['gpt2', true],
  ])) {
    const base = model === 't5' ? sentencePiece(['\u00e9', '\u0301']) : byteLevel('gpt-2', ['<|endoftext|>']);
    const { 'tokenizer.ggml.token_type': types, ...others } = base;
    const tokenizer = {
      ...others,
      'tokenizer.ggml.token_type': ['array', ['i32', types[1][1].map((/** @type {number} */ t) => (t === 3 ? 1 : t))]],
      'tokenizer.ggml.model': ['text', model],
      ...(composes !== undefined && { 'tokenizer.ggml.normalizer.nfc': ['bool', composes] }),
    };
    const family = { ...FAMILIES['Llama 3.2'], tokenizer };
    const loaded = await engine.load(fromBytes(gguf(metadataOf(family), tensorsOf(family))), { contextTokens: 64 });
    const [apart, whole] = await Promise.all(
      ['e\u0301', '\u00e9'].map((text) => loaded.tokenize(text, { addSpecial: false })),
    );
    await loaded.close();
    assert.equal(String(apart) === String(whole), Boolean(composes), `${model} ${composes}`);
  }
});

test('weights that are multiplied by Hadamard matrices are refused', async () => {
  const family = FAMILIES['Qwen 3'];
  const file = gguf({ ...metadataOf(family), 'prism.hadamard.version': ['u32', 1] }, tensorsOf(family));
  await assert.rejects(openGguf(openBytes(file), file), { code: 'UNSUPPORTED', message: /prism\.hadamard/ });
});

test('the attention factor of positions applies without scaling, too; a factor of 0 is no scaling', async () => {
  const header = await goldenHeader('llama-gqa');
  const config = configOfGguf(header);
  assert.deepEqual(configWith(header, 'rope.scaling.attn_factor', 1.25), { ...config, rope_scale: 1.25 });
  assert.deepEqual(configWith(header, 'rope.scaling.factor', 0), config);
});

test('Granite without rotary positions', async () => {
  const header = await goldenHeader('granite');
  const config = configOfGguf(header);
  assert.deepEqual(configWith(header, 'rope.scaling.finetuned', true), config);
  const { position, rope_theta: theta, rope_dim: dim } = configWith(header, 'rope.scaling.finetuned', false);
  assert.deepEqual([position, theta, dim], ['none', undefined, undefined]);
});

test("Pixtral's tokenizer is Tekken", () => assert.equal(patternNamed('pixtral'), patternNamed('tekken')));

test('tokens that a file suppresses are never generated', async () => {
  const family = FAMILIES['Qwen 3'];
  const tensors = tensorsOf(family);
  /** @param {Metadata} more @param {Record<string, any>} [options] @returns {Promise<number[]>} */
  const tokensWith = async (more, options) => {
    const model = await engine.load(fromBytes(gguf({ ...metadataOf(family), ...more }, tensors)), {
      contextTokens: 64,
    });
    const { tokens } = await model.generate('hello', { temperature: 0, maxTokens: 4, ...options }).result;
    await model.close();
    return [...tokens];
  };
  const [first] = await tokensWith({});
  /** @type {Metadata} */
  const suppressed = { 'tokenizer.ggml.suppress_tokens': ['array', ['i32', [first, 1 << 20, -1]]] };
  const tokens = await tokensWith(suppressed);
  assert.ok(!tokens.includes(first) && tokens.length > 0, `${tokens}`);
  const other = await tokensWith(suppressed, { logitBias: [{ token: tokens[0], bias: -Infinity }] });
  assert.ok(![first, tokens[0]].includes(other[0]), `${other}`);
  await assert.rejects(tokensWith({ 'tokenizer.ggml.suppress_tokens': ['text', '5'] }), {
    code: 'FORMAT',
    message: /suppress_tokens is "5"/,
  });
});

test('Qwen3.5: the layers with a delta net are listed, or have a period in older files', async () => {
  const header = await goldenHeader('qwen35');
  const { conv_layers: layers } = configOfGguf(header);
  assert.deepEqual(layers, [0, 1, 2]);
  const key = 'attention.recurrent_layers';
  assert.deepEqual(configWith(header, key, undefined).conv_layers, layers);
  assert.deepEqual(configWith(header, key, [true, false, true, false]).conv_layers, [0, 2]);
  assert.throws(() => configWith(header, key, [true]), { code: 'FORMAT', message: /recurrent_layers lists 1 of 4/ });
});

test('ModernBERT without a window: all layers have global attention', async () => {
  const header = await goldenHeader('modern-bert');
  for (const window of [0, undefined]) {
    const config = configWith(header, 'attention.sliding_window', window);
    const { window: size, local_theta: theta, global_every: every, global_layers: listed } = config;
    assert.deepEqual([size, theta, every, listed], Array(4).fill(undefined));
  }
});

test('the activation of a classifier is that of the file, or it is refused', async () => {
  const bytes = readFileSync(new URL('../golden/rerankers/modern-bert/modern-bert.gguf', import.meta.url));
  const header = await readHeader(openBytes(bytes), bytes);
  const key = 'classifier.activation';
  assert.equal(configOfGguf(header).dense_activation, 'gelu_erf');
  assert.equal(configWith(header, key, 'gelu').dense_activation, 'gelu_erf');
  assert.equal(configWith(header, key, 'tanh').dense_activation, 'tanh');
  for (const value of ['silu', 'toString', 5])
    assert.throws(() => configWith(header, key, value), {
      code: 'UNSUPPORTED',
      message: /a classifier with the activ/,
    });
});

test('experts in all layers: feed_forward_length may be a list, 0 or missing; Mamba-2 does not need it', async () => {
  const key = 'feed_forward_length';
  for (const name of ['qwen3moe', 'mixtral']) {
    const header = await goldenHeader(name);
    const config = configOfGguf(header);
    const list = Int32Array.from({ length: config.layers }, () => config.ffn);
    assert.deepEqual(configWith(header, key, list), config, name);
  }
  const header = await goldenHeader('qwen3moe');
  for (const value of [0, undefined]) {
    const config = configWith(header, key, value);
    assert.equal(config.ffn, config.expert_ffn);
  }
  const recurrent = await goldenHeader('mamba2');
  assert.deepEqual(configWith(recurrent, key, undefined), configOfGguf(recurrent));
});

test("Granite's multilingual embedding model has Gemma 4's kind of tokenizer, under the name gpt2; words with a prefix are refused", async () => {
  const spm = sentencePiece(['<eos>']);
  const [, [, texts]] = spm['tokenizer.ggml.tokens'];
  const types = spm['tokenizer.ggml.token_type'][1][1];
  const tokensOf = (/** @type {number} */ type) =>
    texts.filter((/** @type {any} */ _, /** @type {number} */ i) => types[i] === type);
  /** @param {Metadata} more @returns {Promise<any>} */
  const idsWith = async (more) => {
    /** @type {Metadata} */
    const tokenizer = {
      ...spm,
      'tokenizer.ggml.merges': ['array', ['text', ['h e', 'l l', 'he ll', 'hell o', '▁ w']]],
      'tokenizer.ggml.add_bos_token': ['bool', false],
      ...more,
    };
    const family = { ...FAMILIES['Gemma 3'], tokenizer };
    const model = await engine.load(fromBytes(gguf(metadataOf(family), tensorsOf(family))), { contextTokens: 64 });
    const ids = await model.tokenize('hello  world é\n');
    await model.close();
    return [...ids].map((id) => texts[id]);
  };
  /** @type {Metadata} */
  const named = {
    'tokenizer.ggml.model': ['text', 'gpt2'],
    'tokenizer.ggml.pre': ['text', 'granite-embed-multi-311m'],
  };
  const expected = await idsWith({ 'tokenizer.ggml.model': ['text', 'gemma4'] });
  assert.deepEqual(expected.slice(0, 5), ['<s>', 'hello', '▁', '▁w', 'o']);
  assert.ok(tokensOf(6).includes(expected.at(-2)), `${expected}`);
  assert.deepEqual(await idsWith(named), expected);
  const scheme = 'tokenizer.ggml.metaspace.prepend_scheme';
  assert.deepEqual(await idsWith({ ...named, [scheme]: ['text', 'never'] }), expected);
  await assert.rejects(idsWith({ ...named, [scheme]: ['text', 'first'] }), { code: 'UNSUPPORTED', message: /"first"/ });
});

test('older files without a pre-tokenizer have that of their model, known by the architecture or the number of tokens', async () => {
  const { 'tokenizer.ggml.pre': _, ...unsaid } = QWEN;
  /** @param {string} arch @param {number} [size]  number of tokens */
  const read = async (arch, size = 0) => {
    const [, [, own]] = QWEN['tokenizer.ggml.tokens'];
    const tokens = [...own, ...Array.from({ length: Math.max(size - own.length, 0) }, (_unused, i) => `[${i}]`)];
    const types = tokens.map((_unused, i) => QWEN['tokenizer.ggml.token_type'][1][1][i] ?? 5);
    const file = gguf(
      {
        'general.architecture': ['text', arch],
        ...unsaid,
        'tokenizer.ggml.tokens': ['array', ['text', tokens]],
        'tokenizer.ggml.token_type': ['array', ['i32', types]],
      },
      [],
    );
    return tokenizerFromGguf((await readHeader(openBytes(file), file)).metadata);
  };
  const partsOf = (/** @type {string} */ name) => patternNamed(name)?.stages?.length;
  assert.equal((await read('llama')).split, 'gpt-2');
  const llama3 = await read('llama', 128256);
  assert.deepEqual([llama3.split, llama3.flags & FLAG.ignoreMerges], ['llama-3', FLAG.ignoreMerges]);
  assert.equal((await read('llama', 32256)).parts?.length, partsOf('deepseek-coder'));
  assert.equal((await read('llama', 102400)).parts?.length, partsOf('deepseek-llm'));
  for (const [arch, stages] of /** @type {[string, number][]} */ ([
    ['olmo', 1],
    ['command-r', 2],
  ]))
    assert.equal((await read(arch)).parts?.length, composed().length + stages, `${arch}: characters are composed`);
});
