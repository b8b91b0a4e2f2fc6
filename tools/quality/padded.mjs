#!/usr/bin/env node
// Converts a LLaMA checkpoint to a GGUF file in f32 that llama.cpp can quantize to K types. These have blocks of 256 weights of a row, so
// the inner size of the MLP is padded with zeros to a multiple of 256. Zeros add nothing, so the results are bit-identical.
//   node tools/quality/padded.mjs FOLDER OUT.gguf      FOLDER: config.json, safetensors, tokenizer.json (byte-level BPE, words as GPT-2 has them)
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openCheckpoint } from '../../js/convert/checkpoint.js';
import { readJson } from '../../js/convert/folder.js';
import { BqError } from '../../js/shared/errors.js';
import { gguf, ggufTensor, llamaMetadata } from '../../tests/js/gguf-writer.mjs';

/** Weights of a block. */
const BLOCK = 256;
/** Types of tokens in GGUF. */
const [NORMAL, CONTROL] = [1, 3];

/** @param {string} what */
const unsupported = (what) => new BqError('UNSUPPORTED', `${what} can't be written as such a GGUF file`);

/** @param {Float32Array} values @param {number[]} dims @param {number[]} to  at least as large */
function filled(values, dims, to) {
  const [cols, wide] = [dims, to].map((each) => each.at(-1) ?? 1);
  const out = new Float32Array(to.reduce((a, b) => a * b, 1));
  for (let at = 0, row = 0; at < values.length; at += cols, row += wide) out.set(values.subarray(at, at + cols), row);
  return out;
}

/** Rows of q or k in GGUF's order: what rotates together lies side by side, not half a head apart. @param {Float32Array} values @param {number} cols @param {number} width  of a head */
function sideBySide(values, cols, width) {
  const out = new Float32Array(values.length);
  for (let row = 0; row < values.length / cols; row++) {
    const at = row % width;
    const from = row - at + (at >> 1) + (at & 1 ? width / 2 : 0);
    out.set(values.subarray(from * cols, (from + 1) * cols), row * cols);
  }
  return out;
}

/** @param {any} json  tokenizer.json @param {number} count  of tokens @param {number} end @returns {Record<string, import('../../tests/js/gguf-writer.mjs').Value>} */
function tokenizerMetadata({ model, pre_tokenizer: words, added_tokens: added = [] }, count, end) {
  if (model?.type !== 'BPE' || words?.type !== 'ByteLevel') throw unsupported('a tokenizer other than byte-level BPE');
  /** @type {string[]} */
  const tokens = [];
  for (const [text, id] of Object.entries(model.vocab)) tokens[id] = text;
  const types = Array.from({ length: count }, () => NORMAL);
  for (const { id, content } of added) [tokens[id], types[id]] = [content, CONTROL];
  if (tokens.length !== count || tokens.includes(/** @type {any} */ (undefined)))
    throw unsupported(`a vocabulary of ${tokens.length} tokens for ${count} rows`);
  const merges = model.merges.map((/** @type {string | string[]} */ each) => [each].flat().join(' '));
  return {
    'tokenizer.ggml.model': ['text', 'gpt2'],
    'tokenizer.ggml.pre': ['text', 'gpt-2'],
    'tokenizer.ggml.tokens': ['array', ['text', tokens]],
    'tokenizer.ggml.token_type': ['array', ['i32', types]],
    'tokenizer.ggml.merges': ['array', ['text', merges]],
    'tokenizer.ggml.bos_token_id': ['u32', end],
    'tokenizer.ggml.eos_token_id': ['u32', end],
    'tokenizer.ggml.add_bos_token': ['bool', false],
  };
}

/** @param {string} folder @param {string} out @param {number} [block]  what rows are a multiple of */
export async function writePadded(folder, out, block = BLOCK) {
  const checkpoint = await openCheckpoint(folder);
  try {
    const { config, tensors, ends, name } = checkpoint;
    const { arch, activation, hidden, heads, vocab, rope_theta: theta = 1e4 } = config;
    const width = hidden / heads;
    const plain = arch === 'llama' && activation === 'silu' && config.rope_pairs !== 'adjacent';
    if (!plain || (config.head_dim ?? width) !== width || tensors.has('rope.factors'))
      throw unsupported(`${folder}, which is not LLaMA’s architecture as Hugging Face has it,`);
    if (hidden % block) throw unsupported(`a model of ${hidden} values a token, no multiple of ${block},`);
    const ffn = Math.ceil(config.ffn / block) * block;
    const json = checkpoint.folder && (await readJson(checkpoint.folder, 'tokenizer.json'));
    const written = [];
    for (const [tensor, { dims, read }] of tensors) {
      const values = await read(0, dims.length > 1 ? dims[0] : 1);
      const rotated = /\.attn\.[qk]\.weight$/.test(tensor);
      const inner = /\.mlp\.(gate|up|down)\.weight$/.exec(tensor)?.[1];
      const to = inner === 'down' ? [hidden, ffn] : inner ? [ffn, hidden] : dims;
      const ordered = rotated ? sideBySide(values, hidden, width) : values;
      written.push(ggufTensor(tensor, { dims: to, values: filled(ordered, dims, to) }, 'f32'));
    }
    const { 'general.license': _, ...sizes } = llamaMetadata({ ...config, ffn });
    const metadata = {
      ...sizes,
      'general.name': /** @type {[string, string]} */ (['text', name]),
      'llama.rope.freq_base': /** @type {[string, number]} */ (['f32', theta]),
      'llama.vocab_size': /** @type {[string, number]} */ (['u32', vocab]),
      ...tokenizerMetadata(json ?? {}, vocab, ends[0] ?? 0),
    };
    writeFileSync(out, gguf(metadata, written));
  } finally {
    await checkpoint.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writePadded(process.argv[2], process.argv[3]);
