// As fuzz-parsers.test.mjs, with other seeds and more of them: BQ4_FUZZ_SEED and BQ4_FUZZ_ROUNDS choose others.
process.env.BQ4_FUZZ_SEED ??= '100000';
process.env.BQ4_FUZZ_ROUNDS ??= '800';
await import('./fuzz-parsers.test.mjs');
