// See minilm-suite.mjs; minilm.long.mjs takes all sentences. And the same model as a GGUF file.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { f16FromNumber } from '../../js/format/bq4/half.js';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL } from '../../tools/setup/models.mjs';
import { gguf } from './gguf-writer.mjs';
import { cosinesSuite, minilm, referenceSimilarity, sentences } from './minilm-suite.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-minilm-'));
after(() => rmSync(folder, { recursive: true }));

cosinesSuite(10);

/** GGUF's names of modules by Hugging Face's. */
const MODULES = {
  'embeddings.word_embeddings': 'token_embd',
  'embeddings.position_embeddings': 'position_embd',
  'embeddings.token_type_embeddings': 'token_types',
  'embeddings.LayerNorm': 'token_embd_norm',
  'attention.self.query': 'attn_q',
  'attention.self.key': 'attn_k',
  'attention.self.value': 'attn_v',
  'attention.output.dense': 'attn_output',
  'attention.output.LayerNorm': 'attn_output_norm',
  'intermediate.dense': 'ffn_up',
  'output.dense': 'ffn_down',
  'output.LayerNorm': 'layer_output_norm',
};

/** The tensors of the folder in f16, norms, biases and tables in f32, as llama.cpp's converter has them. @param {string} path */
function tensorsOf(path) {
  const file = readFileSync(join(path, 'model.safetensors'));
  const from = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__: _, ...list } = JSON.parse(file.subarray(8, from).toString());
  return Object.entries(list).flatMap(([name, { shape, data_offsets: at }]) => {
    const [, layer, module, ending] = /^(?:encoder\.layer\.(\d+)\.)?(.+)\.(weight|bias)$/.exec(name) ?? [];
    const theirs = /** @type {Record<string, string>} */ (MODULES)[module];
    if (!theirs) return [];
    const bytes = Uint8Array.from(file.subarray(from + at[0], from + at[1]));
    const half = shape.length === 2 && !/^(position_embd|token_types)$/.test(theirs);
    return [
      {
        name: `${layer === undefined ? '' : `blk.${layer}.`}${theirs}.${ending}`,
        dims: shape,
        type: half ? 1 : 0,
        bytes: half ? new Uint8Array(Uint16Array.from(new Float32Array(bytes.buffer), f16FromNumber).buffer) : bytes,
      },
    ];
  });
}

/** @param {string} path @returns {Record<string, import('./gguf-writer.mjs').Value>} */
function metadataOf(path) {
  const words = readFileSync(join(path, 'vocab.txt'), 'utf8').trimEnd().split('\n');
  const control = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
  const id = (/** @type {string} */ word) =>
    /** @type {import('./gguf-writer.mjs').Value} */ (['u32', words.indexOf(word)]);
  const tokens = words.map((word) =>
    control.includes(word) ? word : word.startsWith('##') ? word.slice(2) : `\u2581${word}`,
  );
  return {
    'general.architecture': ['text', 'bert'],
    'bert.block_count': ['u32', 6],
    'bert.context_length': ['u32', 512],
    'bert.embedding_length': ['u32', 384],
    'bert.feed_forward_length': ['u32', 1536],
    'bert.attention.head_count': ['u32', 12],
    'bert.attention.layer_norm_epsilon': ['f32', 1e-12],
    'bert.attention.causal': ['bool', false],
    'bert.pooling_type': ['u32', 1],
    'tokenizer.ggml.token_type_count': ['u32', 2],
    'tokenizer.ggml.model': ['text', 'bert'],
    'tokenizer.ggml.pre': ['text', 'jina-v2-en'],
    'tokenizer.ggml.tokens': ['array', ['text', tokens]],
    'tokenizer.ggml.token_type': ['array', ['i32', words.map((word) => (control.includes(word) ? 3 : 1))]],
    'tokenizer.ggml.unknown_token_id': id('[UNK]'),
    'tokenizer.ggml.seperator_token_id': id('[SEP]'),
    'tokenizer.ggml.padding_token_id': id('[PAD]'),
    'tokenizer.ggml.cls_token_id': id('[CLS]'),
    'tokenizer.ggml.mask_token_id': id('[MASK]'),
  };
}

test(
  'as a GGUF file: the same tokens, cosines of at least 0.9999',
  { skip: !minilm && NO_REAL_MODEL, timeout: 200_000 },
  async () => {
    const source = /** @type {string} */ (minilm);
    const file = gguf(metadataOf(source), tensorsOf(source));
    const engine = await createEngine({ threads: 1 });
    const model = await engine.load(fromBytes(file));
    const { info } = model;
    assert.deepEqual(info.embedding, { pooling: 'mean', normalize: true, tokens: 512, width: 384 });
    const few = sentences.filter((text) => text.length < 200).slice(0, 30);
    const { vectors } = await model.embed(few);
    const path = join(folder, 'whole.bq4');
    await convert(source, path, { quant: 'f32' });
    const whole = await engine.load(fromFile(path));
    for (const [i, text] of few.entries()) {
      assert.deepEqual(await model.tokenize(text), await whole.tokenize(text), text);
      const near = referenceSimilarity(vectors[i], sentences.indexOf(text));
      assert.ok(near >= 0.9999, `${near}: ${text}`);
    }
    await engine.close();
  },
);
