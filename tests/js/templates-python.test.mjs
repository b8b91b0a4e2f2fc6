// Random templates: what ours makes of them is what Python's jinja2 makes of them (tests/js/templates-suite.mjs).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, hasJinja } from './templates-suite.mjs';

const SEED = Number(process.env.BQ4_SEED ?? 20261126);

test(
  '4,000 random templates give what jinja2 gives, or are refused',
  { skip: hasJinja ? false : 'Python has no jinja2' },
  (t) => {
    const { equal, refused, both, wrong } = compare(SEED, 4000);
    t.diagnostic(`seed ${SEED}: ${equal} equal, ${both} refused by both, ${refused} by ours alone`);
    assert.deepEqual(wrong, [], `BQ4_SEED=${SEED} makes these again`);
    assert.ok(equal > 1500 && refused < equal / 20, `${refused} of ${equal + refused} are refused`);
  },
);
