// Fuzzing of the parsers in JavaScript: valid inputs of each parser, and random mutations of them. A round is determined by its parser and
// its seed.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { conversationOf } from '../../demo/storage/local-storage.js';
import { pathTo } from '../../demo/chat/tree.js';
import { completeConfig, encodeConfig } from '../../js/format/bq4/config.js';
import { convert } from '../../js/convert/index.js';
import { matchTensors } from '../../js/format/bq4/names.js';
import { chatFormat, tokenizerOf } from '../../js/convert/parts.js';
import { readBullet } from '../../js/format/bullet/read.js';
import { openHfFolder } from '../../js/convert/hf-folder.js';
import { readLlama2c } from '../../js/format/llama2c.js';
import { readQsf } from '../../js/format/qsf/read.js';
import { readSafetensors } from '../../js/format/safetensors.js';
import { readTorchModel } from '../../js/format/torch/training-scripts.js';
import { readTorch } from '../../js/format/torch/read.js';
import { parseGpt2 } from '../../js/text/tokenizers/gpt2.js';
import { parseHfTokenizer } from '../../js/text/tokenizers/hf-json.js';
import { parseLlama2c } from '../../js/text/tokenizers/llama2c.js';
import { encodeTokenizer } from '../../js/text/tokenizers/section.js';
import { parseSentencePiece } from '../../js/text/tokenizers/sentencepiece.js';
import { parseTiktoken } from '../../js/text/tokenizers/tiktoken.js';
import { parseVocabTxt } from '../../js/text/tokenizers/wordlist.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { writeQsf } from '../../js/format/qsf/write.js';
import { memorySink } from '../../js/format/output.js';
import { fromBytes } from '../../js/node.js';
import { openGguf } from '../../js/format/gguf/open.js';
import { compile } from '../../js/text/grammar/index.js';
import { chat, completions } from '../../js/api/openai/index.js';
import { readClassifier } from '../../js/api/classifiers/index.js';
import { readPeft } from '../../js/format/lora/peft.js';
import { readReceipt } from '../../js/api/receipts/index.js';
import { parseCompanion } from '../../js/format/bq4/companion.js';
import { encodeManifest } from '../../js/format/bq4/manifest.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { inspect } from '../../bin/inspect.js';
import {
  CONFIG,
  hfConfig,
  hfFolder,
  hfName,
  llama2c,
  randomWeights,
  safetensors,
  tokenizerBin,
} from './checkpoints.mjs';
import { join } from 'node:path';
import { drawFrom } from './random-numbers.mjs';
import { CHAT, tinyModel } from './fixture.mjs';
import { testFolder } from './folders.mjs';
import { bytesTokenizer, gguf, ggufTensor, llamaMetadata } from './gguf-writer.mjs';
import { reseal } from './reseal.mjs';
import { archive, torchPickle, torchZip } from './torch-writer.mjs';
import { v1 } from './v1.mjs';

/** @import { Draw } from './random-numbers.mjs' */
/**
 * A parser and its valid inputs: bytes, or JSON values. `rounds`: factor of the number of rounds; `wording`: whether the text of its errors is
 * checked.
 * @typedef {{ name: string, inputs: () => Promise<any[]>, read: (input: any, draw: Draw) => any, rounds?: number, wording?: false }} Target
 */

const golden = (/** @type {string} */ name) =>
  readFileSync(fileURLToPath(new URL(`../golden/${name}`, import.meta.url)));
const goldenJson = (/** @type {string} */ name) => JSON.parse(golden(name).toString());
const utf8 = (/** @type {string} */ text) => new TextEncoder().encode(text);
/** Placeholder of lists nested deeper than the stack. Only `textOf` replaces it, because JSON.stringify cannot write such a value. */
const DEEP = '(deep)';
/** @param {any} json */
const textOf = (json) =>
  (JSON.stringify(json) ?? '').replaceAll(JSON.stringify(DEEP), () => `${'['.repeat(20_000)}${']'.repeat(20_000)}`);
const bytesOf = (/** @type {any} */ json) => utf8(textOf(json));
/** The value as a reader parses it, without placeholders. @param {any} json */
const valueOf = (json) => (json === undefined ? undefined : JSON.parse(textOf(json)));

const NUMBERS = [0, -1, 1, 2, 7, 63, 64, 255, 256, 65535, 65536, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53];
/** Values that replace any part of a JSON value. @type {(() => any)[]} */
const VALUES = [
  ...NUMBERS.map((n) => () => n),
  () => 0.5,
  () => -1e308,
  () => 1e-320,
  () => null,
  () => true,
  () => false,
  () => '',
  () => 'x',
  () => '__proto__',
  () => 'constructor',
  () => '\ud800',
  () => 'é\u0000\n',
  () => '('.repeat(300),
  () => 'a'.repeat(70_000),
  () => [],
  () => [null],
  () => [[]],
  () => [1, 'a', {}],
  () => ({}),
  () => ({ toString: 1, valueOf: null }),
  () => ({ length: -1 }),
  () => JSON.parse('{"__proto__":{"a":1},"constructor":0}'),
  () => Array.from({ length: 300 }, (_, i) => i),
  () => DEEP,
];

/** All parts of a JSON value, each as its object or array and its key. @param {any} value @param {[any, string | number][]} parts  the result so far */
function partsOf(value, parts = []) {
  if (value === null || typeof value !== 'object' || parts.length > 20_000) return parts;
  for (const key of Object.keys(value)) {
    parts.push([value, Array.isArray(value) ? Number(key) : key]);
    partsOf(value[key], parts);
  }
  return parts;
}

/** A mutated copy of a JSON value. @param {any} json @param {Draw} draw */
function mutateJson(json, draw) {
  let copy = structuredClone(json);
  for (let i = draw(3); i >= 0; i--) {
    if (!draw(60)) copy = VALUES[draw(VALUES.length)]();
    const all = partsOf(copy);
    if (!all.length) return copy;
    const [holder, key] = all[draw(all.length)];
    const [other, otherKey] = all[draw(all.length)];
    const edits = [
      () => (holder[key] = VALUES[draw(VALUES.length)]()),
      () => (holder[key] = VALUES[draw(VALUES.length)]()),
      () => (Array.isArray(holder) ? holder.splice(Number(key), 1) : delete holder[key]),
      () => (holder[key] = structuredClone(other[otherKey])),
      () => Array.isArray(holder) && holder.push(structuredClone(holder[key])),
      () => (holder[key] = [holder[key]]),
      () => typeof holder[key] === 'string' && (holder[key] += VALUES[16 + draw(12)]() ?? ''),
      () => typeof holder[key] === 'number' && (holder[key] += draw(2) ? 1 : -1),
      () => Array.isArray(holder) || (holder[['__proto__', 'toString', 'x', ''][draw(4)]] = holder[key]),
    ];
    edits[draw(edits.length)]();
  }
  return copy;
}

/** A mutated copy of bytes. @param {Uint8Array} bytes @param {Draw} draw @param {number} [within]  mutates only this number of first bytes */
function mutateBytes(bytes, draw, within = bytes.length) {
  let out = bytes.slice();
  const at = () => draw(Math.max(1, Math.min(within, out.length)));
  for (let i = draw(4); i >= 0; i--) {
    const place = at();
    const edits = [
      () => out.length && (out[place] = draw(256)),
      () => out.length && (out[place] ^= 1 << draw(8)),
      () => out.length && (out[place] = [0, 1, 127, 128, 255][draw(5)]),
      () => {
        const value = NUMBERS[draw(NUMBERS.length)];
        if (place + 4 <= out.length) new DataView(out.buffer).setUint32(place, value >>> 0, true);
      },
      () => {
        const value = [0n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n, BigInt(draw(1000))][draw(5)];
        if (place + 8 <= out.length) new DataView(out.buffer).setBigUint64(place, value, true);
      },
      () => (out = out.slice(0, place)),
      () => (out = new Uint8Array(Buffer.concat([out.subarray(0, place), out.subarray(at(), place + 20), out.subarray(place)]))), // prettier-ignore
      () => out.copyWithin(place, at(), at()),
    ];
    edits[draw(edits.length)]();
  }
  return out;
}

/** A mutated copy of one of the inputs. @param {any[]} inputs @param {Draw} draw */
export function mutate(inputs, draw) {
  const input = inputs[draw(inputs.length)];
  return input instanceof Uint8Array ? mutateBytes(input, draw) : mutateJson(input, draw);
}

/** A folder in memory, for openHfFolder. @param {Record<string, any>} files  bytes, or JSON values @returns {any} */
export const folderOf = (files) => ({
  path: 'folder',
  names: Object.keys(files),
  has: (/** @type {string} */ name) => Object.hasOwn(files, name),
  open: async (/** @type {string} */ name) =>
    openBytes(files[name] instanceof Uint8Array ? files[name] : bytesOf(files[name])),
  stamp: () => '',
});

/** Reads the parts of a checkpoint that a conversion reads. @param {any} checkpoint */
async function readCheckpoint(checkpoint) {
  encodeConfig(completeConfig(checkpoint.config));
  const matches = matchTensors(checkpoint.config, checkpoint.tensors);
  for (const { tensor } of /** @type {any[]} */ (matches).slice(0, 4))
    if (matrixOf(tensor.dims).cols < 1e6) await tensor.read(0, 1);
}

/** Reads the first row of each tensor. @param {Map<string, any>} tensors */
async function readRows(tensors) {
  for (const tensor of tensors.values()) if (tensor && matrixOf(tensor.dims).cols < 1e6) await tensor.read(0, 1);
}

/** Tensors with a `read` method, as readers of checkpoints return them. @param {Map<string, { dims: number[], values: Float32Array }>} weights */
const withReaders = (weights) =>
  new Map(
    [...weights].map(([name, { dims, values }]) => {
      const { cols } = matrixOf(dims);
      const read = async (/** @type {number} */ row, /** @type {number} */ rows) =>
        values.slice(row * cols, (row + rows) * cols);
      return [name, { dims, read }];
    }),
  );

const { fresh } = testFolder('fuzz');
const WEIGHTS = randomWeights();
const NAMED = [...WEIGHTS].map(([name, tensor]) => /** @type {[string, any]} */ ([hfName(name), tensor]));

const TOKENIZERS = [
  {
    added_tokens: [
      { id: 3, content: '<s>', special: true },
      { id: 4, content: '<tag>', special: false, lstrip: false, rstrip: true, normalized: true },
    ],
    normalizer: {
      type: 'Sequence',
      normalizers: [
        { type: 'NFC' },
        { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
        { type: 'Prepend', prepend: '▁' },
        { type: 'Lowercase' },
      ],
    },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: '\\p{L}+| ?[^\\s\\p{L}]{1,3}|\\s+(?!\\S)' }, behavior: 'Isolated', invert: false },
        { type: 'Digits', individual_digits: true },
        { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
      ],
    },
    post_processor: {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [],
      special_tokens: { '<s>': { id: '<s>', ids: [3], tokens: ['<s>'] } },
    },
    decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', vocab: { a: 0, b: 1, ab: 2, '<s>': 3 }, merges: [['a', 'b']], unk_token: null, byte_fallback: false, ignore_merges: true },
  }, // prettier-ignore
  {
    added_tokens: [{ id: 0, content: '<unk>', special: true }],
    normalizer: { type: 'Precompiled', precompiled_charsmap: 'BAAAAAAAAAA=' },
    pre_tokenizer: { type: 'Metaspace', replacement: '▁', add_prefix_space: true, prepend_scheme: 'always' },
    post_processor: null,
    model: { type: 'Unigram', unk_id: 0, vocab: [['<unk>', 0], ['▁a', -1.5], ['b', -2]], byte_fallback: true }, // prettier-ignore
  },
  {
    added_tokens: [{ id: 1, content: '[CLS]', special: true }],
    normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }, // prettier-ignore
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: { type: 'BertProcessing', sep: ['[SEP]', 2], cls: ['[CLS]', 1] },
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab: { '[UNK]': 0, '[CLS]': 1, '[SEP]': 2, a: 3, '##b': 4 } }, // prettier-ignore
  },
];

/** A field of a protocol buffer: bytes. @param {number} field @param {Uint8Array} data */
const field = (field, data) => Buffer.concat([Buffer.from([(field << 3) | 2, data.length]), data]);
/** A SentencePiece model with byte tokens. */
function sentencePiece() {
  const piece = (/** @type {string} */ text, /** @type {number} */ score, /** @type {number} */ type) => {
    const number = Buffer.alloc(5);
    number[0] = (2 << 3) | 5;
    number.writeFloatLE(score, 1);
    return field(1, Buffer.concat([field(1, utf8(text)), number, Buffer.from([3 << 3, type])]));
  };
  const bytes = Array.from({ length: 256 }, (_, i) => piece(`<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`, 0, 6)); // prettier-ignore
  return new Uint8Array(
    Buffer.concat([
      piece('<unk>', 0, 2),
      piece('<s>', 0, 3),
      piece('</s>', 0, 3),
      ...bytes,
      piece('▁a', -1, 1),
      piece('b', -2, 1),
      field(2, Buffer.from([3 << 3, 2, ((35 << 3) & 127) | 128, 2, 1])), // model type BPE, byte fallback
      field(3, Buffer.concat([field(1, utf8('identity')), Buffer.from([3 << 3, 1])])),
    ]),
  );
}

/** A tiktoken file with as many ranks as GPT-2's: the number of ranks determines the family. */
const ranks = () =>
  utf8(Array.from({ length: 50256 }, (_, i) => `${btoa(i < 256 ? String.fromCharCode(i) : `<${i}>`)} ${i}\n`).join(''));

const LLAMA = { ...CONFIG, vocab: 120, layers: 1 };

/** @type {Target[]} */
export const TARGETS = [
  {
    name: 'bq4',
    inputs: async () => [(await tinyModel({ config: { layers: 1 } })).slice(0), golden('v2/words.bq4')].map((b) => new Uint8Array(b)), // prettier-ignore
    async read(bytes, draw) {
      const prefix = Number(bytes.length > 32 ? new DataView(bytes.buffer).getBigUint64(24, true) : 0n);
      // Half of the mutants get valid checksums; otherwise the code after the check of the sums would not run.
      if (draw(2) && prefix < bytes.length && prefix > 88) {
        try {
          reseal(bytes);
        } catch {
          // The mutant has no place for checksums.
        }
      }
      await inspect(openBytes(bytes));
    },
  },
  {
    name: 'companion',
    inputs: async () => [(await v1({ ...CONFIG, layers: 1 })).json],
    read: (json) => encodeManifest({ ...parseCompanion(bytesOf(json), 'companion'), tensors: [] }),
  },
  {
    name: 'gguf',
    inputs: async () => [
      new Uint8Array(
        gguf({ ...llamaMetadata(LLAMA), ...bytesTokenizer(LLAMA.vocab) }, [...randomWeights(LLAMA)].map(([name, tensor]) => ggufTensor(name, tensor, 'q8_0'))), // prettier-ignore
      ),
      ...['bert', 'gemma3', 'mixtral'].map((name) => new Uint8Array(golden(`gguf/${name}.gguf`))),
    ],
    async read(bytes, draw) {
      await openGguf(openBytes(draw(3) ? mutateBytes(bytes, draw, 3000) : bytes), bytes.subarray(0, 4096));
    },
  },
  {
    name: 'safetensors',
    inputs: async () => [new Uint8Array(safetensors(NAMED))],
    async read(bytes, draw) {
      await readRows((await readSafetensors(openBytes(draw(2) ? mutateBytes(bytes, draw, 600) : bytes))).tensors);
    },
  },
  {
    name: 'safetensors-header',
    inputs: async () => [{ __metadata__: { format: 'pt' }, a: { dtype: 'F32', shape: [2, 2], data_offsets: [0, 16] }, b: { dtype: 'BF16', shape: [4], data_offsets: [16, 24] } }], // prettier-ignore
    async read(json) {
      const header = bytesOf(json);
      const bytes = new Uint8Array(8 + header.length + 24);
      new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true);
      bytes.set(header, 8);
      await readRows((await readSafetensors(openBytes(bytes))).tensors);
    },
  },
  {
    name: 'torch',
    inputs: async () => [
      new Uint8Array(torchZip(NAMED)),
      new Uint8Array(archive([['a/data.pkl', torchPickle([['tok_embeddings.weight', { dims: [1], values: [0] }]])], ['a/data/0', Buffer.alloc(4)]])), // prettier-ignore
    ],
    async read(bytes, draw) {
      await readRows((await readTorch(openBytes(draw(2) ? mutateBytes(bytes, draw, 900) : bytes))).tensors);
    },
  },
  {
    name: 'pickle',
    inputs: async () => [new Uint8Array(torchPickle([['tok_embeddings.weight', { dims: [2, 2], values: [0, 0, 0, 0] }]]))], // prettier-ignore
    async read(pickle) {
      const file = openBytes(new Uint8Array(archive([['a/data.pkl', Buffer.from(pickle)], ['a/data/0', Buffer.alloc(16)]]))); // prettier-ignore
      await readRows((await readTorch(file)).tensors);
      await readCheckpoint(await readTorchModel(file));
    },
  },
  {
    name: 'tokenizer.json',
    wording: false,
    inputs: async () => TOKENIZERS,
    read: (json) => encodeTokenizer(parseHfTokenizer(textOf(json), { bos: 'a', eos: 1, eog: [1] })),
  },
  {
    name: 'vocab.json',
    wording: false,
    inputs: async () => [{ vocab: { a: 0, b: 1, ab: 2, '<|endoftext|>': 3 }, merges: '#version: 0.2\na b\n' }],
    read: (/** @type {any} */ input) =>
      encodeTokenizer(parseGpt2(textOf(input?.vocab), typeof input?.merges === 'string' ? input.merges : 'a b')),
  },
  {
    name: 'tiktoken',
    rounds: 0.05,
    inputs: async () => [ranks()],
    read: (bytes) => encodeTokenizer(parseTiktoken(new TextDecoder().decode(bytes))),
  },
  {
    name: 'sentencepiece',
    inputs: async () => [sentencePiece()],
    read: (bytes) => encodeTokenizer(parseSentencePiece(bytes)),
  },
  {
    name: 'vocab.txt',
    inputs: async () => [utf8('[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n')],
    read: (bytes) => encodeTokenizer(parseVocabTxt(new TextDecoder().decode(bytes))),
  },
  {
    name: 'tokenizer.bin',
    inputs: async () => [new Uint8Array(tokenizerBin(300))],
    read: (bytes) => encodeTokenizer(parseLlama2c(bytes, 300)),
  },
  {
    name: 'folder',
    wording: false,
    inputs: async () => [
      {
        'config.json': hfConfig(),
        'generation_config.json': { eos_token_id: [1, 2], bos_token_id: 0 },
        'tokenizer_config.json': { chat_template: [{ name: 'default', template: '{{ messages }}' }], add_bos_token: true, bos_token: { content: 'a' } }, // prettier-ignore
        'special_tokens_map.json': { eos_token: { content: 'b' }, pad_token: 'a' },
        'model.safetensors.index.json': { weight_map: { a: 'model.safetensors' } },
        'tokenizer.json': TOKENIZERS[0],
      },
      {
        'config.json': hfConfig(),
        'modules.json': [
          { idx: 0, name: '0', path: '', type: 'sentence_transformers.models.Transformer' },
          { idx: 1, name: '1', path: '1_Pooling', type: 'sentence_transformers.models.Pooling' },
        ],
        'sentence_bert_config.json': { max_seq_length: 256, do_lower_case: false },
        '1_Pooling/config.json': { word_embedding_dimension: 16, pooling_mode_mean_tokens: true },
      },
    ],
    async read(files) {
      const weights = new Uint8Array(safetensors(NAMED));
      if (!files || typeof files !== 'object') return;
      const folder = folderOf({ ...files, 'model.safetensors': weights });
      const checkpoint = await openHfFolder(folder, null, 'folder');
      await readCheckpoint(checkpoint);
      await chatFormat(await tokenizerOf(checkpoint), checkpoint.template);
    },
  },
  {
    name: 'config',
    inputs: async () => [CONFIG, { ...CONFIG, arch: 'bullet', global_layers: [0], window: 4, position: 'alibi' }],
    read: (json) => encodeConfig(valueOf(json) ?? {}),
  },
  {
    name: 'peft',
    inputs: async () => [goldenJson('adapters/llama-gqa/adapter_config.json')],
    async read(settings) {
      const file = openBytes(new Uint8Array(golden('adapters/llama-gqa/adapter_model.safetensors')));
      const { pairs } = await readPeft(file, async () => valueOf(settings), { ...CONFIG, arch: 'llama' });
      for (const { a, b } of pairs) await Promise.all([a.read(0, 1), b.read(0, 1)]);
    },
  },
  {
    name: 'qsf',
    inputs: async () => {
      const sink = memorySink();
      const options = { compress: 'lz4' };
      await writeQsf(sink, matchTensors(CONFIG, withReaders(WEIGHTS)), /** @type {any} */ (options), /** @type {any} */ ({ config: CONFIG, tokenizer: null })); // prettier-ignore
      return [new Uint8Array(sink.bytes)];
    },
    async read(bytes, draw) {
      await readCheckpoint(await readQsf(openBytes(draw(2) ? mutateBytes(bytes, draw, 400) : bytes)));
    },
  },
  {
    name: 'bullet',
    inputs: async () => {
      const [from, to] = [fresh(), join(fresh(), 'a.bullet')];
      hfFolder(from, WEIGHTS);
      await convert(from, to);
      return [new Uint8Array(readFileSync(to))];
    },
    async read(bytes, draw) {
      await readCheckpoint(await readBullet(openBytes(draw(2) ? mutateBytes(bytes, draw, 1500) : bytes)));
    },
  },
  {
    name: 'llama2c',
    inputs: async () => [new Uint8Array(llama2c(WEIGHTS, 'legacy')), new Uint8Array(llama2c(WEIGHTS, 'v1'))],
    async read(bytes, draw) {
      await readCheckpoint(await readLlama2c(openBytes(draw(2) ? mutateBytes(bytes, draw, 64) : bytes)));
    },
  },
  {
    name: 'receipt',
    inputs: async () => [goldenJson('receipt.json')],
    read: (json) => readReceipt(valueOf(json)),
  },
  {
    name: 'head',
    inputs: async () => [
      { format: 'bq4-head', version: 1, name: 'a', labels: ['a', 'b'], width: 2, pooling: 'mean', normalize: true, type: 'f32', weights: btoa('\0'.repeat(16)), bias: [0, 1] }, // prettier-ignore
      { format: 'bq4-head', version: 1, name: 'a', labels: ['a', 'b'], width: 2, pooling: 'cls', normalize: false, type: 'bq4', weights: btoa('\0'.repeat(40)), bias: [0, 1] }, // prettier-ignore
    ],
    read: (json) => readClassifier(valueOf(json)),
  },
  {
    name: 'schema',
    wording: false,
    inputs: async () => [
      {
        type: 'object',
        properties: {
          a: { $ref: '#/$defs/b' },
          c: { type: 'array', items: { type: 'integer', minimum: 1 }, maxItems: 3 },
          d: { type: 'string', pattern: '^[a-c]+$', minLength: 1, maxLength: 4 },
          e: { enum: [1, 'a', null] },
          f: { anyOf: [{ type: 'boolean' }, { const: 1 }] },
        },
        required: ['a'],
        additionalProperties: false,
        $defs: { b: { type: 'string', format: 'date' } },
      },
    ],
    read: (schema) => compile({ type: 'json_schema', schema: valueOf(schema) }),
  },
  {
    name: 'regex',
    wording: false,
    inputs: async () => [['^[a-c\\d]{1,3}(x|yz)?\\u0041[^"]*$'], ['(a|b){2,4}\\p{L}+']],
    read: (pattern) => compile({ type: 'regex', pattern: valueOf(pattern)?.[0] }),
  },
  {
    name: 'conversation',
    inputs: async () => [
      {
        id: 'c',
        title: 'T',
        at: 1,
        entries: [
          { id: 'a', parent: null, role: 'user', content: 'Hi', note: '' },
          { id: 'b', parent: 'a', role: 'assistant', content: 'Hello', note: 'x', reasoning: 'r' },
        ],
        leaf: 'b',
        from: 'a',
        summaries: [{ upTo: 'a', text: 's' }],
        forget: true,
        system: 's',
        sampling: { temperature: 1 },
      },
    ],
    read(json) {
      const conversation = conversationOf(valueOf(json));
      if (conversation) pathTo(conversation.entries, conversation.leaf);
    },
  },
];

/** The parsers that need a model. @param {import('../../js/shared/types.js').Engine} engine @returns {Promise<Target[]>} */
export async function modelTargets(engine) {
  const file = await tinyModel({ config: { layers: 1 }, chat: CHAT });
  const model = await engine.load(fromBytes(file));
  const { savePromptCache } = model;
  return [
    {
      name: 'plan',
      inputs: async () => [new Uint8Array(file)],
      read: (bytes, draw) => engine.plan(fromBytes(draw(2) ? mutateBytes(bytes, draw, 2000) : bytes)),
    },
    {
      name: 'prompt-cache',
      inputs: async () => [await savePromptCache([{ role: 'user', content: 'Hi' }])],
      read: (bytes, draw) => model.loadPromptCache(draw(2) ? mutateBytes(bytes, draw, 120) : bytes),
    },
    {
      name: 'format',
      inputs: async () => [{ ...CHAT, start: 's', prompt: 'p', trim: true, think: ['<think>', '</think>'] }],
      read: (format) => model.countTokens([{ role: 'user', content: 'Hi' }], { chatFormat: valueOf(format) }),
    },
    {
      name: 'messages',
      inputs: async () => [
        [
          { role: 'system', content: 'S' },
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content: '', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: { a: 1 } } }] }, // prettier-ignore
          { role: 'tool', content: '1', tool_call_id: 'a', name: 'f' },
        ],
      ],
      read: (messages) => model.countTokens(valueOf(messages)),
    },
    {
      name: 'chat-request',
      inputs: async () => [
        {
          messages: [
            { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
            { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }] }, // prettier-ignore
            { role: 'tool', content: '1', tool_call_id: 'a' },
          ],
          tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object', properties: { a: { type: 'integer' } } } } }], // prettier-ignore
          tool_choice: 'auto',
          max_tokens: 1,
          logit_bias: { 7: 1 },
          stop: ['x'],
          stream: false,
          stream_options: null,
        },
        {
          messages: [{ role: 'user', content: 'Hi' }],
          max_tokens: 1,
          response_format: { type: 'json_schema', json_schema: { name: 's', schema: { type: 'boolean' } } },
          modalities: ['text'],
          metadata: { a: 'b' },
          store: false,
        },
      ],
      read: (body) => chat(model, { ...valueOf(body), n: 1, max_tokens: 1, max_completion_tokens: undefined, stream: false }, {}), // prettier-ignore
    },
    {
      name: 'completion-request',
      inputs: async () => [
        { prompt: ['a', 'b'], max_tokens: 1, echo: false, best_of: 1, logprobs: 2, seed: 1, temperature: 0 },
        { prompt: [[7, 8], [9]], max_tokens: 1 },
      ],
      read: (body) => completions(model, { ...valueOf(body), n: 1, max_tokens: 1, stream: false }, {}),
    },
  ];
}

/**
 * Runs one round.
 * @param {Target} target @param {any[]} inputs @param {number} seed
 * @returns {Promise<unknown>}  null: the mutant was read, or refused with a proper BqError; otherwise the error
 */
export async function round({ read, wording }, inputs, seed) {
  const draw = drawFrom(seed);
  const input = mutate(inputs, draw);
  try {
    await read(input, draw);
    return null;
  } catch (/** @type {any} */ error) {
    const typed = error?.name === 'BqError' && error.code && error.message && (wording === false || !/\[object |(?<!found )undefined|NaN/.test(error.message)); // prettier-ignore
    return typed ? null : error;
  }
}
