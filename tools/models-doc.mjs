#!/usr/bin/env node
// Writes docs/MODELS.md from the rows that the last test run wrote to build/reports/models (tests/models-report.mjs).
// With --check it writes nothing, and fails if the document differs. If rows are missing, since tests were skipped or not run,
// it writes and checks nothing and exits with status 2.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PATTERNS } from '../js/text/tokenizers/patterns.js';
import { GGUF_ARCHITECTURES } from '../js/format/families/index.js';
import { REPORTS } from '../tests/models-report.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TARGET = join(ROOT, 'docs/MODELS.md');

/** @typedef {Record<string, string | number>} Row */

/** Returns the path of a test's rows. @param {string} name */
const reportAt = (name) => join(ROOT, 'build/reports/models', `${name}.json`);

/** Formats a cell. Fractions below 0.1 have two digits. @param {string | number | undefined} value */
const formatCell = (value) =>
  value === undefined
    ? ''
    : typeof value === 'number' && !Number.isInteger(value) && value < 0.1
      ? value.toExponential(1)
      : String(value).replaceAll('|', '\\|');

/** Formats names as one line. @param {readonly string[]} names */
const formatNames = (names) => names.map((name) => `\`${name}\``).join(', ');

/** Tables of the document: heading, text above the table, and titles of the columns by key. @type {Record<string, [string, string, Record<string, string>]>} */
const TABLES = {
  architectures: [
    'Architectures',
    `For each architecture, a small random checkpoint is computed by bq4 and by the library in the last column. The largest difference is over the logits of all positions.\n\nThese names of architectures are supported in GGUF files (\`general.architecture\`). Architectures without a row below use the same computations as one with a row\n(\`tests/js/gguf-wild.test.mjs\`):\n\n${formatNames(Object.keys(GGUF_ARCHITECTURES))}\n\nThese names of pre-tokenizers are supported in GGUF files (\`tokenizer.ggml.pre\`):\n\n${formatNames(PATTERNS.flatMap(({ names }) => names))}`,
    { architecture: 'architecture', source: 'read from', error: 'largest difference', against: 'compared with' },
  ],
  tokenizers: [
    'Tokenizers',
    'For each tokenizer, the tokens of the given number of texts equal those of the library in the last column. Llama 2 and 3, Qwen 3, Gemma 3, GPT-2, BERT (bge), SmolLM2, MiniLM, stories260K and the bundled model are tested with their own vocabularies (for SmolLM2, the library reads a tokenizer.json converted from the GGUF file). The other vocabularies are trained by the tests; their names contain the rules for splitting and normalizing.',
    { tokenizer: 'tokenizer', source: 'read from', cases: 'texts', against: 'compared with' },
  ],
  types: [
    'Types of GGUF',
    'A storage type is converted to a compute type when it is loaded. *Decode* is the number of weights per second of one thread with relaxed SIMD, relative to Q4_0 (`docs/log/speed.md` in the repository, "What stored types cost"; floats, codes and small types were measured on another machine, without VNNI). An MXFP4 block whose scale is out of the range of f16 (below 2^-24 or above 2^15) is refused. Q8_1 and Q8_K are not used in files and are refused.',
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

/** Reads decode rates, by compute type, from the table in docs/log/speed.md. @returns {Map<string, string>} */
function decodeRates() {
  const sections = readFileSync(join(ROOT, 'docs/log/speed.md'), 'utf8').split(/^## /m);
  const lines = sections.filter((text) => /^[^\n]*What stored types cost/.test(text)).flatMap((t) => t.split('\n'));
  // Newer rows are first in the file. Later rows replace them, since these were measured on an idle machine.
  const cells = lines.map((line) => line.split('|').map((cell) => cell.trim()));
  return new Map(cells.filter(([, , bits]) => Number(bits) > 0).map(([, , , run, , decode]) => [run, decode]));
}

/** Reads the rows that tests wrote, by table. @returns {Map<string, Row[]>} */
function rowsByTable() {
  /** @type {Map<string, Row[]>} */
  const rowsOf = new Map();
  for (const name of REPORTS) {
    const { table, rows } = JSON.parse(readFileSync(reportAt(name), 'utf8'));
    rowsOf.set(table, [...(rowsOf.get(table) ?? []), ...rows]);
  }
  return rowsOf;
}

/**
 * Whether lines are equal except for small differences. Relaxed SIMD rounds sums differently on other processors, so
 * errors may differ by a factor below 2.
 * @param {string} a @param {string} b
 */
function areSimilar(a, b) {
  const [parts, otherParts] = [a, b].map((line) => line.split(/(\d\.\de-\d+)/));
  const close = (/** @type {number} */ p, /** @type {number} */ q) => p < 2 * q && q < 2 * p;
  return (
    parts.length === otherParts.length &&
    parts.every((part, i) => part === otherParts[i] || (i % 2 && close(Number(part), Number(otherParts[i]))))
  );
}

/** Returns a section of the document. @param {string} table  key of TABLES @param {Row[]} rows */
function renderTable(table, rows) {
  const [title, text, columns] = TABLES[table];
  const line = (/** @type {string[]} */ cells) => `| ${cells.join(' | ')} |\n`;
  const cells = rows
    .map((row) => Object.keys(columns).map((key) => formatCell(row[key])))
    .sort((a, b) => (a.join() < b.join() ? -1 : 1));
  return `## ${title}\n\n${text}\n\n${line(Object.values(columns))}${line(Object.keys(columns).map(() => '---'))}${cells.map(line).join('')}`;
}

const missingReports = REPORTS.filter((name) => !existsSync(reportAt(name)));
if (missingReports.length) {
  console.error(
    `expected rows in build/reports/models, found none of ${missingReports.join(', ')}: run npm test -- c js js-long`,
  );
  process.exit(2);
}
const tables = rowsByTable();
const decodeRateOf = decodeRates();
for (const row of tables.get('types') ?? []) row.decode = decodeRateOf.get(String(row.run)) ?? '–';
const expectedText = `# Models\n\nThis page lists the supported architectures, tokenizers and weight types, with the library that each was compared with. \`node tools/models-doc.mjs\` writes it from the\nresults of the tests. All others are refused; the error names what is unsupported, and lists what is supported. The [guide](guides/choose-a-model.md) describes how to choose a model.\n\n${Object.keys(
  TABLES,
)
  .map((table) => renderTable(table, tables.get(table) ?? []))
  .join('\n')}`;
if (!process.argv.includes('--check')) writeFileSync(TARGET, expectedText);
else {
  const [expectedLines, documentLines] = [expectedText, existsSync(TARGET) ? readFileSync(TARGET, 'utf8') : ''].map(
    (t) => t.split('\n'),
  );
  const difference = expectedLines.findIndex((line, i) => !areSimilar(line, documentLines[i] ?? ''));
  if (difference >= 0 || documentLines.length > expectedLines.length) {
    const line = difference >= 0 ? difference : expectedLines.length;
    console.error(`docs/MODELS.md, line ${line + 1}, differs from the measurements of the tests. To update it: node tools/models-doc.mjs
measured: ${expectedLines[line] ?? ''}
document: ${documentLines[line] ?? ''}`);
    process.exit(1);
  }
}
