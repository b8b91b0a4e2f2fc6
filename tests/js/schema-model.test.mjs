// Random schemas, held to ajv: BQ4_SEED=17 node --test tests/js/schema-model.test.mjs repeats those from one seed on, BQ4_SCHEMAS says how many.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareModels } from './schema-model.mjs';

const FROM = Number(process.env.BQ4_SEED ?? 1);
const COUNT = Number(process.env.BQ4_SCHEMAS ?? 60);

test(`texts of ${COUNT} random schemas from seed ${FROM} are valid, and only valid texts are accepted`, async (t) => {
  const { compiled, texts, valid, invalid, refused, differences } = await compareModels(FROM, COUNT);
  t.diagnostic(`${compiled} compiled, ${texts} texts, ${valid} valid values and ${invalid} others`);
  assert.deepEqual(differences, [], differences.join('\n'));
  assert.ok(refused.length <= COUNT / 4, refused.join('\n'));
});
