// Rows of docs/MODELS.md, written by the tests that measure them. `node tools/models-doc.mjs` writes the document from the rows of the last
// test run; a complete run compares the document with its rows at the end (tools/test.mjs, js-long).
//
//     modelRows('architectures', 'llama', [{ architecture: 'LLaMA 2, 3', source: 'GGUF', error: 3.1e-5, against: 'transformers 5.23' }]);
//
// | table | fields of a row |
// |---|---|
// | `architectures` | `architecture`, `source` ("safetensors", "GGUF"), `error` (largest error of a logit, a number), `against` |
// | `tokenizers` | `tokenizer`, `source` ("tokenizer.json", "GGUF", …), `cases` (number of texts with equal tokens), `against` |
// | `types` | `type` (GGUF's name), `bits` (per weight, in the file), `run` (compute type), `memory` (bits per weight in memory), `exact` ("bit for bit" or the reason why not), `against` |
//
// `against` names the program that the test compares with.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../build/reports/models/', import.meta.url));

/** Reports of which the document consists, as TABLE.NAME; tools/models-doc.mjs requires all of them. */
export const REPORTS = [
  'architectures.safetensors',
  'architectures.gguf',
  'architectures.embeddings',
  'architectures.encoders',
  'architectures.rerankers',
  'architectures.embedders',
  'tokenizers.shared',
  'tokenizers.originals',
  'tokenizers.vocabularies',
  'types.gguf',
];

/**
 * Writes a report. A test calls it only if it has skipped no row.
 * @param {'architectures' | 'tokenizers' | 'types'} table
 * @param {string} name  of the report; it replaces the one of the last run
 * @param {Record<string, string | number>[]} rows  all rows of the report
 */
export function modelRows(table, name, rows) {
  assert.ok(
    REPORTS.includes(`${table}.${name}`),
    `expected a report of docs/MODELS.md (REPORTS), found ${table}.${name}`,
  );
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}${table}.${name}.json`, `${JSON.stringify({ table, rows }, null, 1)}\n`);
}

/**
 * Returns the program that computed the logits of a fixture: some models are in no library, and are written out in PyTorch
 * (tests/golden/make_fixtures.py).
 * @param {string} fixture @param {{ torch: string, transformers: string }} versions
 */
export const referenceOf = (fixture, { torch, transformers }) =>
  /^(bullet|custom-|(jais|spark)$)/.test(fixture) ? `PyTorch ${torch}` : `transformers ${transformers}`;
