// As cache-model.test.mjs, with seeds from BQ4_SEED (100) on, BQ4_SEEDS (30) of them: the same in each run.
import { test } from 'node:test';
import { makeVersions, runCacheSequence } from './cache-model.mjs';

const first = Number(process.env.BQ4_SEED ?? 100);
const seeds = Array.from({ length: Number(process.env.BQ4_SEEDS ?? 30) }, (_, i) => first + i);
const versions = await makeVersions();

for (const seed of seeds)
  test(`cached bytes and requests match their model, seed ${seed}`, () => runCacheSequence(seed, 30, versions));
