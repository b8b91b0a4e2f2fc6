// `node_modules/.bin/node tests/bench/tokenizers.mjs [TEXT]`: how fast texts become tokens, in wasm, one thread, through model.tokenize: of
// TEXT, or of the repository's documents, in pieces of 16 KB, each one's best of some rounds; and how much longer a megabyte of one
// letter takes than a quarter of it. Of tokenizers that PyPI's tokenizers and sentencepiece train, of those of the two real
// models where these are here, and of the vocabularies of Llama 3, Qwen 3 and Gemma 3. BQ4_PYTHON: a Python with these packages.
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
const [PIECE, ROUNDS] = [16384, 15];
/** Bytes of a text of one letter. */
const [LONG, LETTER_ROUNDS] = [2 ** 20, 5];
/** Names of tests/tools/original_tokenizers.py: two of each kind. */
const TRAINED = ['gpt-2', 'llama-3', 'llama-2', 'sp-bpe', 'unigram', 'sp-unigram', 'bert-uncased', 'bert-cased'];

function documents() {
  const list = readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort();
  return list.map((name) => readFileSync(join(ROOT, 'docs', name), 'utf8')).join('\n');
}

/** @param {string} text */
function piecesOf(text) {
  const pieces = [];
  for (let at = 0; at < text.length; at += PIECE) pieces.push(text.slice(at, at + PIECE));
  return pieces;
}

/** Least milliseconds of each text, of some rounds. @param {any} model @param {string[]} texts @param {number} rounds */
async function leastOf(model, texts, rounds) {
  const least = texts.map(() => Infinity);
  for (let round = 0; round < rounds; round++)
    for (const [i, text] of texts.entries()) {
      const since = performance.now();
      await model.tokenize(text);
      least[i] = Math.min(least[i], performance.now() - since);
    }
  return least;
}

/** @param {string} name @param {import('../../js/text/tokenizers/section.js').Tokenizer} tokens @param {string[]} pieces */
async function measure(name, tokens, pieces) {
  const engine = await createEngine({ threads: 1 });
  const sizes = { layers: 1, hidden: 8, heads: 1, kv_heads: 1, ffn: 8, vocab: tokens.tokens.length, context: LONG };
  const file = await tinyModel({ config: { ...CONFIG, ...sizes }, tokens, chat: null });
  const model = await engine.load(fromBytes(file), { contextTokens: LONG });
  const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
  let count = 0;
  for (const piece of pieces) count += (await model.tokenize(piece)).length;
  const ms = (await leastOf(model, pieces, ROUNDS)).reduce((a, b) => a + b, 0);
  const letters = [LONG / 4, LONG].map((n) => 'a'.repeat(n));
  const [quarter, whole] = await leastOf(model, letters, LETTER_ROUNDS);
  await engine.close();
  const kind = Object.keys(KIND)[tokens.kind - 1];
  console.log(
    `${name.padEnd(14)}${kind.padEnd(11)}${String(tokens.tokens.length).padStart(7)}${(bytes / 1e3 / ms).toFixed(1).padStart(8)} MB/s${(bytes / count).toFixed(2).padStart(7)} bytes per token; of one letter${(LONG / 1e3 / whole).toFixed(1).padStart(6)} MB/s, ${(whole / quarter).toFixed(1)} times as long as a quarter`,
  );
}

const text = process.argv[2] ? readFileSync(process.argv[2], 'utf8') : documents();
const pieces = piecesOf(text);
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
      pieces,
    );
  }
  const real = {
    SmolLM2: realModel('smollm2'),
    MiniLM: realModel('minilm') && join(/** @type {string} */ (realModel('minilm')), 'tokenizer.json'),
  };
  const { paths = {} } = await vocabularies(['llama3', 'qwen3', 'gemma3']);
  for (const [name, path] of Object.entries({ ...real, ...paths })) {
    if (path) await measure(name, await readTokenizerFile(path, { vocab: 0 }), pieces);
    else console.log(`${name.padEnd(14)}not here: npm run models`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
