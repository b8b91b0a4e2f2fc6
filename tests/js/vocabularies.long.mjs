// The vocabularies that Llama 3, Qwen 3 and Gemma 3 really have (tests/tools/vocabularies.mjs): what PyPI's tokenizers makes of random
// strings, and llama.cpp of its own cases, ours in wasm makes too.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { modelRows } from '../models-report.mjs';
import { vocabularies } from '../tools/vocabularies.mjs';
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

const { paths, missing } = await vocabularies();
const folder = mkdtempSync(join(tmpdir(), 'bq4-vocabularies-'));
/** @type {{ tokenizer: string, source: string, cases: number, against: string }[]} */
const rows = [];
after(() => {
  rmSync(folder, { recursive: true });
  if (rows.length) modelRows('tokenizers', 'vocabularies', rows);
});

for (const [name, [title, shared]] of Object.entries(MODELS)) {
  test(`${title}: ids of ${STRINGS} random strings`, { skip: missing ?? lacksOriginals() }, async (t) => {
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
