// The vocabularies that Llama 3, Qwen 3 and Gemma 3 really have (tests/tools/vocabularies.mjs): what PyPI's tokenizers makes of random
// strings, and llama.cpp of its own cases, ours in wasm makes too.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readTokenizerFile } from '../../js/convert/tokenizers/index.js';
import { createEngine, fromBytes } from '../../js/engine.js';
import { modelRows } from '../models-report.mjs';
import { vocabularies } from '../tools/vocabularies.mjs';
import { CONFIG, tinyModel } from './fixture.mjs';
import { lacksOriginals, readCases, runOriginals } from './originals-suite.mjs';

const STRINGS = 10_000;
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SHARED = join(process.env.BQ4_SHARED ?? join(ROOT, '../shared'), 'data/tokenizers');

/** Title, tokens, and llama.cpp's cases of the same vocabulary. @type {Record<'llama3' | 'qwen3' | 'gemma3', [string, number, string?]>} */
const MODELS = {
  llama3: ['Llama 3', 128_256, 'llama-bpe'],
  qwen3: ['Qwen 3', 151_669, 'qwen2'],
  gemma3: ['Gemma 3', 262_145],
};

/** llama.cpp's pairs of files. @param {string} name @returns {{ text: string, ids: number[] }[]} */
function ggmlCases(name) {
  const path = join(SHARED, `ggml-vocab-${name}.gguf`);
  const texts = readFileSync(`${path}.inp`, 'utf8').split('\n__ggml_vocab_test__\n').slice(0, -1);
  const lines = readFileSync(`${path}.out`, 'utf8').split('\n');
  return texts.map((text, i) => ({ text, ids: lines[i].split(' ').filter(Boolean).map(Number) }));
}

const { paths, missing } = await vocabularies();
const folder = mkdtempSync(join(tmpdir(), 'bq4-vocabularies-'));
/** @type {{ tokenizer: string, source: string, cases: number, against: string }[]} */
const rows = [];
after(() => {
  rmSync(folder, { recursive: true });
  if (rows.length) modelRows('tokenizers', 'vocabularies', rows);
});

for (const [name, [title, tokens, shared]] of Object.entries(MODELS)) {
  test(`${title}: ids of ${STRINGS} random strings`, { skip: missing ?? lacksOriginals() }, async (t) => {
    const path = /** @type {Record<string, string>} */ (paths)[name];
    runOriginals(folder, String(STRINGS), path);
    const own = await readTokenizerFile(path, { vocab: 0 });
    assert.equal(own.tokens.length, tokens);
    const engine = await createEngine();
    try {
      const config = { ...CONFIG, vocab: tokens, layers: 1, hidden: 8, heads: 1, kv_heads: 1, ffn: 8 };
      const model = await engine.load(fromBytes(await tinyModel({ config, tokens: own, chat: null })));
      /** @param {{ text: string, ids: number[] }[]} cases @param {string} against */
      const compare = async (cases, against) => {
        for (const { text, ids } of cases)
          assert.deepEqual(
            await model.tokenize(text, { addSpecial: false, parseSpecial: true }),
            ids,
            JSON.stringify(text),
          );
        rows.push({ tokenizer: title, source: 'tokenizer.json', cases: cases.length, against });
      };
      await compare(readCases(join(folder, 'cases')), 'PyPI tokenizers');
      const there = shared && existsSync(join(SHARED, `ggml-vocab-${shared}.gguf.inp`));
      if (there) await compare(ggmlCases(shared), 'llama.cpp');
      else if (shared) t.diagnostic(`without llama.cpp's cases: no ${SHARED}`);
    } finally {
      await engine.close();
    }
  });
}
