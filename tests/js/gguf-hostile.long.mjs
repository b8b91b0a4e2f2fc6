// Tests of GGUF files whose metadata has wrong types or lengths: a typed error or a plan, never a crash. Also tests large metadata.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { convertGguf } from '../../bin/convert-gguf.js';
import { encodeConfig } from '../../js/format/bq4/config.js';
import { ALPHABET, fromAlphabet } from '../../js/text/tokenizers/bytes.js';
import { mergesFromPairs } from '../../js/text/tokenizers/merges.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { encodeTokenizer } from '../../js/text/tokenizers/section.js';
import { openGguf } from '../../js/format/gguf/open.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { testFolder } from './folders.mjs';
import { gguf, ggufTensor, llamaMetadata, bytesTokenizer } from './gguf-writer.mjs';
import { random } from './fixture.mjs';
import { randomWeights } from './checkpoints.mjs';

/** @typedef {import('./gguf-writer.mjs').Value} Value */

const config = {
  arch: 'llama',
  layers: 2,
  hidden: 64,
  heads: 4,
  kv_heads: 2,
  ffn: 96,
  vocab: 120,
  context: 32,
  norm_eps: 1e-5,
  rope_pairs: 'adjacent',
  tied: true,
};
const { fresh } = testFolder('gguf-hostile');
const tensors = [...randomWeights(config)].map(([name, tensor]) => ggufTensor(name, tensor, 'q8_0'));

/** Of every kind, small and absurd. @type {Value[]} */
const VALUES = [
  ['u8', 0],
  ['u32', 0],
  ['u32', 1],
  ['u32', 0xffffffff],
  ['i32', -1],
  ['u64', 2n ** 53n],
  ['u64', 2n ** 64n - 1n],
  ['i64', -(2n ** 63n)],
  ['f32', NaN],
  ['f32', 0],
  ['f32', -1],
  ['f32', Infinity],
  ['f64', 1e308],
  ['f32', 0.5],
  ['bool', true],
  ['text', ''],
  ['text', 'x'],
  ['text', '__proto__'],
  ['text', 'constructor'],
  ['text', '{% for x in y %}'],
  ['array', ['text', []]],
  ['array', ['text', ['a']]],
  ['array', ['text', ['', '']]],
  ['array', ['i32', []]],
  ['array', ['i32', [1, -1]]],
  ['array', ['f32', [NaN]]],
  ['array', ['u64', [1n]]],
  ['array', ['bool', [true]]],
  ['array', ['u8', [1, 2, 3, 4, 5, 6, 7, 8, 9]]],
];

/** Keys that some architecture or tokenizer reads. */
const KEYS = [
  'rope.scaling.type',
  'rope.scaling.factor',
  'rope.scaling.original_context_length',
  'rope.scaling.attn_factor',
  'rope.freq_base',
  'rope.dimension_count',
  'attention.key_length',
  'attention.sliding_window',
  'attention.sliding_window_pattern',
  'attention.layer_norm_epsilon',
  'expert_count',
  'expert_used_count',
  'attention.scale',
  'logit_scale',
  'embedding_scale',
  'residual_scale',
  'attention.max_alibi_bias',
  'attention.clamp_kqv',
  'attn_logit_softcapping',
  'final_logit_softcapping',
  'pooling_type',
  'use_parallel_residual',
  'rope.freq_base_swa',
  'attention.value_length',
  'attention.causal',
  'attention.key_length_swa',
  'attention.shared_kv_layers',
  'rope.dimension_count_swa',
  'rope.scaling.yarn_ext_factor',
  'expert_weights_norm',
  'expert_gating_func',
  'embedding_length_out',
  'swiglu_clamp_exp',
  'shortconv.l_cache',
  'ssm.dt_b_c_rms',
];
const TOKENIZER = [
  'model',
  'pre',
  'tokens',
  'token_type',
  'scores',
  'merges',
  'bos_token_id',
  'eos_token_id',
  'unknown_token_id',
  'padding_token_id',
  'add_bos_token',
  'add_eos_token',
  'add_space_prefix',
  'precompiled_charsmap',
  'remove_extra_whitespaces',
  'eot_token_id',
  'cls_token_id',
  'seperator_token_id',
  'normalizer.lowercase',
].map((key) => `tokenizer.ggml.${key}`);
const GENERAL = [
  'general.architecture',
  'general.name',
  'general.license',
  'general.alignment',
  'split.count',
  'split.no',
  'tokenizer.chat_template',
];

/** @param {Record<string, Value>} metadata @param {string} what */
async function tried(metadata, what) {
  const bytes = gguf(metadata, tensors);
  try {
    const found = await openGguf(openBytes(bytes), bytes.subarray(0, 64));
    encodeConfig(found.config);
    if (found.tokenizer) encodeTokenizer(found.tokenizer);
    return 'a plan';
  } catch (error) {
    assert.equal(/** @type {any} */ (error).name, 'BqError', `${what}: ${/** @type {any} */ (error).stack}`);
    return /** @type {any} */ (error).code;
  }
}

for (const arch of ['llama', 'gemma3', 'qwen2moe']) {
  test(`${arch}: every key with a value of every kind`, async () => {
    const base = Object.fromEntries(
      Object.entries(llamaMetadata(config)).map(([key, value]) => [key.replace(/^llama\./, `${arch}.`), value]),
    );
    /** @type {Record<string, Value>} */
    const metadata = { ...base, ...bytesTokenizer(config.vocab), 'general.architecture': ['text', arch] };
    const seen = new Set();
    const own = [
      ...Object.keys(base).filter((key) => key.startsWith(`${arch}.`)),
      ...KEYS.map((key) => `${arch}.${key}`),
    ];
    const keys = arch === 'llama' ? [...own, ...TOKENIZER, ...GENERAL] : own;
    for (const key of keys)
      for (const value of VALUES) seen.add(await tried({ ...metadata, [key]: value }, `${key} is ${value}`));
    assert.ok(seen.size > 1, [...seen].join());
  });
}

for (const [model, more] of /** @type {[string, Record<string, Value>][]} */ ([
  ['llama', { scores: ['array', ['f32', Array.from({ length: 120 }, (_, i) => -i)]] }],
  ['t5', { scores: ['array', ['f32', Array.from({ length: 120 }, (_, i) => -i)]] }],
])) {
  test(`tokenizers, "${model}": every key with a value of every kind`, async () => {
    const own = Object.fromEntries(Object.entries(more).map(([key, value]) => [`tokenizer.ggml.${key}`, value]));
    const metadata = {
      ...llamaMetadata(config),
      ...bytesTokenizer(config.vocab),
      'tokenizer.ggml.model': /** @type {Value} */ (['text', model]),
      ...own,
    };
    assert.equal(await tried(metadata, model), 'a plan');
    const seen = new Set();
    for (const key of TOKENIZER)
      for (const value of VALUES) seen.add(await tried({ ...metadata, [key]: value }, `${key} is ${value}`));
    assert.ok(seen.has('FORMAT'), [...seen].join());
  });
}

test('a header of several MiB: a small model with a long model card', async () => {
  const bytes = gguf({ ...llamaMetadata(config), ...bytesTokenizer(config.vocab) }, tensors);
  const card = join(fresh(), 'card.md');
  const next = random(3);
  writeFileSync(card, Array.from({ length: 5 << 20 }, () => 'abc '[Math.floor(2 * (next() + 1))]).join(''));
  const { bytes: size } = await convertGguf(openBytes(bytes), join(fresh(), 'out.bq4'), { card });
  assert.ok(size > 5 << 20);
});

/** The 256 letters of GPT-2's alphabet, and so many more tokens of two others each, by their merges. @param {number} count */
function byteLevel(count) {
  const next = random(5);
  const below = (/** @type {number} */ n) => Math.floor(((next() + 1) / 2) * n);
  const tokens = [...ALPHABET.keys()];
  const [known, merges] = [new Set(tokens), /** @type {[string, string][]} */ ([])];
  while (tokens.length < count) {
    const [left, right] = [tokens[below(Math.min(tokens.length, 2000))], tokens[below(tokens.length)]];
    if (known.has(left + right) || left.length + right.length > 16) continue;
    known.add(left + right);
    tokens.push(left + right);
    merges.push([left, right]);
  }
  return { tokens, merges };
}

/** A model of one small layer with that tokenizer. @param {Record<string, Value>} metadata @param {number} vocab */
function small(metadata, vocab) {
  const own = { ...config, layers: 1, vocab };
  const list = [...randomWeights(own)].map(([name, one]) => ggufTensor(name, one, 'q8_0'));
  return gguf({ ...llamaMetadata(own), ...metadata }, list);
}

test('a vocabulary of 151,936 byte-level tokens', async () => {
  const { tokens, merges } = byteLevel(151936);
  const file = small(
    {
      'tokenizer.ggml.model': ['text', 'gpt2'],
      'tokenizer.ggml.pre': ['text', 'qwen2'],
      'tokenizer.ggml.tokens': ['array', ['text', tokens]],
      'tokenizer.ggml.merges': ['array', ['text', merges.map((pair) => pair.join(' '))]],
    },
    tokens.length,
  );
  const { tokenizer } = await openGguf(openBytes(file), file.subarray(0, 64));
  const ids = new Map(tokens.map((text, id) => [text, id]));
  assert.deepEqual(tokenizer?.merges, mergesFromPairs(merges, ids), 'as they are found by their texts');
  assert.deepEqual(tokenizer?.tokens[151935].bytes, fromAlphabet(tokens[151935]));
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(file), { contextTokens: 16 });
  const text = 'Hello wörld 漢字 😀';
  assert.equal(await model.detokenize(await model.tokenize(text)), text);
  await engine.close();
});

test('a vocabulary of 262,144 SentencePiece tokens', async () => {
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const words = Array.from({ length: 262144 - 260 }, (_, i) => `${i % 3 ? '' : '▁'}${i.toString(36)}`);
  const tokens = ['<pad>', '<eos>', '<bos>', '<unk>', ...bytes, ...words];
  const file = small(
    {
      'tokenizer.ggml.model': ['text', 'llama'],
      'tokenizer.ggml.tokens': ['array', ['text', tokens]],
      'tokenizer.ggml.scores': ['array', ['f32', tokens.map((_, i) => -i)]],
      'tokenizer.ggml.token_type': [
        'array',
        ['i32', tokens.map((_, i) => (i < 3 ? 3 : i === 3 ? 2 : i < 260 ? 6 : 1))],
      ],
      'tokenizer.ggml.bos_token_id': ['u32', 2],
      'tokenizer.ggml.eos_token_id': ['u32', 1],
      'tokenizer.ggml.unknown_token_id': ['u32', 3],
      'tokenizer.ggml.add_space_prefix': ['bool', false],
    },
    tokens.length,
  );
  const { tokenizer } = await openGguf(openBytes(file), file.subarray(0, 64));
  assert.equal(tokenizer?.tokens.length, 262144);
  assert.deepEqual(tokenizer?.tokens[260].bytes, new TextEncoder().encode(' 0'));
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(file), { contextTokens: 16 });
  assert.deepEqual(await model.tokenize('1'), [2, 261]);
  assert.equal(await model.detokenize(await model.tokenize('a bc 漢')), 'a bc 漢');
  await engine.close();
});
