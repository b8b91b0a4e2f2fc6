// Random loads through the cache, compared with a small model; many more: cache-model.long.mjs. BQ4_SEED=n runs one of them.
import { test } from 'node:test';
import { makeVersions, runCacheSequence } from './cache-model.mjs';

const seeds = process.env.BQ4_SEED ? [Number(process.env.BQ4_SEED)] : [1, 2, 3, 4];
const versions = await makeVersions();

for (const seed of seeds)
  test(`cached bytes and requests match their model, seed ${seed}`, () => runCacheSequence(seed, 16, versions));
