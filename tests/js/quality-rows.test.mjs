// Tables of docs/QUALITY.md: rows that are measured join those that the document has.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { joined, markdown, tablesIn } from '../../tools/quality/rows.mjs';

const document = readFileSync(new URL('../../docs/QUALITY.md', import.meta.url), 'utf8');
const written = /<!-- tables -->([^]*)<!-- end -->/.exec(document)[1].trim();

const row = { type: 'bq3a', how: 'searched', bits: 3.5, bytes: 4e6, perplexity: 15, kl: 0.25, same: 0.5 };
const found = {
  name: 'A model',
  reference: 10,
  predicted: 2000,
  says: 'Blue | or\\not.',
  rows: [{ ...row, says: 'Sky' }],
};
const v1 = { ...row, type: 'bq4', how: 'largest weight (v1)', bits: 5, perplexity: 12.5 };

test('what the document says is read and written again', () => {
  assert.equal(tablesIn(written).map(markdown).join('\n\n'), written);
});

test('a row goes where its bits are; others of the same reference stay as they are, replies too', () => {
  const before = markdown({ ...found, rows: [v1, { ...row, type: 'bq8', bits: 8.5, kl: 0.123456, says: 'a | b' }] });
  const lines = markdown(joined(found, tablesIn(before)[0])).split('\n');
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

test('rows of another reference go, and a row that is measured again takes the place of the old one', () => {
  const [before] = tablesIn(markdown({ ...found, rows: [v1, { ...row, kl: 0.5 }] }));
  assert.deepEqual(joined({ ...found, predicted: 1000 }, before).rows, found.rows);
  const kept = joined(found, before).rows.map(({ type, kl }) => [type, kl]);
  assert.deepEqual(kept, [
    ['bq3a', 0.25],
    ['bq4', 0.25],
  ]);
});
