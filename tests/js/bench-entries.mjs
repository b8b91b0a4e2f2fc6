// Entries of benchmark results, for tests of the code that computes figures from them.
import assert from 'node:assert/strict';
import { nameOf, visitsOf } from '../../tools/bench/cells.mjs';

export const MACHINE = {
  cpu: 'Some CPU',
  cores: 2,
  memoryGB: 16,
  os: 'linux',
  flags: ['ssse3', 'avx2', 'avx_vnni'],
  node: 'v24',
};
export const PAYLOAD = {
  bq4: { 'bq4.wasm': { raw: 90_000, gzip: 40_000 } },
  peers: { 'wllama 3.8.1': { raw: 9_000_000, gzip: 2_500_000 } },
};

/** An entry with these rates of prefill and decode, in tokens per second. */
export function entry(visit, round, prefill, decode, facts = {}) {
  const cells = visit.cells.map(({ prompt, tokens }) => ({
    prompt,
    tokens,
    prefillMs: (prompt / prefill) * 1e3,
    decodeMs: (tokens / decode) * 1e3,
  }));
  return {
    name: nameOf(visit),
    subject: 'a',
    round,
    at: `2026-01-0${round + 1}T00:00:00Z`,
    ms: 1,
    visit,
    result: { facts: { loadMs: 100, ...facts }, cells },
  };
}

/** The only visit whose name matches. @param {string} pattern @param {boolean} [peers] */
export const visitNamed = (pattern, peers = true) => {
  const visits = visitsOf({ shapes: ['135m'], peers, only: pattern });
  assert.equal(visits.length, 1, pattern);
  return visits[0];
};

export const OURS = '^bq4 / bq4h.bq8 / 135m / 1t / kv i8 / best$';
export const NATIVE = '^native .*/ q4_0 / 135m / 1t .*best';
export const WLLAMA = '^wllama 3.8.1 / q4_0 / 135m / 1t';

export const LIMIT_FACTS = {
  limit: {
    ms: { step: 8, bare: 6, bareF32: 6.6, bareSimd128: 9, read: 4 },
    bytes: 80e6,
    bytesF32: 88e6,
    weights: 132e6,
  },
  traces: [
    {
      depth: 128,
      steps: 25,
      stepMs: 8.1,
      stages: [
        { stage: 'host', ms: 0.25, weightBytes: 0, kvBytes: 0 },
        { stage: 'norm', ms: 0.25, weightBytes: 0, kvBytes: 0 },
        { stage: 'attend', ms: 0.5, weightBytes: 0, kvBytes: 2e6 },
        { stage: 'head', ms: 7, weightBytes: 80e6, kvBytes: 0 },
      ],
    },
  ],
};
export const LIMIT = '^limit / bq4h.bq8 / 135m';

export const SHAPE = { hidden: 64, layers: 2, heads: 4, kv_heads: 2, ffn: 96, vocab: 700, context: 64, norm_eps: 1e-5 };
