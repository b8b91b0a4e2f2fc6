#!/usr/bin/env node
// Makes models with random weights in the shapes of well-known ones, for measuring speed, memory and loading. The same shape,
// types and seed give the same bytes.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
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

/**
 * Configurations. `15m` has the shape of stories15M, `135m` of SmolLM-135M, `500m` of Qwen2-0.5B, `gemma4-e2b` of Gemma 4 E2B.
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

/** Number of weights per piece. Larger tensors are generated and written in several pieces. */
const PIECE = 1 << 20;

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
 * @param {WeightType} type @param {Random} random @param {number} tiles @param {number} deviation
 */
function randomTiles(type, random, tiles, deviation) {
  const eight = type.name === 'bq8_32';
  const half = eight || type.name === 'bq4h_32';
  const scaleBytes = half ? 2 : 4;
  const scales = (8 * type.step) / type.block;
  const out = new Uint8Array(tiles * type.tileBytes);
  const view = new DataView(out.buffer);
  const words = new Uint32Array(out.buffer);
  // A uniformly distributed integer in ±n has a standard deviation of about n / √3.
  const base = (deviation * Math.sqrt(3)) / (eight ? 127 : 7.5);
  for (let tile = 0; tile < tiles; tile++) {
    const at = tile * type.tileBytes;
    for (let i = 0; i < scales; i++) {
      const scale = base * (1 + 0.25 * random.unit());
      if (half) view.setUint16(at + 2 * i, f16FromNumber(scale), true);
      else view.setFloat32(at + 4 * i, scale, true);
    }
    const from = at + scales * scaleBytes;
    for (let w = from / 4; w < (at + type.tileBytes) / 4; w++) words[w] = random.bits();
    if (!eight) for (let i = from; i < at + type.tileBytes; i++) out[i] = NIBBLES[out[i]];
  }
  return out;
}

/** @param {Random} random @param {number} n @param {number} mean @param {number} deviation */
function randomFloats(random, n, mean, deviation) {
  const width = deviation * Math.sqrt(3);
  return Float32Array.from({ length: n }, () => mean + width * random.unit());
}

/**
 * @param {import('../js/format/bq4/names.js').Slot} slot
 * @param {WeightType} type
 * @param {Random} random
 * @param {import('../js/format/bq4/codec.js').Codec} codec
 */
async function* randomPieces({ name, dims }, type, random, codec) {
  const { rows, cols } = matrixOf(dims);
  const vector = dims.length === 1;
  const layout = vector ? ROWS : runLayout(type);
  const mean = /ln.*\.weight$/.test(name) ? 1 : 0;
  // Hidden states stay near 1. Embeddings are smaller; otherwise a tied LM head would only predict the last token again.
  const deviation = vector ? 0.05 : (/^w[tp]e/.test(name) ? 2 : 1) / Math.sqrt(cols);
  const whole = type.step > 0 && rows % 8 === 0 && cols % type.step === 0;
  const step = Math.max(8, Math.floor(PIECE / cols / 8) * 8);
  for (let row = 0; row < rows; row += step) {
    const n = Math.min(step, rows - row);
    yield whole
      ? randomTiles(type, random, weightBytes(type, layout, n, cols) / type.tileBytes, deviation)
      : codec.quantize(type, layout, randomFloats(random, n * cols, mean, deviation), n, cols);
  }
}

/** Returns a tokenizer of invented words with byte fallback, which accepts any text. @param {number} vocab */
export function randomTokenizer(vocab) {
  const text = (/** @type {string} */ s) => new TextEncoder().encode(s);
  const fixed = [
    { bytes: text('<unk>'), score: 0, kind: TOKEN.unknown },
    { bytes: text('<s>'), score: 0, kind: TOKEN.control },
    { bytes: text('</s>'), score: 0, kind: TOKEN.control },
    ...Array.from({ length: 256 }, (_, b) => ({ bytes: Uint8Array.of(b), score: 0, kind: TOKEN.byte })),
  ];
  const words = Array.from({ length: Math.max(0, vocab - fixed.length) }, (_, i) => ({
    bytes: text(` w${i.toString(36)}`),
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
    tokens: [...fixed, ...words].slice(0, vocab),
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
 * @param {Record<string, any>} config
 * @param {import('../js/format/output.js').Sink} sink
 * @param {RandomOptions} [options]
 */
export async function makeRandom(config, sink, options = {}) {
  const { quant = 'bq4', seed = 1, tokenizer = true, biases = config.arch === 'bullet' } = options;
  const matrix = typeNamed(quant);
  const embedding = typeNamed(options.embed ?? (matrix.block > 1 ? 'bq8' : quant));
  const vector = typeNamed('f32');
  const slots = tensorTable(config).filter((slot) => slot.required || biases);
  const codec = await createCodec(4 * Math.max(PIECE, ...slots.map(({ dims }) => 8 * matrixOf(dims).cols)));
  const tensors = slots.map((slot, i) => {
    const type = slot.dims.length === 1 ? vector : slot.embedding ? embedding : matrix;
    const layout = slot.dims.length === 1 ? ROWS : runLayout(type);
    return {
      name: slot.name,
      dims: slot.dims,
      type,
      layout,
      pieces: () => randomPieces(slot, type, new Random(seed, i), codec),
    };
  });
  const ids = new Random(seed, -2);
  return writeV2(
    sink,
    {
      config,
      tensors,
      name: 'random weights',
      license: 'CC0-1.0',
      tokenizer: tokenizer ? randomTokenizer(config.vocab) : null,
    },
    { hash: (bytes) => codec.hash(bytes), fileId: Uint8Array.from({ length: 16 }, () => ids.bits()) },
  );
}

const HELP = `node tools/make_random.mjs SHAPE OUT.bq4 [--quant TYPE] [--embed TYPE] [--seed N] [--context N] [--biases] [--no-tokenizer]

SHAPE is one of ${Object.keys(SHAPES).join(', ')}. TYPE: bq4 (the default), bq4h, bq8, bq4_16, bq4_64, f32, f16, bf16.
`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await command(async () => {
    let parsed;
    try {
      parsed = parseArgs({
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
    } = parsed;
    if (values.help) return void process.stdout.write(HELP);
    if (!output || !Object.hasOwn(SHAPES, shape)) throw new SetupError(HELP);
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
