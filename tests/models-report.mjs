// Rows of docs/MODELS.md, written by the tests that know them: `node tools/models-doc.mjs` makes the document of what the last test run left,
// and a whole run ends by comparing it with these (tools/test.mjs, js-long).
//
//     modelRows('architectures', 'llama', [{ architecture: 'LLaMA 2, 3', source: 'GGUF', error: 3.1e-5, against: 'transformers 5.23' }]);
//
// | table | a row |
// |---|---|
// | `architectures` | `architecture`, `source` ("safetensors", "GGUF"), `error` (largest of any logit, a number), `against` |
// | `tokenizers` | `tokenizer`, `source` ("tokenizer.json", "GGUF", …), `cases` (how many texts gave equal ids), `against` |
// | `types` | `type` (GGUF's name), `bits` (per weight, in the file), `run` (what it becomes), `memory` (bits there), `exact` ("bit for bit" or why not), `against` |
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../build/reports/models/', import.meta.url));

/** Where the rows come from, TABLE.NAME: without one of these the document would lack what it had. */
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
 * All rows of a test, none of which was skipped.
 * @param {'architectures' | 'tokenizers' | 'types'} table
 * @param {string} name  of the test's rows: it replaces those of its last run
 * @param {Record<string, string | number>[]} rows
 */
export function modelRows(table, name, rows) {
  assert.ok(REPORTS.includes(`${table}.${name}`), `${table}.${name} is no report of docs/MODELS.md`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}${table}.${name}.json`, `${JSON.stringify({ table, rows }, null, 1)}\n`);
}
