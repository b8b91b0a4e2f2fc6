#!/usr/bin/env node
// Makes models with random weights in the shapes of well-known ones, for measuring speed, memory and loading. The same shape,
// types and seed give the same bytes.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { familyOf } from '../js/format/families/index.js';
import { createCodec } from '../js/format/bq4/codec.js';
import { f16FromNumber } from '../js/format/bq4/half.js';
import { tensorTable } from '../js/format/bq4/names.js';
import { fileSink } from '../js/format/output.js';
import { encodeTokenizer, FLAG, KIND, NONE, TOKEN } from '../js/text/tokenizers/section.js';
import { ROWS, runLayout, typeNamed, weightBytes } from '../js/format/bq4/weight-types.js';
import { matrixOf, writeV2 } from '../js/format/bq4/write-v2.js';
import { command } from './setup/setup.mjs';
import { SetupError } from './setup/shell.mjs';

/** @typedef {import('../js/format/bq4/weight-types.js').WeightType} WeightType */

const llama = { arch: 'llama', norm_eps: 1e-5, tied: true };

/** Returns the configuration of a config.json, whose keys with defaults may be missing. @param {Record<string, any>} json */
function configOf(json) {
  const { family, hf } = familyOf(json);
  return { arch: family.arch, ...family.config(hf) };
}

/**
 * Configurations. `15m` has the shape of stories15M, `135m` of SmolLM-135M, `500m` of Qwen2-0.5B, `gemma4-e2b` of Gemma 4 E2B,
 * `lfm2-350m`, `qwen35-800m`, `granite-h-350m` and `embedding-gemma` of LFM2-350M, Qwen3.5-0.8B, Granite 4.0 H 350M and EmbeddingGemma.
 * The tiny ones have sizes that are no multiples of vectors and tiles.
 * @type {Record<string, Record<string, any>>}
 */
export const SHAPES = {
  '15m': { ...llama, hidden: 288, layers: 6, heads: 6, ffn: 768, vocab: 32000, context: 256, rope_pairs: 'adjacent' },
  '135m': { ...llama, hidden: 576, layers: 30, heads: 9, kv_heads: 3, ffn: 1536, vocab: 49152, context: 2048 },
  '500m': {
    ...llama,
    hidden: 896,
    layers: 24,
    heads: 14,
    kv_heads: 2,
    ffn: 4864,
    vocab: 151936,
    context: 2048,
    rope_theta: 1e6,
  },
  'gemma4-e2b': {
    arch: 'gemma4',
    layers: 35,
    hidden: 1536,
    heads: 8,
    kv_heads: 1,
    head_dim: 256,
    ffn: 6144,
    vocab: 262144,
    context: 131072,
    rope_theta: 1e6,
    rope_dim: 256,
    rope_pairs: 'half',
    window: 512,
    global_every: 5,
    norm_place: 'around',
    qk_norm: 'heads',
    attn_scale: 1,
    value_norm: true,
    layer_scale: true,
    norm: 'rms',
    norm_eps: 1e-6,
    activation: 'gelu',
    gated: true,
    tied: true,
    embed_scale: Math.sqrt(1536),
    local_theta: 10000,
    logit_softcap: 30,
    global_head_dim: 512,
    shared_kv: 20,
    shared_kv_ffn: 12288,
    layer_embed: 256,
  },
  'lfm2-350m': configOf({
    model_type: 'lfm2',
    hidden_size: 1024,
    num_hidden_layers: 16,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    block_ff_dim: 6656,
    conv_L_cache: 3,
    full_attn_idxs: [2, 5, 8, 10, 12, 14],
    vocab_size: 65536,
    max_position_embeddings: 128000,
    tie_embedding: true,
  }),
  'qwen35-800m': configOf({
    model_type: 'qwen3_5_text',
    hidden_size: 1024,
    num_hidden_layers: 24,
    num_attention_heads: 8,
    num_key_value_heads: 2,
    intermediate_size: 3584,
    linear_num_value_heads: 16,
    vocab_size: 248320,
    max_position_embeddings: 262144,
    tie_word_embeddings: true,
  }),
  'granite-h-350m': configOf({
    model_type: 'granitemoehybrid',
    hidden_size: 768,
    num_hidden_layers: 32,
    num_attention_heads: 12,
    num_key_value_heads: 4,
    intermediate_size: 2048,
    shared_intermediate_size: 2048,
    num_local_experts: 0,
    layer_types: Array.from({ length: 32 }, (_, layer) => ([10, 13, 17, 27].includes(layer) ? 'attention' : 'mamba')),
    mamba_n_heads: 48,
    mamba_d_head: 32,
    mamba_d_state: 128,
    mamba_n_groups: 1,
    mamba_expand: 2,
    position_embedding_type: 'nope',
    vocab_size: 100352,
    max_position_embeddings: 32768,
    tie_word_embeddings: true,
  }),
  'embedding-gemma': configOf({
    model_type: 'gemma3_text',
    hidden_size: 768,
    num_hidden_layers: 24,
    num_attention_heads: 3,
    num_key_value_heads: 1,
    head_dim: 256,
    intermediate_size: 1152,
    sliding_window: 512,
    use_bidirectional_attention: true,
    vocab_size: 262144,
    max_position_embeddings: 2048,
  }),
  'tiny-llama': {
    ...llama,
    hidden: 48,
    layers: 2,
    heads: 6,
    kv_heads: 3,
    ffn: 72,
    vocab: 300,
    context: 64,
    tied: false,
  },
  'tiny-bullet': {
    arch: 'bullet',
    hidden: 40,
    layers: 2,
    heads: 4,
    ffn: 88,
    vocab: 300,
    context: 48,
    norm_eps: 1e-5,
    tied: false,
  },
};

/** Number of weights in a piece. Larger tensors are generated and written in several pieces. */
const PIECE_WEIGHTS = 1 << 20;

/** Random number generator (xorshift32; its state is a mix of seed and stream). Each tensor has its own stream. */
class Random {
  #state;
  /** @param {number} seed @param {number} stream */
  constructor(seed, stream) {
    let x = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(stream + 1, 0xc2b2ae35);
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
    this.#state = (x ^ (x >>> 15)) | 1;
  }

  /** Returns 32 random bits as an unsigned integer. */
  bits() {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (this.#state = x) >>> 0;
  }

  /** Returns a number uniformly distributed in [-1, 1). */
  unit() {
    return this.bits() / 2 ** 31 - 1;
  }
}

/** For each byte, the byte whose nibbles 0 (weight -8) are replaced by 8 (weight 0), so that the mean of weights is 0. */
const NIBBLES = Uint8Array.from({ length: 256 }, (_, b) => (b & 15 || 8) | ((b >> 4 || 8) << 4));

/**
 * Returns tiles of a quantized type as bytes, with uniformly distributed weights of the given standard deviation.
 * @param {WeightType} type @param {Random} random @param {number} tileCount @param {number} deviation
 */
function randomTiles(type, random, tileCount, deviation) {
  const is8Bit = type.name === 'bq8_32';
  const hasF16Scales = is8Bit || type.name === 'bq4h_32';
  const scaleBytes = hasF16Scales ? 2 : 4;
  const scalesPerTile = (8 * type.step) / type.block;
  const bytes = new Uint8Array(tileCount * type.tileBytes);
  const view = new DataView(bytes.buffer);
  const words = new Uint32Array(bytes.buffer);
  // A uniformly distributed integer in ±n has a standard deviation of about n / √3.
  const meanScale = (deviation * Math.sqrt(3)) / (is8Bit ? 127 : 7.5);
  for (let tile = 0; tile < tileCount; tile++) {
    const tileOffset = tile * type.tileBytes;
    for (let i = 0; i < scalesPerTile; i++) {
      const scale = meanScale * (1 + 0.25 * random.unit());
      if (hasF16Scales) view.setUint16(tileOffset + 2 * i, f16FromNumber(scale), true);
      else view.setFloat32(tileOffset + 4 * i, scale, true);
    }
    const weightOffset = tileOffset + scalesPerTile * scaleBytes;
    for (let w = weightOffset / 4; w < (tileOffset + type.tileBytes) / 4; w++) words[w] = random.bits();
    if (!is8Bit) for (let i = weightOffset; i < tileOffset + type.tileBytes; i++) bytes[i] = NIBBLES[bytes[i]];
  }
  return bytes;
}

/** Returns uniformly distributed numbers. @param {Random} random @param {number} count @param {number} mean @param {number} deviation */
function randomFloats(random, count, mean, deviation) {
  const width = deviation * Math.sqrt(3);
  return Float32Array.from({ length: count }, () => mean + width * random.unit());
}

/**
 * Yields a tensor with random weights, in pieces of whole rows.
 * @param {import('../js/format/bq4/names.js').Slot} slot
 * @param {WeightType} type
 * @param {Random} random
 * @param {import('../js/format/bq4/codec.js').Codec} codec
 */
async function* randomPieces({ name, dims }, type, random, codec) {
  const { rows, cols } = matrixOf(dims);
  const isVector = dims.length === 1;
  const layout = isVector ? ROWS : runLayout(type);
  const mean = /ln.*\.weight$/.test(name) ? 1 : 0;
  // Hidden states stay near 1. Embeddings are smaller; otherwise a tied LM head would only predict the last token again.
  const deviation = isVector ? 0.05 : (/^w[tp]e/.test(name) ? 2 : 1) / Math.sqrt(cols);
  const fillsTiles = type.step > 0 && rows % 8 === 0 && cols % type.step === 0;
  const rowsPerPiece = Math.max(8, Math.floor(PIECE_WEIGHTS / cols / 8) * 8);
  for (let row = 0; row < rows; row += rowsPerPiece) {
    const rowCount = Math.min(rowsPerPiece, rows - row);
    yield fillsTiles
      ? randomTiles(type, random, weightBytes(type, layout, rowCount, cols) / type.tileBytes, deviation)
      : codec.quantize(type, layout, randomFloats(random, rowCount * cols, mean, deviation), rowCount, cols);
  }
}

/** Returns a tokenizer of invented words with byte fallback, which accepts any text. @param {number} vocab */
export function randomTokenizer(vocab) {
  const encode = (/** @type {string} */ text) => new TextEncoder().encode(text);
  const fixedTokens = [
    { bytes: encode('<unk>'), score: 0, kind: TOKEN.unknown },
    { bytes: encode('<s>'), score: 0, kind: TOKEN.control },
    { bytes: encode('</s>'), score: 0, kind: TOKEN.control },
    ...Array.from({ length: 256 }, (_, b) => ({ bytes: Uint8Array.of(b), score: 0, kind: TOKEN.byte })),
  ];
  const words = Array.from({ length: Math.max(0, vocab - fixedTokens.length) }, (_, i) => ({
    bytes: encode(` w${i.toString(36)}`),
    score: -i,
    kind: TOKEN.normal,
  }));
  return encodeTokenizer({
    kind: KIND.spm,
    flags: FLAG.addBos | FLAG.addSpace | FLAG.byteFallback,
    bos: 1,
    eos: 2,
    unk: 0,
    pad: NONE,
    eog: [2],
    tokens: [...fixedTokens, ...words].slice(0, vocab),
    merges: [],
  });
}

/**
 * @typedef {object} RandomOptions
 * @property {string} [quant]  type of the matrices; default bq4
 * @property {string} [embed]  type of embedding and LM head; default: bq8 if matrices are quantized, otherwise that of `quant`
 * @property {number} [seed]   default 1
 * @property {boolean} [tokenizer]  default true
 * @property {boolean} [biases]  whether all optional biases exist; default: only for the architecture `bullet`
 */

/**
 * Writes a model file with random weights.
 * @param {Record<string, any>} config  a row of SHAPES
 * @param {import('../js/format/output.js').Sink} sink
 * @param {RandomOptions} [options]
 */
export async function makeRandom(config, sink, options = {}) {
  const { quant = 'bq4', seed = 1, tokenizer = true, biases = config.arch === 'bullet' } = options;
  const matrixType = typeNamed(quant);
  const embeddingType = typeNamed(options.embed ?? (matrixType.block > 1 ? 'bq8' : quant));
  const vectorType = typeNamed('f32');
  const slots = tensorTable(config).filter((slot) => slot.required || biases);
  const codec = await createCodec(4 * Math.max(PIECE_WEIGHTS, ...slots.map(({ dims }) => 8 * matrixOf(dims).cols)));
  const tensors = slots.map((slot, i) => {
    const type = slot.dims.length === 1 ? vectorType : slot.embedding ? embeddingType : matrixType;
    const layout = slot.dims.length === 1 ? ROWS : runLayout(type);
    return {
      name: slot.name,
      dims: slot.dims,
      type,
      layout,
      pieces: () => randomPieces(slot, type, new Random(seed, i), codec),
    };
  });
  const idRandom = new Random(seed, -2);
  return writeV2(
    sink,
    {
      config,
      tensors,
      name: 'random weights',
      license: 'CC0-1.0',
      tokenizer: tokenizer ? randomTokenizer(config.vocab) : null,
    },
    { hash: (bytes) => codec.hash(bytes), fileId: Uint8Array.from({ length: 16 }, () => idRandom.bits()) },
  );
}

const HELP = `node tools/make_random.mjs SHAPE OUT.bq4 [--quant TYPE] [--embed TYPE] [--seed N] [--context N] [--biases] [--no-tokenizer]

SHAPE: one of ${Object.keys(SHAPES).join(', ')}. TYPE: bq4 (the default), bq4h, bq8, bq4_16, bq4_64, f32, f16, bf16.
`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await command(async () => {
    let commandLine;
    try {
      commandLine = parseArgs({
        allowPositionals: true,
        options: {
          quant: { type: 'string' },
          embed: { type: 'string' },
          seed: { type: 'string' },
          context: { type: 'string' },
          biases: { type: 'boolean' },
          'no-tokenizer': { type: 'boolean' },
          help: { type: 'boolean' },
        },
      });
    } catch (error) {
      throw new SetupError(`${/** @type {Error} */ (error).message}\n\n${HELP}`);
    }
    const {
      values,
      positionals: [shape, output],
    } = commandLine;
    if (values.help) return void process.stdout.write(HELP);
    if (!output || !Object.hasOwn(SHAPES, shape))
      throw new SetupError(`expected SHAPE and OUT.bq4, found "${commandLine.positionals.join(' ')}"\n\n${HELP}`);
    const config = { ...SHAPES[shape], ...(values.context && { context: Number(values.context) }) };
    const { bytes } = await makeRandom(config, await fileSink(output), {
      quant: values.quant,
      embed: values.embed,
      seed: Number(values.seed ?? 1),
      biases: values.biases,
      tokenizer: !values['no-tokenizer'],
    });
    console.log(`${output}: ${bytes} bytes`);
  });
}
