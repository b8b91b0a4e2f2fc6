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

/** Number of weights of a block. */
const BLOCK_WEIGHTS = 256;
/** Types of tokens in GGUF. */
const [NORMAL_TOKEN, CONTROL_TOKEN] = [1, 3];

/** Returns an error. @param {string} expected @param {string} found */
const unsupported = (expected, found) => new BqError('UNSUPPORTED', `expected ${expected}, found ${found}`);

/** Returns a tensor padded with zeros to larger dimensions. @param {Float32Array} values @param {number[]} dims @param {number[]} paddedDims */
function padTensor(values, dims, paddedDims) {
  const [cols, paddedCols] = [dims, paddedDims].map((sizes) => sizes.at(-1) ?? 1);
  const out = new Float32Array(paddedDims.reduce((a, b) => a * b, 1));
  for (let from = 0, to = 0; from < values.length; from += cols, to += paddedCols)
    out.set(values.subarray(from, from + cols), to);
  return out;
}

/**
 * Returns the rows of q or k in the order of GGUF: the two rows of a rotated pair are adjacent. In the checkpoint they are half a head apart.
 * @param {Float32Array} values @param {number} cols @param {number} headSize
 */
function interleaveHalves(values, cols, headSize) {
  const out = new Float32Array(values.length);
  for (let row = 0; row < values.length / cols; row++) {
    const index = row % headSize;
    const from = row - index + (index >> 1) + (index & 1 ? headSize / 2 : 0);
    out.set(values.subarray(from * cols, (from + 1) * cols), row * cols);
  }
  return out;
}

/** Returns the metadata of a tokenizer. @param {any} json  tokenizer.json @param {number} vocabSize @param {number} endToken @returns {Record<string, import('../../tests/js/gguf-writer.mjs').Value>} */
function tokenizerMetadata(
  { model, pre_tokenizer: preTokenizer, added_tokens: addedTokens = [] },
  vocabSize,
  endToken,
) {
  if (model?.type !== 'BPE' || preTokenizer?.type !== 'ByteLevel')
    throw unsupported('a tokenizer with byte-level BPE', `${model?.type}, ${preTokenizer?.type}`);
  /** @type {string[]} */
  const tokens = [];
  for (const [text, id] of Object.entries(model.vocab)) tokens[id] = text;
  const types = Array.from({ length: vocabSize }, () => NORMAL_TOKEN);
  for (const { id, content } of addedTokens) [tokens[id], types[id]] = [content, CONTROL_TOKEN];
  if (tokens.length !== vocabSize || tokens.includes(/** @type {any} */ (undefined)))
    throw unsupported(`a tokenizer with ${vocabSize} tokens`, `${tokens.length} tokens or gaps between them`);
  const merges = model.merges.map((/** @type {string | string[]} */ merge) => [merge].flat().join(' '));
  return {
    'tokenizer.ggml.model': ['text', 'gpt2'],
    'tokenizer.ggml.pre': ['text', 'gpt-2'],
    'tokenizer.ggml.tokens': ['array', ['text', tokens]],
    'tokenizer.ggml.token_type': ['array', ['i32', types]],
    'tokenizer.ggml.merges': ['array', ['text', merges]],
    'tokenizer.ggml.bos_token_id': ['u32', endToken],
    'tokenizer.ggml.eos_token_id': ['u32', endToken],
    'tokenizer.ggml.add_bos_token': ['bool', false],
  };
}

/** Writes the GGUF file. @param {string} folder  checkpoint @param {string} outputPath @param {number} [block]  rows get a multiple of this many weights */
export async function writePadded(folder, outputPath, block = BLOCK_WEIGHTS) {
  const checkpoint = await openCheckpoint(folder);
  try {
    const { config, tensors, ends, name } = checkpoint;
    const { arch, activation, hidden, heads, vocab, rope_theta: theta = 1e4 } = config;
    const headSize = hidden / heads;
    const isSupported = arch === 'llama' && activation === 'silu' && config.rope_pairs !== 'adjacent';
    if (!isSupported || (config.head_dim ?? headSize) !== headSize || tensors.has('rope.factors'))
      throw unsupported('a LLaMA checkpoint of Hugging Face without scaled RoPE', `another architecture in ${folder}`);
    if (hidden % block) throw unsupported(`a hidden size that is a multiple of ${block}`, String(hidden));
    const ffn = Math.ceil(config.ffn / block) * block;
    const json = checkpoint.folder && (await readJson(checkpoint.folder, 'tokenizer.json'));
    const tensorsOfFile = [];
    for (const [tensor, { dims, read }] of tensors) {
      const values = await read(0, dims.length > 1 ? dims[0] : 1);
      const isRotated = /\.attn\.[qk]\.weight$/.test(tensor);
      const mlpMatrix = /\.mlp\.(gate|up|down)\.weight$/.exec(tensor)?.[1];
      const paddedDims = mlpMatrix === 'down' ? [hidden, ffn] : mlpMatrix ? [ffn, hidden] : dims;
      const orderedValues = isRotated ? interleaveHalves(values, hidden, headSize) : values;
      tensorsOfFile.push(
        ggufTensor(tensor, { dims: paddedDims, values: padTensor(orderedValues, dims, paddedDims) }, 'f32'),
      );
    }
    const { 'general.license': _, ...sizes } = llamaMetadata({ ...config, ffn });
    const metadata = {
      ...sizes,
      'general.name': /** @type {[string, string]} */ (['text', name]),
      'llama.rope.freq_base': /** @type {[string, number]} */ (['f32', theta]),
      'llama.vocab_size': /** @type {[string, number]} */ (['u32', vocab]),
      ...tokenizerMetadata(json ?? {}, vocab, ends[0] ?? 0),
    };
    writeFileSync(outputPath, gguf(metadata, tensorsOfFile));
  } finally {
    await checkpoint.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writePadded(process.argv[2], process.argv[3]);
