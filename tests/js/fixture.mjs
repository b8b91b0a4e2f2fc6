// Tiny models with random weights and a byte-level tokenizer, as .bq4 files. Their replies are meaningless, but the same on every machine.
import { encodeTokenizer, FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';
import { memorySink } from '../../js/format/output.js';
import { tensorTable } from '../../js/format/bq4/names.js';
import { quantize } from './encode.mjs';
import { runLayout, typeNamed } from '../../js/format/bq4/weight-types.js';
import { matrixOf, writeV2 } from '../../js/format/bq4/write-v2.js';
import { xxh64 } from './xxh64.mjs';

const encoder = new TextEncoder();

export const SPECIAL = ['<|endoftext|>', '<|user|>', '<|assistant|>', '<|end|>', '<|system|>'];
/** The token of byte 0; the tokens of all bytes are in order. */
export const BYTE = SPECIAL.length;
/** Texts of the tokens after those of the bytes. */
const PAIRS = ['th', 'the', ' the', 'in', 'an', ' a', 'ou', 'you', 'er', 'es'];

/** A byte-level BPE tokenizer with the tokens SPECIAL, all bytes, and PAIRS. */
export function tokenizer() {
  /** @type {import('../../js/text/tokenizers/section.js').Token[]} */
  const tokens = SPECIAL.map((text) => ({ bytes: encoder.encode(text), score: 0, kind: TOKEN.control }));
  for (let b = 0; b < 256; b++) tokens.push({ bytes: Uint8Array.of(b), score: 0, kind: TOKEN.normal });
  const merges = [];
  const idOf = (/** @type {string} */ text) =>
    tokens.findIndex((t) => t.kind === TOKEN.normal && String(t.bytes) === String(encoder.encode(text)));
  for (const text of PAIRS) {
    // Both parts of a merge have to be tokens already.
    const cut = [...text.slice(1)]
      .map((_, i) => i + 1)
      .find((i) => idOf(text.slice(0, i)) >= 0 && idOf(text.slice(i)) >= 0);
    merges.push([idOf(text.slice(0, cut)), idOf(text.slice(cut)), tokens.length]);
    tokens.push({ bytes: encoder.encode(text), score: 0, kind: TOKEN.normal });
  }
  return { kind: KIND.bpe, flags: FLAG.addBos, bos: 0, eos: 0, unk: NONE, pad: NONE, eog: [0, 3], tokens, merges };
}

/** A SentencePiece tokenizer in which every normal token begins with a space. */
export function spaceTokenizer() {
  /** @type {import('../../js/text/tokenizers/section.js').Token[]} */
  const tokens = ['<unk>', '<s>', '</s>'].map((text, i) => ({
    bytes: encoder.encode(text),
    score: 0,
    kind: i ? TOKEN.control : TOKEN.unknown,
  }));
  for (let i = tokens.length; i < CONFIG.vocab; i++)
    tokens.push({ bytes: encoder.encode(` ${String.fromCodePoint(97 + i)}`), score: -i, kind: TOKEN.normal });
  return {
    kind: KIND.spm,
    flags: FLAG.addBos | FLAG.addSpace,
    bos: 1,
    eos: 2,
    unk: 0,
    pad: NONE,
    eog: [],
    tokens,
    merges: [],
  };
}

export const CHAT = {
  roles: {
    system: { before: '<|system|>', after: '<|end|>' },
    user: { before: '<|user|>', after: '<|end|>' },
    assistant: { before: '<|assistant|>', after: '<|end|>' },
  },
  stop: ['<|end|>'],
  bos: true,
};

export const CONFIG = {
  arch: 'llama',
  layers: 3,
  hidden: 48,
  heads: 4,
  kv_heads: 2,
  ffn: 96,
  vocab: SPECIAL.length + 256 + PAIRS.length,
  context: 256,
  norm_eps: 1e-5,
  tied: true,
};

/** A generator of uniform numbers in [-1, 1), the same on every machine. @param {number} seed */
export function random(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 31 - 1;
  };
}

/**
 * The bytes of a .bq4 file of version 2.
 * @param {{ config?: object, type?: string, seed?: number, chat?: object | null, tokens?: object | null, name?: string, license?: string, card?: string, template?: string,
 *   sha256?: (bytes: Uint8Array) => Uint8Array }} [options]  `type`: of matrices; `sha256`: adds SHA-256 hashes of the chunks
 */
export async function tinyModel({
  config = {},
  type = 'f32',
  seed = 1,
  chat = CHAT,
  tokens = tokenizer(),
  name = 'tiny',
  license = 'CC0-1.0',
  card = '# Tiny\nNoise.',
  template = '',
  sha256,
} = {}) {
  const fullConfig = { ...CONFIG, ...config };
  const next = random(seed);
  const tensors = tensorTable(fullConfig)
    .filter((slot) => slot.required)
    .map(({ name: tensor, dims }) => {
      const { rows, cols } = matrixOf(dims);
      const weightType = typeNamed(dims.length > 1 ? type : 'f32');
      const norm = /ln.*weight$/.test(tensor);
      const values = Float32Array.from({ length: rows * cols }, () =>
        norm ? 1 + 0.1 * next() : next() * (tensor === 'wte.weight' ? 1 : 0.4),
      );
      const layout = runLayout(weightType);
      const bytes = quantize(weightType.id, layout, values, rows, cols);
      return {
        name: tensor,
        type: weightType,
        layout,
        dims,
        pieces: async function* () {
          yield bytes;
        },
      };
    });
  const sink = memorySink();
  await writeV2(
    sink,
    {
      config: fullConfig,
      tensors,
      name,
      license,
      tokenizer: tokens && encodeTokenizer(/** @type {any} */ (tokens)),
      chat,
      card,
      template,
    },
    { hash: xxh64, sha256, fileId: new Uint8Array(16).fill(seed) },
  );
  return sink.bytes;
}
