// As model-based.test.mjs, with seeds from BQ4_SEED (1) on, BQ4_SEEDS (40) of them: the same in each run, so that what fails is what was changed.
import { after, test } from 'node:test';
import { ENGINES, Oracle, runSequences } from './model-based.mjs';

const oracle = new Oracle();
after(() => oracle.close());
const first = Number(process.env.BQ4_SEED ?? 1);
const seeds = Array.from({ length: Number(process.env.BQ4_SEEDS ?? 40) }, (_, i) => first + i);

for (const name of Object.keys(ENGINES))
  test(`sessions match their model: ${name}, ${seeds.length} sequences`, () => runSequences(name, seeds, 60, oracle));
