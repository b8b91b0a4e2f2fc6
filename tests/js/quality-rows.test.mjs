// Tables of docs/log/quality.md: rows that are measured join those that the document has.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { between, joined, markdown, speedsIn, speedsOf, tablesIn } from '../../tools/quality/rows.mjs';

const document = readFileSync(new URL('../../docs/log/quality.md', import.meta.url), 'utf8');
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
  const speeds = speedsOf();
  const again = tablesIn(written).map((table) => markdown(table, speeds));
  assert.equal(again.join('\n\n'), written);
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

test('how fast a type is on each kind of machine that was measured; of a mixture nothing is known', () => {
  const printed = `## Types

| stored | bits | relaxed decode | relaxed16 decode |
|---|---|---|---|
| bq3a_64 | 3.5 | 0.92 | 1.25 |
| q4_0 | 4.5 | 1.00 | 1.01 |
`;
  const rows = [row, { ...row, type: 'mixed' }, { ...row, type: 'Q4_0', bits: 4.5 }];
  const speeds = [speedsIn('avx2', printed), speedsIn('vnni', printed)];
  const text = markdown({ ...found, says: undefined, rows }, speeds);
  assert.match(text, /\| top-1 \| decode, AVX2 \| decode, VNNI \|/);
  assert.match(text, /`bq3a`.* 1\.25 \| 0\.92 \|\n.*`mixed`.* – \| – \|\n.*`Q4_0`.* 1\.01 \| 1\.00 \|/);
  // Read again they are what they were, with whatever is measured by then.
  assert.equal(markdown(tablesIn(text)[0]), markdown({ ...found, says: undefined, rows }));
});

test('each section that `npm run quality` writes has its place in the document', () => {
  for (const name of ['outliers', 'positions', 'kv', 'chats', 'replies']) {
    const [, table] = new RegExp(`<!-- ${name} -->\n\n([^]*?)\n\n<!-- end of ${name} -->`).exec(document);
    assert.match(table, /^\|.*\|\n\|[-|]+\|\n/);
    assert.equal(between(document, name, table), document);
    const other = between(document, name, '| a |');
    assert.ok(other.includes('| a |') && !other.includes(table));
  }
  assert.throws(() => between(document, 'nothing', ''), /no place for nothing/);
});
