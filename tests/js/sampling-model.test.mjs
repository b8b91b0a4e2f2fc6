// Random sampling options, compared with a small sampler; many more: sampling-model.long.mjs. BQ4_SEED=n runs one of them.
import { test } from 'node:test';
import { compareSampling } from './sampling-model.mjs';

const seeds = process.env.BQ4_SEED ? [Number(process.env.BQ4_SEED)] : Array.from({ length: 150 }, (_, i) => 1 + i);

test('tokens are those of a small sampler with the same logits, options and seed', () => compareSampling(seeds));
