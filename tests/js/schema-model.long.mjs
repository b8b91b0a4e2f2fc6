// As schema-model.test.mjs, with more schemas: the same in each run, so that what fails is what was changed. BQ4_SEED makes others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareModels } from './schema-model.mjs';

const FROM = Number(process.env.BQ4_SEED ?? 1000);
const COUNT = Number(process.env.BQ4_SCHEMAS ?? 1000);

test(`${COUNT} random schemas from seed ${FROM} on`, async (t) => {
  const { compiled, texts, valid, invalid, refused, differences } = await compareModels(FROM, COUNT);
  t.diagnostic(`${compiled} compiled, ${texts} texts, ${valid} valid values and ${invalid} others`);
  assert.deepEqual(differences, [], differences.join('\n'));
  assert.ok(refused.length <= COUNT / 4, refused.join('\n'));
});
