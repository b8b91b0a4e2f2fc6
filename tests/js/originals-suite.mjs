// Tokenizers trained by PyPI's tokenizers and sentencepiece, and what those make of random strings: ours, in wasm, makes the
// same of them. Without the two packages the tests are skipped.
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

/** Why nothing can be compared with the originals, or false. */
export const lacksOriginals = () =>
  spawnSync(PYTHON, ['-c', 'import tokenizers, sentencepiece']).status !== 0 &&
  `${PYTHON} lacks the packages tokenizers and sentencepiece (tools/requirements-test.txt)`;

/** @param {...string} args  of tests/tools/original_tokenizers.py */
export const runOriginals = (...args) => execFileSync(PYTHON, ['-B', SCRIPT, ...args]);

/** @param {string} path @returns {{ text: string, ids: number[] }[]} */
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

/** @param {number} strings  for each tokenizer @param {boolean} [report]  in docs/MODELS.md */
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
    test(`${name}: ids of ${strings} random strings`, { skip: missing, timeout: 300_000 }, async () => {
      const here = join(folder, name);
      const cases = readCases(join(here, 'cases'));
      assert.equal(cases.length, strings);
      const theirs = HUGGING_FACE.includes(name);
      const others = theirs
        ? ['tokenizer.json', ...gemmaFile(here, name)]
        : ['tokenizer.model', ...ggufFile(here, name)];
      for (const source of others) {
        await compare(join(here, source), cases, theirs);
        rows.push({
          tokenizer: name,
          source: source.endsWith('.gguf') ? 'GGUF' : source,
          cases: cases.length,
          against: theirs ? 'PyPI tokenizers' : 'PyPI sentencepiece',
        });
      }
    });
  }
}

/**
 * @param {string} path  of a tokenizer
 * @param {{ text: string, ids: number[] }[]} cases
 * @param {boolean} [parseSpecial]  SentencePiece finds no control tokens in texts, Hugging Face's always does
 */
export async function compare(path, cases, parseSpecial = true) {
  const tokens = await readTokenizerFile(path, { vocab: 0 });
  const engine = await createEngine({ threads: 1 });
  try {
    const sizes = { layers: 1, hidden: 8, heads: 1, kv_heads: 1, ffn: 8, vocab: tokens.tokens.length };
    const context = cases.reduce((most, { text }) => Math.max(most, text.length), 256);
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

/** Gemma's tokenizer as the metadata of a GGUF file has it since Gemma 4: the name of that file. @param {string} folder @param {string} name */
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

/** The same pieces in the metadata of a GGUF file, whose BPE knows no normalization: the names of those that there are. @param {string} folder @param {string} name */
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
  const named = Object.entries(metadata).map(([key, value]) => /** @type {const} */ ([`tokenizer.ggml.${key}`, value]));
  writeFileSync(join(folder, 'tokenizer.gguf'), gguf(Object.fromEntries(named), []));
  return ['tokenizer.gguf'];
}
