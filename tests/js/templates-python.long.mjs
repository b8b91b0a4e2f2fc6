// As templates-python.test.mjs, with more templates: the same in each run, so that what fails is what was changed. BQ4_SEED makes others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, COSTLY, hasJinja, largeValues, repeatOperation } from './templates-suite.mjs';

const SEED = Number(process.env.BQ4_SEED ?? 1);

test(
  '20,000 random templates give what jinja2 gives, or are refused',
  { skip: hasJinja ? false : 'Python has no jinja2' },
  (t) => {
    for (let i = 0; i < 2; i++) {
      const { equal, refused, both, wrong } = compare(SEED + i, 10_000);
      t.diagnostic(`seed ${SEED + i}: ${equal} equal, ${both} refused by both, ${refused} by ours alone`);
      assert.deepEqual(wrong, [], `BQ4_SEED=${SEED + i} makes these again`);
    }
  },
);

test('each operation on large values, again and again, is refused', () => {
  const values = largeValues();
  for (const operation of COSTLY)
    assert.match(repeatOperation(operation, values) ?? 'no error', /^the chat template failed: /, operation);
});
