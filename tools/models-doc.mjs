#!/usr/bin/env node
// Writes docs/MODELS.md of the rows that the last test run left under build/reports/models (tests/models-report.mjs).
// Rows of tests that were skipped (their packages were not there) are missing: run them first. `node tools/models-doc.mjs --check` fails where the document says something else.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PATTERNS } from '../js/convert/tokenizers/patterns.js';
import { ARCHITECTURES } from '../js/gguf/architectures.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const reports = join(root, 'build/reports/models');
const target = join(root, 'docs/MODELS.md');

/** @typedef {Record<string, string | number>} Row */

/** Two digits are enough of an error. @param {string | number | undefined} value */
const shown = (value) =>
  value === undefined
    ? ''
    : typeof value === 'number' && !Number.isInteger(value) && value < 0.1
      ? value.toExponential(1)
      : String(value).replaceAll('|', '\\|');

/** Heading, what it says, and columns: title by key. @type {Record<string, [string, string, Record<string, string>]>} */
const TABLES = {
  architectures: [
    'Architectures',
    `A small random checkpoint of each, its logits at every position against those of the library named. The largest difference is of any logit.\n\nGGUF files may say of \`general.architecture\`: ${Object.keys(ARCHITECTURES).join(', ')}. Those of them that have no row are made of what the others are computed with\n(tests/js/gguf-wild.test.mjs). \`tokenizer.ggml.pre\` may be any of ${PATTERNS.flatMap(({ names }) => names).join(', ')}.`,
    { architecture: 'architecture', source: 'read from', error: 'largest difference', against: 'compared with' },
  ],
  tokenizers: [
    'Tokenizers',
    'The ids of so many texts, equal to those of the library named. Llama 3, Qwen 3 and Gemma 3 have the vocabularies of those models; the others are trained by the tests, split and normalized as their names say.',
    { tokenizer: 'tokenizer', source: 'read from', cases: 'texts', against: 'compared with' },
  ],
  types: [
    'Types of GGUF',
    'What a type is computed with, whether its values are those of the library named, and what a token costs: weights per second of one thread with relaxed SIMD, Q4_0 being 1, as [SPEED.md](SPEED.md), "What stored types cost", has it for what the type becomes (floats and bq8k_32 were not measured there). IQ3_XXS and the IQ1, IQ2, TQ and MXFP4 types are refused by name: no type here holds all values of IQ3_XXS exactly, and values that are not those of the file are not made unasked.',
    {
      type: 'type',
      bits: 'bits per weight in the file',
      run: 'becomes',
      memory: 'bits in memory',
      decode: 'decode',
      exact: 'values',
      against: 'compared with',
    },
  ],
};

/** Decode rates by the type that is computed with, of the table in SPEED.md. @returns {Map<string, string>} */
function decodeRates() {
  const [, table = ''] =
    /## [^\n]*What stored types cost\n(.*?)\n## /s.exec(readFileSync(join(root, 'docs/SPEED.md'), 'utf8')) ?? [];
  const cells = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  return new Map(cells.filter(([, , bits]) => Number(bits) > 0).map(([, , , run, , decode]) => [run, decode]));
}

/** @returns {Map<string, Row[]>} */
function rowsByTable() {
  const files = existsSync(reports)
    ? readdirSync(reports)
        .filter((name) => name.endsWith('.json'))
        .sort()
    : [];
  /** @type {Map<string, Row[]>} */
  const all = new Map();
  for (const name of files) {
    const { table, rows } = JSON.parse(readFileSync(join(reports, name), 'utf8'));
    all.set(table, [...(all.get(table) ?? []), ...rows]);
  }
  return all;
}

/** Of the same comparison with more and with fewer cases that with more. @param {Row[]} rows */
function most(rows) {
  /** @type {Map<string, Row>} */
  const kept = new Map();
  for (const row of [...rows].sort((a, b) => Number(a.cases ?? 0) - Number(b.cases ?? 0)))
    kept.set(JSON.stringify({ ...row, cases: 0 }), row);
  return [...kept.values()];
}

/** @param {string} table @param {Row[]} rows */
function render(table, rows) {
  const [title, text, columns] = TABLES[table];
  const line = (/** @type {string[]} */ cells) => `| ${cells.join(' | ')} |\n`;
  const cells = most(rows)
    .map((row) => Object.keys(columns).map((key) => shown(row[key])))
    .sort((a, b) => (a.join() < b.join() ? -1 : 1));
  return `## ${title}\n\n${text}\n\n${line(Object.values(columns))}${line(Object.keys(columns).map(() => '---'))}${cells.map(line).join('')}`;
}

const all = rowsByTable();
const rates = decodeRates();
for (const row of all.get('types') ?? []) row.decode = rates.get(String(row.run)) ?? '–';
const missing = Object.keys(TABLES).filter((table) => !all.get(table)?.length);
if (missing.length) {
  console.error(`no rows of ${missing.join(', ')} under build/reports/models: run npm test first`);
  process.exit(1);
}
const document = `# Models\n\nWhat runs, and what was compared with what. Written by \`node tools/models-doc.mjs\` of what the tests measured; anything else is refused by\nname, with what is supported.\n\n${Object.keys(
  TABLES,
)
  .map((table) => render(table, all.get(table) ?? []))
  .join('\n')}`;
if (!process.argv.includes('--check')) writeFileSync(target, document);
else if (!existsSync(target) || readFileSync(target, 'utf8') !== document) {
  console.error('docs/MODELS.md is not what the tests measured: node tools/models-doc.mjs');
  process.exit(1);
}
