// `node_modules/.bin/node tests/bench/tokenizers.mjs [TEXT]`: measures the speed of model.tokenize with one thread, with TEXT or the
// documents of the repository in parts of 16 KB (minima of some rounds), and the time of a megabyte of one letter relative to a quarter of
// it. The tokenizers are trained by PyPI's tokenizers and sentencepiece (BQ4_PYTHON: a Python with these packages), belong to the two real
// models if these are installed, or have the vocabularies of Llama 3, Qwen 3 and Gemma 3.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readTokenizerFile } from '../../js/convert/tokenizer-files.js';
import { KIND } from '../../js/text/tokenizers/section.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { realModel } from '../../tools/setup/models.mjs';
import { CONFIG, tinyModel } from '../js/fixture.mjs';
import { vocabularies } from '../tools/vocabularies.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const [PART_LENGTH, ROUNDS] = [16384, 15];
/** Bytes of the text of one letter, and its rounds. */
const [LONG, LETTER_ROUNDS] = [2 ** 20, 5];
/** Names in tests/tools/original_tokenizers.py, two of each kind. */
const TRAINED = ['gpt-2', 'llama-3', 'llama-2', 'sp-bpe', 'unigram', 'sp-unigram', 'bert-uncased', 'bert-cased'];

function documents() {
  const list = readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort();
  return list.map((name) => readFileSync(join(ROOT, 'docs', name), 'utf8')).join('\n');
}

/** @param {string} text */
function splitText(text) {
  const parts = [];
  for (let at = 0; at < text.length; at += PART_LENGTH) parts.push(text.slice(at, at + PART_LENGTH));
  return parts;
}

/** Returns the minimum milliseconds of each text over some rounds. @param {any} model @param {string[]} texts @param {number} rounds */
async function measureMinimum(model, texts, rounds) {
  const minimum = texts.map(() => Infinity);
  for (let round = 0; round < rounds; round++)
    for (const [i, text] of texts.entries()) {
      const since = performance.now();
      await model.tokenize(text);
      minimum[i] = Math.min(minimum[i], performance.now() - since);
    }
  return minimum;
}

/** @param {string} name @param {import('../../js/text/tokenizers/section.js').Tokenizer} tokens @param {string[]} parts */
async function measure(name, tokens, parts) {
  const engine = await createEngine({ threads: 1 });
  const sizes = { layers: 1, hidden: 8, heads: 1, kv_heads: 1, ffn: 8, vocab: tokens.tokens.length, context: LONG };
  const file = await tinyModel({ config: { ...CONFIG, ...sizes }, tokens, chat: null });
  const model = await engine.load(fromBytes(file), { contextTokens: LONG });
  const bytes = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
  let count = 0;
  for (const part of parts) count += (await model.tokenize(part)).length;
  const ms = (await measureMinimum(model, parts, ROUNDS)).reduce((a, b) => a + b, 0);
  const letters = [LONG / 4, LONG].map((n) => 'a'.repeat(n));
  const [quarter, full] = await measureMinimum(model, letters, LETTER_ROUNDS);
  await engine.close();
  const kind = Object.keys(KIND)[tokens.kind - 1];
  console.log(
    `${name.padEnd(14)}${kind.padEnd(11)}${String(tokens.tokens.length).padStart(7)}${(bytes / 1e3 / ms).toFixed(1).padStart(8)} MB/s${(bytes / count).toFixed(2).padStart(7)} bytes per token; of one letter${(LONG / 1e3 / full).toFixed(1).padStart(6)} MB/s, ${(full / quarter).toFixed(1)} times as long as a quarter`,
  );
}

const text = process.argv[2] ? readFileSync(process.argv[2], 'utf8') : documents();
const parts = splitText(text);
console.log(`tokenizer     kind        tokens    rate, of ${(Buffer.byteLength(text) / 1e3).toFixed(0)} KB`);
const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
try {
  for (const name of TRAINED) {
    execFileSync(process.env.BQ4_PYTHON ?? 'python3', [
      '-B',
      join(ROOT, 'tests/tools/original_tokenizers.py'),
      folder,
      '1',
      name,
    ]);
    const json = join(folder, name, 'tokenizer.json');
    await measure(
      name,
      await readTokenizerFile(existsSync(json) ? json : join(folder, name, 'tokenizer.model'), { vocab: 0 }),
      parts,
    );
  }
  const real = {
    SmolLM2: realModel('smollm2'),
    MiniLM: realModel('minilm') && join(/** @type {string} */ (realModel('minilm')), 'tokenizer.json'),
  };
  const { paths = {} } = await vocabularies(['llama3', 'qwen3', 'gemma3']);
  for (const [name, path] of Object.entries({ ...real, ...paths })) {
    if (path) await measure(name, await readTokenizerFile(path, { vocab: 0 }), parts);
    else console.log(`${name.padEnd(14)}not installed: npm run models`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
