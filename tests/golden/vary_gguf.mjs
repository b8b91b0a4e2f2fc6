#!/usr/bin/env node
// `node tests/golden/vary_gguf.mjs PROGRAM [NAME…]`: computes the GGUF files of tests/golden/gguf, and variants of each with one metadata key
// or one kind of tensor changed, with bq4 and with llama.cpp (PROGRAM is built from llama_values.c). Prints the variants whose values differ,
// and those that only one of the two accepts; ends with 1 if any differ. llama.cpp's GELU is rounded to f16, so the tolerance of a variant is
// three times the difference of its unchanged file. Explained differences: llama.cpp computes the erf GELU of BERT, NeoX, Falcon and
// nomic-embed-text by tanh, BitNet always with SiLU, EXAONE 4 with windows in models of 64 layers only, and Phi-3 and StarCoder 2 without windows;
// it applies yarn_attn_factor, yarn_log_multiplier, yarn_beta_fast and yarn_beta_slow in some architectures only.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEngine, fromBytes } from '../../js/node.js';
import { random } from '../js/fixture.mjs';
import { gguf } from '../js/gguf-writer.mjs';
import { openLogits } from '../js/logits.mjs';
import { readGguf } from './gguf_file.mjs';

/** @import { Tensor, Value } from '../js/gguf-writer.mjs' */
/** @import { GgufFile } from './gguf_file.mjs' */
/** A change of a file: values by key, without the name of the architecture (null: no such key); tensors. @typedef {{ title: string, set?: Record<string, Value | null>, drop?: (name: string) => boolean, add?: Tensor[] }} Change */

const TOLERANCE = 1.5e-3;
const GOLDEN = fileURLToPath(new URL('.', import.meta.url));
const [program, ...names] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'bq4-vary-'));
const path = (/** @type {string} */ name) => join(folder, name);
const archOf = (/** @type {GgufFile} */ { metadata }) => metadata['general.architecture'][1];
const next = random(7);

/** @param {string} name @param {number} size @param {number} [around] @returns {Tensor} */
const vector = (name, size, around = 0) => ({
  name,
  dims: [size],
  type: 0,
  bytes: new Uint8Array(Float32Array.from({ length: size }, () => around + 0.3 * next()).buffer),
});

/** Values of keys that llama.cpp reads, or could be expected to read. @param {number} layers @returns {[string, ...Value[]][]} */
function valuesOf(layers) {
  const every = (/** @type {(layer: number) => boolean} */ is) => /** @type {Value} */ (['array', ['bool', Array.from({ length: layers }, (_, i) => is(i))]]);
  const scales = ['attention.scale', 'attention.output_scale', 'attention.temperature_scale', 'logit_scale', 'residual_scale', 'embedding_scale'];
  const caps = ['attn_logit_softcapping', 'final_logit_softcapping', 'router_logit_softcapping', 'attention.clamp_kqv', 'attention.max_alibi_bias'];
  const others = ['expert_weights_scale', 'expert_group_scale', 'activation_sparsity_scale', 'swiglu_clamp_exp'];
  return [
    ['rope.freq_base', ['f32', 300]],
    ['rope.freq_base_swa', ['f32', 50]],
    ['rope.dimension_count', ['u32', 4]],
    ['rope.dimension_sections', ['array', ['i32', [1, 1, 1, 0]]]],
    ['rope.scale_linear', ['f32', 2]],
    ['rope.scaling.factor', ['f32', 2], ['f32', 0]],
    ['rope.scaling.attn_factor', ['f32', 1.3]],
    ['rope.scaling.finetuned', ['bool', false], ['bool', true]],
    ['rope.scaling.alpha', ['f32', 1000]],
    ['rope.scaling.original_context_length', ['u32', 4]],
    ['attention.sliding_window', ['u32', 3], ['u32', 0]],
    ['attention.sliding_window_pattern', ['u32', 1], ['u32', 2], ['u32', 3], every((i) => i % 2 === 0), every(() => false)],
    ['attention.recurrent_layers', every((i) => i % 2 === 0), every(() => false)],
    ['attention.causal', ['bool', true], ['bool', false]],
    ['attention.layer_norm_epsilon', ['f32', 0.1]],
    ['attention.layer_norm_rms_epsilon', ['f32', 0.1]],
    ['attention.shared_kv_layers', ['u32', 1]],
    ['expert_weights_norm', ['bool', true], ['bool', false]],
    ['expert_gating_func', ['u32', 0], ['u32', 1], ['u32', 2]],
    ['expert_used_count', ['u32', 1], ['u32', 3]],
    ['expert_shared_count', ['u32', 0], ['u32', 2]],
    ['leading_dense_block_count', ['u32', 1]],
    ['moe_every_n_layers', ['u32', 1], ['u32', 3]],
    ['use_parallel_residual', ['bool', true], ['bool', false]],
    ['full_attention_interval', ['u32', 1], ['u32', 2]],
    ['pooling_type', ['u32', 0], ['u32', 1], ['u32', 2], ['u32', 3]],
    ['context_length', ['u32', 40], ['u32', 4096]],
    ['feed_forward_length', ['u32', 0]],
    ['hidden_activation', ['text', 'silu'], ['text', 'gelu'], ['text', 'relu2']],
    ['embedding_length_out', ['u32', 8]],
    ['decision.block_count', ['u32', 1]],
    .../** @type {[string, ...Value[]][]} */ ([...scales, ...caps, ...others].map((key) => [key, ['f32', 0.4], ['f32', 0], ['f32', 3]])),
  ];
}

/** Scaled positions. @returns {Record<string, Value>[]} */
function scalings() {
  const types = ['none', 'linear', 'yarn', 'longrope'];
  return types.flatMap((type) =>
    [1, 4].flatMap((factor) =>
      [undefined, 1.3].map((attention) => ({
        'rope.scaling.type': /** @type {Value} */ (['text', type]),
        'rope.scaling.factor': /** @type {Value} */ (['f32', factor]),
        'rope.scaling.original_context_length': /** @type {Value} */ (['u32', 16]),
        ...(attention && { 'rope.scaling.attn_factor': /** @type {Value} */ (['f32', attention]) }),
      })),
    ),
  );
}

/** Changes of tensors. @param {GgufFile} file @param {number} head  dimensions of a head @param {number} hidden @returns {Change[]} */
function tensorChanges({ metadata, tensors }, head, hidden) {
  const layers = metadata[`${archOf({ metadata, tensors })}.block_count`][1];
  const names = new Set(tensors.map(({ name }) => name));
  const shared = (/** @type {string} */ name) => name.replace(/^blk\.\d+\./, 'blk.#.');
  const all = (/** @type {string} */ name) => tensors.filter((tensor) => shared(tensor.name) === name);
  /** @type {Change[]} */
  const changes = [{ title: 'without output.weight', drop: (name) => name === 'output.weight' }];
  for (const name of new Set(tensors.map((tensor) => shared(tensor.name)))) {
    if (/\.bias$|norm|rope|scale/.test(name)) changes.push({ title: `without ${name}`, drop: (other) => shared(other) === name });
    const toBias = (/** @type {string} */ weight) => weight.replace(/weight$/, 'bias');
    const added = all(name).filter((tensor) => tensor.name !== toBias(tensor.name) && !names.has(toBias(tensor.name)));
    if (added.length) changes.push({ title: `with ${toBias(name)}`, add: added.map((tensor) => vector(toBias(tensor.name), tensor.dims[0])) });
  }
  for (const [name, size] of /** @type {[string, number][]} */ ([['attn_q_norm', head], ['attn_k_norm', head], ['post_attention_norm', hidden], ['ffn_norm', hidden]]))
    if (!names.has(`blk.${layers - 1}.${name}.weight`))
      changes.push({ title: `with ${name}`, add: Array.from({ length: layers }, (_, i) => vector(`blk.${i}.${name}.weight`, size, 1)) });
  if (!names.has('rope_freqs.weight')) changes.push({ title: 'with rope_freqs', add: [vector('rope_freqs.weight', head / 2, 2)] });
  return changes;
}

/** @param {GgufFile} file @returns {Change[]} */
function changesOf(file) {
  const get = (/** @type {string} */ key) => file.metadata[`${archOf(file)}.${key}`]?.[1];
  const hidden = get('embedding_length');
  const head = get('attention.key_length') ?? Math.floor(hidden / (get('attention.head_count') || 4));
  const keys = Object.keys(file.metadata).filter((key) => key.startsWith(`${archOf(file)}.`)).map((key) => key.slice(archOf(file).length + 1));
  return [
    { title: 'unchanged' },
    ...keys.map((key) => ({ title: `without ${key}`, set: { [key]: null } })),
    ...[...valuesOf(get('block_count')).flatMap(([key, ...values]) => values.map((value) => ({ [key]: value }))), ...scalings()].map((set) => ({ title: JSON.stringify(set), set })),
    ...tensorChanges(file, head, hidden),
  ];
}

/** @param {GgufFile} file @param {Change} change @returns {GgufFile} */
function applyChange(file, { set = {}, drop = () => false, add = [] }) {
  const metadata = { ...file.metadata };
  for (const [key, value] of Object.entries(set)) {
    if (value) metadata[`${archOf(file)}.${key}`] = value;
    else delete metadata[`${archOf(file)}.${key}`];
  }
  return { metadata, tensors: [...file.tensors.filter(({ name }) => !drop(name)), ...add] };
}

/** Changes a fixture so that llama.cpp accepts it: it reads the sizes of MLPs from the metadata, and norms of heads in Command R+ only. @param {GgufFile} file @returns {GgufFile} */
function adaptForLlama({ metadata, tensors }) {
  const arch = metadata['general.architecture'][1];
  const down = tensors.find(({ name }) => name === 'blk.0.ffn_down.weight');
  return {
    metadata: { ...metadata, ...(down && ['falcon', 'phi2', 'granitehybrid'].includes(arch) && { [`${arch}.feed_forward_length`]: /** @type {Value} */ (['u32', down.dims[1]]) }) },
    tensors: arch === 'command-r' ? tensors.filter(({ name }) => !/attn_[qk]_norm/.test(name)) : tensors,
  };
}

/** Values of llama.cpp; a text: why it refuses the file. @param {GgufFile} file @param {number[]} ids @param {boolean} isEncoder */
function llamaValues({ metadata, tensors }, ids, isEncoder) {
  const rows = (/** @type {string} */ name) => tensors.find((tensor) => tensor.name === name)?.dims[0] ?? 0;
  /** @type {Record<string, Value>} */
  const vocabulary = {
    'tokenizer.ggml.model': ['text', 'no_vocab'],
    'tokenizer.ggml.token_type_count': ['u32', rows('token_types.weight')],
    [`${metadata['general.architecture'][1]}.vocab_size`]: ['u32', rows('token_embd.weight')],
  };
  writeFileSync(path('model.gguf'), gguf({ ...metadata, ...vocabulary }, tensors));
  writeFileSync(path('tokens'), new Uint8Array(Int32Array.from(ids).buffer));
  const args = [isEncoder ? 'states' : 'logits', path('model.gguf'), path('tokens'), path('out')];
  const { status, stderr } = spawnSync(program, args, { encoding: 'utf8', env: { ...process.env, GGML_NO_BACKTRACE: '1' } });
  return status === 0 ? new Float32Array(Uint8Array.from(readFileSync(path('out'))).buffer) : stderr.trim().split('\n')[0];
}

const engine = await createEngine({ threads: 1 });
/** Values of bq4: all logits, or the first and the last state; a text: why it refuses the file. @param {GgufFile} file @param {number[]} ids @param {boolean} isEncoder */
async function bq4Values({ metadata, tensors }, ids, isEncoder) {
  const source = fromBytes(gguf(metadata, tensors));
  try {
    if (!isEncoder) {
      const model = await openLogits(source);
      const rows = ids.map((id, i) => (i ? model.next(id) : model.start([id])));
      model.close();
      return Float32Array.from(rows.flatMap((row) => [...row]));
    }
    const model = await engine.load(source);
    const states = [];
    for (const pooling of /** @type {const} */ (['cls', 'last'])) states.push(...(await model.embed([ids], { pooling, normalize: false })).vectors[0]);
    await model.close();
    return Float32Array.from(states);
  } catch (error) {
    if (error.name !== 'BqError') throw error;
    return `${error.code}: ${error.message}`;
  }
}

/** Largest difference of values, relative to values above 1. @param {Float32Array} a @param {Float32Array} b */
function differenceOf(a, b) {
  if (a.length !== b.length) return Infinity;
  const magnitude = b.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  return a.reduce((most, value, i) => (Math.abs(value - b[i]) <= most ? most : Math.abs(value - b[i])), 0) / magnitude;
}

const counts = { equal: 0, different: 0, 'refused by bq4': 0, 'refused by llama.cpp': 0, 'refused by both': 0 };
for (const entry of readdirSync(join(GOLDEN, 'gguf'))) {
  const name = entry.replace('.gguf', '');
  if (names.length && !names.includes(name)) continue;
  const file = adaptForLlama(readGguf(join(GOLDEN, 'gguf', entry)));
  const { ids } = JSON.parse(readFileSync(join(GOLDEN, 'fixtures', name, 'expected.json'), 'utf8'));
  const isEncoder = /bert|embedding/.test(archOf(file));
  let tolerance = TOLERANCE;
  for (const change of changesOf(file)) {
    const variant = applyChange(file, change);
    const [llama, bq4] = [llamaValues(variant, ids, isEncoder), await bq4Values(variant, ids, isEncoder)];
    const title = `${name} ${change.title}`;
    if (typeof llama === 'string' || typeof bq4 === 'string') {
      const by = typeof llama !== 'string' ? 'bq4' : typeof bq4 === 'string' ? 'both' : 'llama.cpp';
      counts[`refused by ${by}`] += 1;
      if (by !== 'both') console.log(`refused by ${by}: ${title}: ${typeof llama === 'string' ? llama : bq4}`);
      if (change.title === 'unchanged') break;
      continue;
    }
    const size = bq4.length / 2;
    const difference = differenceOf(bq4, isEncoder ? Float32Array.from([...llama.subarray(0, size), ...llama.subarray(-size)]) : llama);
    if (change.title === 'unchanged') tolerance = Math.max(tolerance, 3 * difference);
    if (difference < tolerance) counts.equal += 1;
    else counts.different += 1;
    if (!(difference < tolerance)) console.log(`DIFFERENT ${title}: by ${difference}`);
  }
}
console.log(counts);
await engine.close();
rmSync(folder, { recursive: true });
process.exitCode = Number(counts.different > 0);
