// Small checkpoints in the formats of other programs, with random weights.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bf16FromNumber, f16FromNumber } from '../../js/format/bq4/half.js';
import { tensorTable } from '../../js/format/bq4/names.js';
import { random } from './fixture.mjs';

export const CONFIG = {
  arch: 'llama',
  layers: 2,
  hidden: 24,
  heads: 4,
  kv_heads: 2,
  ffn: 40,
  vocab: 52,
  context: 32,
  norm_eps: 1e-5,
  tied: true,
};

/** Random weights by bq4's names. @param {Record<string, any>} [config] @param {{ biases?: boolean, seed?: number }} [options] */
export function randomWeights(config = CONFIG, { biases = false, seed = 1 } = {}) {
  const next = random(seed);
  const slots = tensorTable(config).filter((slot) => slot.required || (biases && slot.name.endsWith('.bias')));
  return new Map(
    slots.map(({ name, dims }) => {
      const n = dims.reduce((a, b) => a * b, 1);
      return [
        name,
        {
          dims,
          values: Float32Array.from({ length: n }, () => (/ln.*weight$/.test(name) ? 1 + 0.2 * next() : 0.4 * next())),
        },
      ];
    }),
  );
}

/** @param {Float32Array[]} list */
const join32 = (list) =>
  Buffer.concat(list.map((values) => Buffer.from(values.buffer, values.byteOffset, values.byteLength)));

/** llama2.c checkpoint, legacy or version 1. @param {Map<string, { values: Float32Array }>} weights @param {'legacy' | 'v1'} variant */
export function llama2c(weights, variant, config = CONFIG) {
  const { hidden, ffn, layers, heads, kv_heads, vocab, context, tied } = config;
  const stacked = (/** @type {string} */ name) =>
    Array.from({ length: layers }, (_, n) => weights.get(`h.${n}.${name}.weight`).values);
  const single = (/** @type {string} */ name) => [weights.get(`${name}.weight`).values];
  const matrices = ['attn.q', 'attn.k', 'attn.v', 'attn.o'].flatMap(stacked);
  const mlp = ['mlp.gate', 'mlp.down', 'mlp.up'].flatMap(stacked);
  const head = tied ? [] : single('lm_head');
  if (variant === 'legacy') {
    const header = Buffer.from(
      Int32Array.of(hidden, ffn, layers, heads, kv_heads, tied ? vocab : -vocab, context).buffer,
    );
    const rope = new Float32Array(context * (hidden / heads)).fill(7);
    return Buffer.concat([
      header,
      join32([
        ...single('wte'),
        ...stacked('ln1'),
        ...matrices,
        ...stacked('ln2'),
        ...mlp,
        ...single('ln_f'),
        rope,
        ...head,
      ]),
    ]);
  }
  const header = Buffer.alloc(256);
  [0x616b3432, 1, hidden, ffn, layers, heads, kv_heads, vocab, context].forEach((v, i) =>
    header.writeInt32LE(v, 4 * i),
  );
  header[36] = Number(tied);
  return Buffer.concat([
    header,
    join32([...stacked('ln1'), ...stacked('ln2'), ...single('ln_f'), ...single('wte'), ...matrices, ...mlp, ...head]),
  ]);
}

/** A tokenizer.bin of llama2.c with invented tokens. @param {number} vocab  number of tokens */
export function tokenizerBin(vocab) {
  const texts = ['<unk>', '\n<s>\n', '\n</s>\n', '<0x0A>', ...Array.from({ length: vocab - 4 }, (_, i) => ` w${i}`)];
  const parts = [Buffer.from(Uint32Array.of(8).buffer)];
  texts.forEach((text, i) => {
    const head = Buffer.alloc(8);
    head.writeFloatLE(-1 - i, 0);
    head.writeUInt32LE(text.length, 4);
    parts.push(head, Buffer.from(text));
  });
  return Buffer.concat(parts);
}

const HF_NAMES = {
  ln1: 'input_layernorm',
  'attn.q': 'self_attn.q_proj',
  'attn.k': 'self_attn.k_proj',
  'attn.v': 'self_attn.v_proj',
  'attn.o': 'self_attn.o_proj',
  ln2: 'post_attention_layernorm',
  'mlp.gate': 'mlp.gate_proj',
  'mlp.up': 'mlp.up_proj',
  'mlp.down': 'mlp.down_proj',
};

/** Hugging Face's name of a tensor. @param {string} name  bq4's name */
export function hfName(name) {
  const match = /^h\.(\d+)\.(.+)\.(weight|bias)$/.exec(name);
  if (match) return `model.layers.${match[1]}.${HF_NAMES[match[2]]}.${match[3]}`;
  return name.replace(/^wte/, 'model.embed_tokens').replace(/^ln_f/, 'model.norm');
}

/** @param {Float32Array} values @param {string} dtype */
function bytesAs(values, dtype) {
  if (dtype === 'F32') return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  if (dtype === 'F64') return Buffer.from(Float64Array.from(values).buffer);
  return Buffer.from(Uint16Array.from(values, dtype === 'F16' ? f16FromNumber : bf16FromNumber).buffer);
}

/** A safetensors file. @param {Iterable<[string, { dims: number[], values: Float32Array }]>} tensors @param {string} [dtype] */
export function safetensors(tensors, dtype = 'F32') {
  /** @type {Record<string, any>} */
  const header = { __metadata__: { format: 'pt' } };
  const parts = [];
  let at = 0;
  for (const [name, { dims, values }] of tensors) {
    const bytes = bytesAs(values, dtype);
    header[name] = { dtype, shape: dims, data_offsets: [at, (at += bytes.length)] };
    parts.push(bytes);
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, ...parts]);
}

/** config.json. @param {Record<string, any>} [config] */
export const hfConfig = (config = CONFIG) => ({
  model_type: 'llama',
  hidden_size: config.hidden,
  num_hidden_layers: config.layers,
  num_attention_heads: config.heads,
  num_key_value_heads: config.kv_heads,
  intermediate_size: config.ffn,
  vocab_size: config.vocab,
  max_position_embeddings: config.context,
  rms_norm_eps: config.norm_eps,
  rope_theta: 10000,
  tie_word_embeddings: config.tied,
  hidden_act: 'silu',
});

/** Writes a folder in Hugging Face's layout. @param {string} folder @param {Map<string, { dims: number[], values: Float32Array }>} weights @param {{ config?: object, dtype?: string }} [options] */
export function hfFolder(folder, weights, { config = hfConfig(), dtype } = {}) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeFileSync(
    join(folder, 'model.safetensors'),
    safetensors(
      [...weights].map(([name, tensor]) => [hfName(name), tensor]),
      dtype,
    ),
  );
  return folder;
}
