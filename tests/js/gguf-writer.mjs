// Writes GGUF files for tests: headers with arbitrary values, and small models. tests/golden/gguf has files that PyPI's gguf has written.
import { quantize } from './encode.mjs';
import { f16FromNumber } from '../../js/format/bq4/half.js';
import { tensorTable } from '../../js/format/bq4/names.js';
import { ROWS, typeNamed } from '../../js/format/bq4/weight-types.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { random } from './fixture.mjs';

/** A configuration with a few MB of weights, enough for paging. */
export const SMALL = {
  arch: 'llama',
  layers: 12,
  hidden: 192,
  heads: 6,
  kv_heads: 3,
  ffn: 384,
  vocab: 512,
  context: 128,
  norm_eps: 1e-5,
  tied: true,
};

/** A metadata value and its type. @typedef {[type: string, value: any]} Value */
/** Names of types, in the order of GGUF's numbers. */
const TYPES = ['u8', 'i8', 'u16', 'i16', 'u32', 'i32', 'f32', 'bool', 'text', 'array', 'u64', 'i64', 'f64'];

/** @param {number} n */
const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
/** @param {number | bigint} n */
export const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
/** A GGUF string: length and bytes. @param {string | Uint8Array} text */
const encodeString = (text) => Buffer.concat([u64(Buffer.byteLength(text)), Buffer.from(text)]);

/** @param {string} type @param {any} value @returns {Buffer} */
function encodeValue(type, value) {
  const out = Buffer.alloc(8);
  switch (type) {
    case 'text':
      return encodeString(value);
    case 'array':
      return Buffer.concat([
        u32(TYPES.indexOf(value[0])),
        u64(value[1].length),
        ...value[1].map((/** @type {any} */ item) => encodeValue(value[0], item)),
      ]);
    case 'u64':
      return u64(value);
    case 'i64':
      return (out.writeBigInt64LE(BigInt(value)), out);
    case 'f64':
      return (out.writeDoubleLE(value), out);
    case 'f32':
      return (out.writeFloatLE(value), out.subarray(0, 4));
    case 'i32':
      return (out.writeInt32LE(value), out.subarray(0, 4));
    case 'u32':
      return u32(value);
    case 'u16':
      return (out.writeUInt16LE(value), out.subarray(0, 2));
    case 'i16':
      return (out.writeInt16LE(value), out.subarray(0, 2));
    default:
      return Buffer.from([Number(value) & 255]);
  }
}

/** @param {Record<string, Value>} metadata */
const encodeMetadata = (metadata) =>
  Buffer.concat(
    Object.entries(metadata).map(([key, [type, value]]) =>
      Buffer.concat([encodeString(key), u32(TYPES.indexOf(type)), encodeValue(type, value)]),
    ),
  );

/**
 * @typedef {object} Tensor
 * @property {string} name
 * @property {number[]} dims  rows first
 * @property {number} type    GGUF's number
 * @property {Uint8Array} bytes
 */

/**
 * The header of a file, up to the data of the tensors.
 * @param {Record<string, Value>} metadata
 * @param {(Omit<Tensor, 'bytes'> & { bytes: { length: number } })[]} tensors
 * @param {{ version?: number, alignment?: number }} [options]
 */
export function ggufHead(metadata, tensors, { version = 3, alignment = 32 } = {}) {
  const all =
    alignment === 32 ? metadata : { 'general.alignment': /** @type {Value} */ (['u32', alignment]), ...metadata };
  let at = 0;
  const infos = tensors.map(({ name, dims, type, bytes }) => {
    const info = Buffer.concat([
      encodeString(name),
      u32(dims.length),
      ...dims.toReversed().map(u64),
      u32(type),
      u64(at),
    ]);
    at += Math.ceil(bytes.length / alignment) * alignment;
    return info;
  });
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    u32(version),
    u64(tensors.length),
    u64(Object.keys(all).length),
    encodeMetadata(all),
    ...infos,
  ]);
  return Buffer.concat([head, Buffer.alloc(-head.length & (alignment - 1))]);
}

/**
 * A complete file.
 * @param {Record<string, Value>} metadata
 * @param {Tensor[]} tensors
 * @param {{ version?: number, alignment?: number }} [options]
 */
export function gguf(metadata, tensors, options) {
  const mask = (options?.alignment ?? 32) - 1;
  const pad = (/** @type {Uint8Array} */ bytes) => Buffer.concat([bytes, Buffer.alloc(-bytes.length & mask, 0xa5)]);
  return Buffer.concat([ggufHead(metadata, tensors, options), ...tensors.map(({ bytes }) => pad(bytes))]);
}

/** GGUF's names of tensors by bq4's names. */
const NAMES = {
  wte: 'token_embd',
  ln_f: 'output_norm',
  lm_head: 'output',
  ln1: 'attn_norm',
  ln2: 'ffn_norm',
  'attn.q': 'attn_q',
  'attn.k': 'attn_k',
  'attn.v': 'attn_v',
  'attn.o': 'attn_output',
  'mlp.gate': 'ffn_gate',
  'mlp.up': 'ffn_up',
  'mlp.down': 'ffn_down',
};

/** GGUF's name of a tensor. @param {string} name  bq4's name */
export function ggufName(name) {
  const [, layer, module, ending] = /^(?:h\.(\d+)\.)?(.+)\.(weight|bias)$/.exec(name) ?? [];
  const moduleName = /** @type {Record<string, string>} */ (NAMES)[module];
  return `${layer === undefined ? '' : `blk.${layer}.`}${moduleName}.${ending}`;
}

/** GGUF's block types: their number, the bq4 type with the same values, bytes of a block, and bytes of its scales. */
const BLOCKS = {
  q8_0: { number: 8, run: 'bq8', bytes: 34, scales: 2 },
  q4_0: { number: 2, run: 'bq4h', bytes: 18, scales: 2 },
  q4_1: { number: 3, run: 'bq4a', bytes: 20, scales: 4 },
};

/** Converts row-major blocks of bq4 to blocks of GGUF. @param {keyof typeof BLOCKS} name  GGUF's type @param {Uint8Array} blocks */
function convertBlocks(name, blocks) {
  const { bytes, scales } = BLOCKS[name];
  const out = new Uint8Array(blocks.length);
  for (let at = 0; at < blocks.length; at += bytes) {
    out.set(blocks.subarray(at + bytes - scales, at + bytes), at);
    if (name === 'q8_0') out.set(blocks.subarray(at, at + 32), at + 2);
    // A byte of bq4 has weights 2i and 2i + 1; a byte of GGUF has i and i + 16. Nibbles of q4_0 have an offset of 8, bq4's are two's complement.
    const nibble = (/** @type {number} */ w) =>
      ((blocks[at + (w >> 1)] >> (4 * (w & 1))) & 15) ^ (name === 'q4_0' ? 8 : 0);
    for (let i = 0; name !== 'q8_0' && i < 16; i++) out[at + scales + i] = nibble(i) | (nibble(i + 16) << 4);
  }
  return out;
}

/** The bq4 type with the same values as a type of GGUF. @param {string} name  GGUF's name @returns {string} */
export const runType = (name) => BLOCKS[/** @type {keyof typeof BLOCKS} */ (name)]?.run ?? name;

/** A tensor of GGUF. @param {string} name  bq4's name @param {{ dims: number[], values: Float32Array }} tensor @param {string} type  of matrices, GGUF's name @returns {Tensor} */
export function ggufTensor(name, { dims, values }, type) {
  const info = { name: ggufName(name), dims };
  if (dims.length === 1 || type === 'f32') return { ...info, type: 0, bytes: new Uint8Array(values.slice().buffer) };
  if (type === 'f16')
    return { ...info, type: 1, bytes: new Uint8Array(Uint16Array.from(values, f16FromNumber).buffer) };
  const { rows, cols } = matrixOf(dims);
  const { number, run } = BLOCKS[/** @type {keyof typeof BLOCKS} */ (type)];
  return {
    ...info,
    type: number,
    bytes: convertBlocks(/** @type {any} */ (type), quantize(typeNamed(run).id, ROWS, values, rows, cols)),
  };
}

/** Metadata of a LLaMA model. @param {Record<string, any>} config  of bq4 @returns {Record<string, Value>} */
export const llamaMetadata = ({ layers, hidden, heads, kv_heads, ffn, context, norm_eps }) => ({
  'general.architecture': ['text', 'llama'],
  'general.name': ['text', 'Tiny'],
  'general.license': ['text', 'mit'],
  'llama.block_count': ['u32', layers],
  'llama.context_length': ['u32', context],
  'llama.embedding_length': ['u32', hidden],
  'llama.feed_forward_length': ['u32', ffn],
  'llama.attention.head_count': ['u32', heads],
  'llama.attention.head_count_kv': ['u32', kv_heads],
  'llama.attention.layer_norm_rms_epsilon': ['f32', norm_eps],
  'llama.rope.dimension_count': ['u32', hidden / heads],
});

/** Metadata of a byte-level tokenizer without merges; its tokens are printable ASCII characters and invented words. @param {number} count  number of tokens @returns {Record<string, Value>} */
export function bytesTokenizer(count) {
  const alphabet = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i));
  const words = Array.from({ length: count - 97 }, (_, i) => `w${i}x`);
  return {
    'tokenizer.ggml.model': ['text', 'gpt2'],
    'tokenizer.ggml.pre': ['text', 'gpt-2'],
    'tokenizer.ggml.tokens': ['array', ['text', ['<|endoftext|>', 'Ġ', 'Ċ', ...alphabet, ...words]]],
    'tokenizer.ggml.token_type': ['array', ['i32', Array.from({ length: count }, (_, i) => (i ? 1 : 3))]],
    'tokenizer.ggml.merges': ['array', ['text', []]],
    'tokenizer.ggml.eos_token_id': ['u32', 0],
    'tokenizer.chat_template': ['text', '{{ messages[0].content }}'],
  };
}

/**
 * A LLaMA model of random Q8_0 blocks; it is fast to create, in any size. Layers are in the alphabetical order of their names, as in many
 * files: 0, 1, 10, 11, 2, …
 * @param {Record<string, any>} config @param {{ seed?: number, metadata?: Record<string, Value> }} [options]
 */
export function randomGguf(config, { seed = 1, metadata = {} } = {}) {
  return gguf(randomMetadata(config, metadata), randomTensors(config, seed));
}

/** Metadata of `randomGguf`. @param {Record<string, any>} config @param {Record<string, Value>} [metadata]  more entries */
export const randomMetadata = (config, metadata) => ({
  ...llamaMetadata(config),
  ...bytesTokenizer(config.vocab),
  ...metadata,
});

/** The same model in several files; the first one has the tokenizer. @param {Record<string, any>} config @param {number} count  number of files */
export function randomParts(config, count) {
  const tensors = randomTensors(config, 1);
  const each = Math.ceil(tensors.length / count);
  return Array.from({ length: count }, (_, i) => {
    /** @type {Record<string, Value>} */
    const split = {
      'split.no': ['u16', i],
      'split.count': ['u16', count],
      'split.tensors.count': ['i32', tensors.length],
    };
    return gguf(i ? split : randomMetadata(config, split), tensors.slice(i * each, (i + 1) * each));
  });
}

/** Tensors of `randomGguf`. @param {Record<string, any>} config @param {number} seed */
function randomTensors(config, seed) {
  const next = random(seed);
  const tensors = tensorTable(config)
    .filter(({ required }) => required)
    .map(({ name, dims }) => {
      const weights = dims.reduce((a, b) => a * b, 1);
      if (dims.length === 1)
        return {
          name: ggufName(name),
          dims,
          type: 0,
          bytes: new Uint8Array(Float32Array.from({ length: weights }, () => 1 + 0.2 * next()).buffer),
        };
      const bytes = new Uint8Array((weights / 32) * 34);
      for (let i = 0; i < bytes.length; i++) bytes[i] = 256 * next();
      for (let i = 0; i < bytes.length; i += 34) bytes.set([0, 0x14], i); // 2^-10
      return { name: ggufName(name), dims, type: 8, bytes };
    });
  tensors.sort((a, b) => (a.name.startsWith('blk') && b.name.startsWith('blk') ? (a.name < b.name ? -1 : 1) : 0));
  return tensors;
}
