// Tests of the tables in docs/log/quality.md: measured rows are merged with those of the document.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  formatTable,
  mergeTables,
  parseTables,
  readAllDecodeRates,
  readDecodeRates,
  replaceSection,
} from '../../tools/quality/rows.mjs';

const document = readFileSync(new URL('../../docs/log/quality.md', import.meta.url), 'utf8');
const documentTables = /<!-- tables -->([^]*)<!-- end -->/.exec(document)[1].trim();

const row = { type: 'bq3a', method: 'searched', bits: 3.5, bytes: 4e6, perplexity: 15, kl: 0.25, top1: 0.5 };
const measured = {
  name: 'A model',
  reference: 10,
  predictions: 2000,
  reply: 'Blue | or\\not.',
  rows: [{ ...row, reply: 'Sky' }],
};
const v1 = { ...row, type: 'bq4', method: 'largest weight (v1)', bits: 5, perplexity: 12.5 };

test('tables of the document are equal after they were parsed and formatted', () => {
  const decodeRates = readAllDecodeRates();
  const formattedTables = parseTables(documentTables).map((table) => formatTable(table, decodeRates));
  assert.equal(formattedTables.join('\n\n'), documentTables);
});

test('rows are sorted by bits; other rows and replies of the same reference stay unchanged', () => {
  const before = formatTable({
    ...measured,
    rows: [v1, { ...row, type: 'bq8', bits: 8.5, kl: 0.123456, reply: 'a | b' }],
  });
  const lines = formatTable(mergeTables(measured, parseTables(before)[0])).split('\n');
  assert.deepEqual(lines.slice(4), [
    '| `bq3a` | searched | 3.50 | 4,000 | +50.00 % | 200 % | 0.25000 | 50.0 % |',
    '| `bq4` | largest weight (v1) | 5.00 | 4,000 | +25.00 % | 100 % | 0.25000 | 50.0 % |',
    '| `bq8` | searched | 8.50 | 4,000 | +50.00 % | 200 % | 0.12346 | 50.0 % |',
    '',
    '| type | rounded | “Why is the sky blue?”, greedy, 40 tokens |',
    '|---|---|---|',
    '| `f32` | the reference | Blue \\| or\\not. |',
    '| `bq3a` | searched | Sky |',
    '| `bq8` | searched | a \\| b |',
  ]);
});

test('mergeTables removes rows of another reference and replaces rows that were measured again', () => {
  const [before] = parseTables(formatTable({ ...measured, rows: [v1, { ...row, kl: 0.5 }] }));
  assert.deepEqual(mergeTables({ ...measured, predictions: 1000 }, before).rows, measured.rows);
  const rowKeys = mergeTables(measured, before).rows.map(({ type, kl }) => [type, kl]);
  assert.deepEqual(rowKeys, [
    ['bq3a', 0.25],
    ['bq4', 0.25],
  ]);
});

test('rows have the decode rate of their type on each measured kind of machine; mixed types have none', () => {
  const benchmark = `## Types

| stored | bits | relaxed decode | relaxed16 decode |
|---|---|---|---|
| bq3a_64 | 3.5 | 0.92 | 1.25 |
| q4_0 | 4.5 | 1.00 | 1.01 |
`;
  const rows = [row, { ...row, type: 'mixed' }, { ...row, type: 'Q4_0', bits: 4.5 }];
  const decodeRates = [readDecodeRates('avx2', benchmark), readDecodeRates('vnni', benchmark)];
  const text = formatTable({ ...measured, reply: undefined, rows }, decodeRates);
  assert.match(text, /\| top-1 \| decode, AVX2 \| decode, VNNI \|/);
  assert.match(text, /`bq3a`.* 1\.25 \| 0\.92 \|\n.*`mixed`.* – \| – \|\n.*`Q4_0`.* 1\.01 \| 1\.00 \|/);
  // Decode rates are not parsed: each table gets the current ones.
  assert.equal(formatTable(parseTables(text)[0]), formatTable({ ...measured, reply: undefined, rows }));
});

test('replaceSection replaces each section that `npm run quality` writes', () => {
  for (const name of ['outliers', 'positions', 'kv', 'chats', 'replies']) {
    const [, table] = new RegExp(`<!-- ${name} -->\n\n([^]*?)\n\n<!-- end of ${name} -->`).exec(document);
    assert.match(table, /^\|.*\|\n\|[-|]+\|\n/);
    assert.equal(replaceSection(document, name, table), document);
    const other = replaceSection(document, name, '| a |');
    assert.ok(other.includes('| a |') && !other.includes(table));
  }
  assert.throws(
    () => replaceSection(document, 'nothing', ''),
    /expected <!-- nothing --> and <!-- end of nothing --> in the document/,
  );
});
