// Tests of the published vocabularies of Llama 3, Qwen 3 and Gemma 3 (tests/tools/vocabularies.mjs), and those of SmolLM2 and MiniLM:
// random strings have the tokens of PyPI's tokenizers, and llama.cpp's test cases have its tokens.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { modelRows } from '../models-report.mjs';
import { vocabularies } from '../tools/vocabularies.mjs';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { readHeader } from '../../js/format/gguf/header.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { gguf } from './gguf-writer.mjs';
import { compare, lacksOriginals, readCases, runOriginals } from './originals-suite.mjs';

const STRINGS = 10_000;
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SHARED = join(process.env.BQ4_SHARED ?? join(ROOT, '../shared'), 'data/tokenizers');

/** Title, and what llama.cpp calls its way to split texts, and cases of the same vocabulary. @type {Record<string, [string, string?]>} */
const MODELS = { llama3: ['Llama 3', 'llama-bpe'], qwen3: ['Qwen 3', 'qwen2'], gemma3: ['Gemma 3'] };

/** llama.cpp's pairs of files. @param {string} name @returns {{ text: string, ids: number[] }[]} */
function ggmlCases(name) {
  const path = join(SHARED, `ggml-vocab-${name}.gguf`);
  const texts = readFileSync(`${path}.inp`, 'utf8').split('\n__ggml_vocab_test__\n').slice(0, -1);
  const lines = readFileSync(`${path}.out`, 'utf8').split('\n');
  return texts.map((text, i) => ({ text, ids: lines[i].split(' ').filter(Boolean).map(Number) }));
}

/** The same as the metadata of a GGUF file, as converters write a byte-level BPE. @param {string} path  of tokenizer.json @param {string} pre @returns {string} */
function ggufFile(path, pre) {
  const { model, added_tokens: added } = JSON.parse(readFileSync(path, 'utf8'));
  const pieces = Object.entries(model.vocab).map(([text, id]) => /** @type {[any, string, number]} */ ([id, text, 1]));
  for (const { id, content, special } of added) pieces.push([id, content, special ? 3 : 4]);
  const [tokens, types] = [1, 2].map((column) => {
    /** @type {any[]} */
    const list = [];
    for (const piece of pieces) list[piece[0]] = piece[column];
    return list;
  });
  const merges = model.merges.map((/** @type {string | string[]} */ merge) => [merge].flat().join(' '));
  const to = join(folder, `${pre}.gguf`);
  writeFileSync(
    to,
    gguf(
      {
        'tokenizer.ggml.model': ['text', 'gpt2'],
        'tokenizer.ggml.pre': ['text', pre],
        'tokenizer.ggml.tokens': ['array', ['text', tokens]],
        'tokenizer.ggml.token_type': ['array', ['i32', types]],
        'tokenizer.ggml.merges': ['array', ['text', merges]],
      },
      [],
    ),
  );
  return to;
}

const { paths, missing } = await vocabularies(['llama3', 'qwen3', 'gemma3']);
const folder = mkdtempSync(join(tmpdir(), 'bq4-vocabularies-'));
const [smollm2, minilm] = [realModel('smollm2'), realModel('minilm')];
const lacking = lacksOriginals();
/** @type {{ tokenizer: string, source: string, cases: number, against: string }[]} */
const rows = [];
after(() => {
  rmSync(folder, { recursive: true });
  if (paths && smollm2 && minilm && !lacking && existsSync(SHARED)) modelRows('tokenizers', 'vocabularies', rows);
});

for (const [name, [title, shared]] of Object.entries(MODELS)) {
  test(`${title}: ids of ${STRINGS} random strings`, { skip: missing ?? lacking }, async (t) => {
    const path = /** @type {Record<string, string>} */ (paths)[name];
    runOriginals(folder, String(STRINGS), path);
    const cases = [{ against: 'PyPI tokenizers', list: readCases(join(folder, 'cases')) }];
    if (shared && existsSync(SHARED)) cases.push({ against: 'llama.cpp', list: ggmlCases(shared) });
    else if (shared) t.diagnostic(`without llama.cpp's cases: no ${SHARED}`);
    const all = cases.flatMap(({ list }) => list);
    for (const from of shared ? [path, ggufFile(path, shared)] : [path]) {
      await compare(from, all);
      const source = from === path ? 'tokenizer.json' : 'GGUF';
      for (const { against, list } of cases) rows.push({ tokenizer: title, source, cases: list.length, against });
    }
  });
}

/** The other way round, as SmolLM2's own tokenizer.json says it: digits one by one, then GPT-2's words. @param {string} path  of GGUF @returns {Promise<string>} */
async function tokenizerJson(path) {
  const bytes = readFileSync(path);
  const { metadata } = await readHeader(openBytes(bytes), bytes);
  const [tokens, merges] = ['tokens', 'merges'].map((key) => [...metadata[`tokenizer.ggml.${key}`]]);
  const types = metadata['tokenizer.ggml.token_type'];
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const to = join(folder, 'smollm2.json');
  writeFileSync(
    to,
    JSON.stringify({
      version: '1.0',
      added_tokens: tokens.flatMap((content, id) =>
        types[id] === 3
          ? [{ id, content, special: true, single_word: false, lstrip: false, rstrip: false, normalized: false }]
          : [],
      ),
      normalizer: null,
      pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Digits', individual_digits: true }, byteLevel] },
      post_processor: null,
      decoder: byteLevel,
      model: { type: 'BPE', vocab: Object.fromEntries(tokens.map((text, id) => [text, id])), merges },
    }),
  );
  return to;
}

/** All of a text's tokens, and no others. @param {string} path */
function unpadded(path) {
  const to = join(folder, 'minilm.json');
  writeFileSync(to, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), padding: null, truncation: null }));
  return to;
}

const REAL = {
  SmolLM2: { model: smollm2, source: 'GGUF', file: String(smollm2), original: () => tokenizerJson(String(smollm2)) },
  MiniLM: {
    model: minilm,
    source: 'tokenizer.json',
    file: join(String(minilm), 'tokenizer.json'),
    original: async () => unpadded(join(String(minilm), 'tokenizer.json')),
  },
};
for (const [tokenizer, { model, source, file, original }] of Object.entries(REAL))
  test(
    `${tokenizer}: ids of ${STRINGS} random strings`,
    { skip: lacking || (model ? false : NO_REAL_MODEL) },
    async () => {
      runOriginals(folder, String(STRINGS), await original());
      const cases = readCases(join(folder, 'cases'));
      await compare(file, cases);
      rows.push({ tokenizer, source, cases: cases.length, against: 'PyPI tokenizers' });
    },
  );
