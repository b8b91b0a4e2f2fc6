// Tokenizers trained by PyPI's tokenizers and sentencepiece, and what those make of random strings: ours, in wasm, makes the
// same of them. Without the two packages the tests are skipped.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readTokenizerFile } from '../../js/convert/tokenizers/index.js';
import { createEngine, fromBytes } from '../../js/engine.js';
import { modelRows } from '../models-report.mjs';
import { CONFIG, tinyModel } from './fixture.mjs';

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

/** @param {number} strings  for each tokenizer @param {string} report  the file of the table's rows */
export function originalsSuite(strings, report) {
  const missing = lacksOriginals();
  const folder = mkdtempSync(join(tmpdir(), 'bq4-originals-'));
  /** @type {{ tokenizer: string, source: string, cases: number, against: string }[]} */
  const rows = [];
  after(() => {
    rmSync(folder, { recursive: true });
    if (rows.length) modelRows('tokenizers', report, rows);
  });
  for (const name of [...HUGGING_FACE, ...SENTENCE_PIECE]) {
    test(`${name}: ids of ${strings} random strings`, { skip: missing, timeout: 300_000 }, async () => {
      runOriginals(folder, String(strings), name);
      const json = join(folder, name, 'tokenizer.json');
      const path = existsSync(json) ? json : join(folder, name, 'tokenizer.model');
      const tokens = await readTokenizerFile(path, { vocab: 0 });
      const cases = readCases(join(folder, name, 'cases'));
      assert.equal(cases.length, strings);
      const engine = await createEngine();
      try {
        const config = { ...CONFIG, vocab: tokens.tokens.length };
        const model = await engine.load(fromBytes(await tinyModel({ config, tokens, chat: null })));
        // SentencePiece finds no control tokens in texts; Hugging Face's always does.
        const options = { addSpecial: false, parseSpecial: HUGGING_FACE.includes(name) };
        for (const { text, ids } of cases)
          assert.deepEqual(await model.tokenize(text, options), ids, JSON.stringify(text));
        rows.push({
          tokenizer: name,
          source: path === json ? 'tokenizer.json' : 'tokenizer.model',
          cases: cases.length,
          against: path === json ? 'PyPI tokenizers' : 'PyPI sentencepiece',
        });
      } finally {
        await engine.close();
      }
    });
  }
}
