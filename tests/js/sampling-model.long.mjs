// As sampling-model.test.mjs, with seeds from BQ4_SEED (1000) on, BQ4_SEEDS (4000) of them: the same in each run.
import { test } from 'node:test';
import { compareSampling } from './sampling-model.mjs';

const first = Number(process.env.BQ4_SEED ?? 1000);
const seeds = Array.from({ length: Number(process.env.BQ4_SEEDS ?? 4000) }, (_, i) => first + i);

test(`tokens are those of a small sampler, ${seeds.length} times`, () => compareSampling(seeds));
