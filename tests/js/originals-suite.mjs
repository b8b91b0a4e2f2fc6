// Tokenizers that PyPI's tokenizers and sentencepiece train: bq4 gives the same tokens for random strings as these libraries. Without the
// two packages the tests are skipped.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readTokenizerFile } from '../../js/convert/tokenizer-files.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { modelRows } from '../models-report.mjs';
import { CONFIG, tinyModel } from './fixture.mjs';
import { gguf } from './gguf-writer.mjs';

const SCRIPT = fileURLToPath(new URL('../tools/original_tokenizers.py', import.meta.url));
const PYTHON = process.env.BQ4_PYTHON ?? 'python3';
export const HUGGING_FACE = [
  'gpt-2',
  'gpt-2-prefix',
  'neox',
  'llama-3',
  'qwen-2',
  'qwen-3.5',
  'nfkc',
  'nfkd',
  'gpt-4o',
  'deepseek-3',
  'starcoder',
  'falcon',
  'bloom',
  'added',
  'llama-2',
  'metaspace-first',
  'gemma',
  'gemma-3',
  'bert-uncased',
  'bert-cased',
  'unigram',
  'stripped',
  'stripped-end',
  'xlm-roberta',
  'albert',
];
export const SENTENCE_PIECE = [
  'sp-bpe',
  'sp-bpe-nfkc',
  'sp-bpe-rows',
  'sp-unigram',
  'sp-unigram-bytes',
  'sp-unigram-folded',
];

/** The reason why the original libraries cannot run, or false. */
export const lacksOriginals = () =>
  spawnSync(PYTHON, ['-c', 'import tokenizers, sentencepiece']).status !== 0 &&
  `${PYTHON} lacks the packages tokenizers and sentencepiece (tools/requirements-test.txt)`;

/** Runs tests/tools/original_tokenizers.py. @param {...string} args */
export const runOriginals = (...args) => execFileSync(PYTHON, ['-B', SCRIPT, ...args]);

/** Texts and their tokens. @param {string} path  of a file that the script has written @returns {{ text: string, ids: number[] }[]} */
export function readCases(path) {
  const bytes = readFileSync(path);
  let at = 4;
  return Array.from({ length: bytes.readUInt32LE(0) }, () => {
    const [size, count] = [bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4)];
    const text = bytes.toString('utf8', at + 8, (at += 8 + size));
    const ids = Array.from({ length: count }, (_, i) => bytes.readUInt32LE(at + 4 * i));
    at += 4 * count;
    return { text, ids };
  });
}

/** Declares the tests. @param {number} strings  number of strings for each tokenizer @param {boolean} [report]  whether the rows of docs/MODELS.md are written */
export function originalsSuite(strings, report = false) {
  const missing = lacksOriginals();
  const folder = mkdtempSync(join(tmpdir(), 'bq4-originals-'));
  if (!missing) runOriginals(folder, String(strings));
  /** @type {{ tokenizer: string, source: string, cases: number, against: string }[]} */
  const rows = [];
  after(() => {
    rmSync(folder, { recursive: true });
    if (report && !missing) modelRows('tokenizers', 'originals', rows);
  });
  for (const name of [...HUGGING_FACE, ...SENTENCE_PIECE]) {
    test(`${name}: the tokens of ${strings} random strings`, { skip: missing, timeout: 300_000 }, async () => {
      const tokenizerFolder = join(folder, name);
      const cases = readCases(join(tokenizerFolder, 'cases'));
      assert.equal(cases.length, strings);
      const isHuggingFace = HUGGING_FACE.includes(name);
      const sources = isHuggingFace
        ? ['tokenizer.json', ...gemmaFile(tokenizerFolder, name)]
        : ['tokenizer.model', ...ggufFile(tokenizerFolder, name)];
      for (const source of sources) {
        await compare(join(tokenizerFolder, source), cases, isHuggingFace);
        rows.push({
          tokenizer: name,
          source: source.endsWith('.gguf') ? 'GGUF' : source,
          cases: cases.length,
          against: isHuggingFace ? 'PyPI tokenizers' : 'PyPI sentencepiece',
        });
      }
    });
  }
}

/**
 * Compares the tokens of bq4 with the expected ones.
 * @param {string} path  of a tokenizer
 * @param {{ text: string, ids: number[] }[]} cases
 * @param {boolean} [parseSpecial]  whether special tokens in texts are recognized: by Hugging Face's library always, by SentencePiece never
 */
export async function compare(path, cases, parseSpecial = true) {
  const tokens = await readTokenizerFile(path, { vocab: 0 });
  const engine = await createEngine({ threads: 1 });
  try {
    const sizes = { layers: 1, hidden: 8, heads: 1, kv_heads: 1, ffn: 8, vocab: tokens.tokens.length };
    const context = cases.reduce((maximum, { text }) => Math.max(maximum, text.length), 256);
    const bytes = await tinyModel({ config: { ...CONFIG, ...sizes, context }, tokens, chat: null });
    const model = await engine.load(fromBytes(bytes), { contextTokens: context });
    for (const { text, ids } of cases)
      assert.deepEqual(
        await model.tokenize(text, { addSpecial: false, parseSpecial }),
        ids,
        `${path}: ${JSON.stringify(text.slice(0, 4000))}`,
      );
  } finally {
    await engine.close();
  }
}

/** Writes Gemma's tokenizer as metadata of a GGUF file, in the form of Gemma 4. @param {string} folder @param {string} name @returns {string[]} the name of the file; [] for other tokenizers */
function gemmaFile(folder, name) {
  if (!name.startsWith('gemma')) return [];
  const { model, added_tokens: added } = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8'));
  const byId = new Map(Object.entries(model.vocab).map(([text, id]) => [id, text]));
  const tokens = Array.from({ length: byId.size }, (_, id) => byId.get(id));
  /** @type {number[]} */
  const types = tokens.map((text) => (/^<0x[0-9A-F]{2}>$/.test(String(text)) ? 6 : 1));
  for (const { id, special } of added) types[id] = special ? 3 : 4;
  const merges = model.merges.map((/** @type {any} */ pair) => (Array.isArray(pair) ? pair.join(' ') : pair));
  writeFileSync(
    join(folder, 'gemma4.gguf'),
    gguf(
      {
        'tokenizer.ggml.model': ['text', 'gemma4'],
        'tokenizer.ggml.tokens': ['array', ['text', tokens]],
        'tokenizer.ggml.token_type': ['array', ['i32', types]],
        'tokenizer.ggml.merges': ['array', ['text', merges]],
        'tokenizer.ggml.unknown_token_id': ['u32', model.vocab['<unk>']],
        'tokenizer.ggml.bos_token_id': ['u32', model.vocab['<s>']],
        'tokenizer.ggml.add_bos_token': ['bool', false],
      },
      [],
    ),
  );
  return ['gemma4.gguf'];
}

/** Writes a SentencePiece tokenizer as metadata of a GGUF file. @param {string} folder @param {string} name @returns {string[]} the name of the file; [] for BPE with normalization, which GGUF does not have */
function ggufFile(folder, name) {
  const { charsmap, ...pieces } = JSON.parse(readFileSync(join(folder, 'gguf.json'), 'utf8'));
  const unigram = name.includes('unigram');
  if (!unigram && charsmap.length) return [];
  /** @type {Record<string, import('./gguf-writer.mjs').Value>} */
  const metadata = {
    model: ['text', unigram ? 't5' : 'llama'],
    pre: ['text', 'default'],
    tokens: ['array', ['text', pieces.tokens]],
    scores: ['array', ['f32', pieces.scores]],
    token_type: ['array', ['i32', pieces.types]],
    unknown_token_id: ['u32', pieces.unk],
    eos_token_id: ['u32', pieces.eos],
    add_space_prefix: ['bool', pieces.prefix],
    remove_extra_whitespaces: ['bool', pieces.rows],
    ...(charsmap.length && { precompiled_charsmap: ['array', ['u8', charsmap]] }),
  };
  const entries = Object.entries(metadata).map(
    ([key, value]) => /** @type {const} */ ([`tokenizer.ggml.${key}`, value]),
  );
  writeFileSync(join(folder, 'tokenizer.gguf'), gguf(Object.fromEntries(entries), []));
  return ['tokenizer.gguf'];
}
