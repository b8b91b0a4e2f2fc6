// Metadata of GGUF files that is of another kind than it should be, or of another length: a typed error or a plan, never a crash; and what is large.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { convertGguf } from '../../bin/convert-gguf.js';
import { encodeConfig } from '../../js/convert/config.js';
import { encodeTokenizer } from '../../js/convert/tokenizers/section.js';
import { openGguf } from '../../js/gguf/open.js';
import { openBytes } from '../../js/sources/bytes.js';
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

test('a prefix of several MiB: a long card beside a small model', async () => {
  const bytes = gguf({ ...llamaMetadata(config), ...bytesTokenizer(config.vocab) }, tensors);
  const card = join(fresh(), 'card.md');
  const next = random(3);
  writeFileSync(card, Array.from({ length: 5 << 20 }, () => 'abc '[Math.floor(2 * (next() + 1))]).join(''));
  const { bytes: size } = await convertGguf(openBytes(bytes), join(fresh(), 'out.bq4'), { card });
  assert.ok(size > 5 << 20);
});
