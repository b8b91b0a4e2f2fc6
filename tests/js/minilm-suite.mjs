// Tests of all-MiniLM-L6-v2, converted from its Hugging Face folder: its vectors are compared with those of sentence-transformers on 500
// sentences (tests/golden/make_embeddings.py).
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { f16ToNumber } from '../../js/format/bq4/half.js';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';

const GOLDEN = fileURLToPath(new URL('../golden/embeddings/', import.meta.url));
/** @type {{ sentences: string[], hidden: number }} */
export const { sentences, hidden } = JSON.parse(readFileSync(join(GOLDEN, 'sentences.json'), 'utf8'));
const halves = new Uint16Array(Uint8Array.from(readFileSync(join(GOLDEN, 'minilm.f16'))).buffer);
export const minilm = realModel('minilm');

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function cosine(a, b) {
  const dot = (/** @type {ArrayLike<number>} */ x, /** @type {ArrayLike<number>} */ y) =>
    Array.from(x).reduce((sum, v, i) => sum + v * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

/** Cosine similarity of a vector and the vector of sentence-transformers. @param {ArrayLike<number>} vector @param {number} i  number of the sentence */
export const referenceSimilarity = (vector, i) =>
  cosine(vector, Array.from(halves.subarray(i * hidden, (i + 1) * hidden), f16ToNumber));

/** Declares the tests. @param {number} every  every n-th sentence is compared, and each sentence that is truncated */
export function cosinesSuite(every) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-minilm-'));
  after(() => rmSync(folder, { recursive: true }));
  for (const [quant, minCosine] of /** @type {[string, number][]} */ ([
    ['f32', 0.9999],
    ['bq8', 0.995],
  ]))
    test(
      `${quant}: cosines of at least ${minCosine}; texts are truncated at the same length as by sentence-transformers`,
      { skip: !minilm && NO_REAL_MODEL, timeout: 200_000 },
      async (t) => {
        const path = join(folder, `${quant}.bq4`);
        await convert(/** @type {string} */ (minilm), path, { quant });
        const engine = await createEngine({ threads: 1 });
        const model = await engine.load(fromFile(path));
        assert.deepEqual(model.info.embedding, { pooling: 'mean', normalize: true, tokens: 256, width: 384 });
        const longest = Math.max(...sentences.map(({ length }) => length));
        const selection = [...sentences.keys()].filter((i) => i % every === 0 || sentences[i].length === longest);
        const { vectors, tokens, truncated } = await model.embed(selection.map((i) => sentences[i]));
        const cosines = vectors.map((vector, i) => referenceSimilarity(vector, selection[i]));
        const worst = cosines.indexOf(Math.min(...cosines));
        t.diagnostic(
          `${quant}: minimum ${cosines[worst].toFixed(6)}, mean ${(cosines.reduce((a, b) => a + b, 0) / cosines.length).toFixed(6)}`,
        );
        assert.ok(
          cosines[worst] >= minCosine,
          `expected at least ${minCosine}, found ${cosines[worst]} for "${sentences[selection[worst]]}"`,
        );
        assert.ok(truncated.length > 0 && truncated.every((i) => tokens[i] === 256));
        await engine.close();
      },
    );
}
