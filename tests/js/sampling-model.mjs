// Random sampling options, and every token that comes compared with a small sampler: the chain of filters of c/session/sampler.c, written
// plainly. Logits are those of the engine; exponentials here are the platform's, so where a draw falls within a hair of a border both
// sides of it are right.
import assert from 'node:assert/strict';
import { createEngine } from '../../js/node.js';
import { fromBytes } from '../../js/index.js';
import { BYTE, tinyModel } from './fixture.mjs';
import { drawFrom } from './random-numbers.mjs';
import { openLogits } from './logits.mjs';

/** @typedef {import('../../js/index.js').GenerateOptions} GenerateOptions */
/** @typedef {{ id: number, value: number }} Candidate */

const CONTEXT = 64;
/** Part of a sum within which a border may lie on either side. */
const HAIR = 1e-5;
const bytes = await tinyModel();
const { fround } = Math;

/** SplitMix64, as fractions. @param {number} seed */
function random(seed) {
  let state = BigInt(seed);
  return () => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let z = state;
    z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return Number((z ^ (z >> 31n)) >> 11n) * 2 ** -53;
  };
}

/** What is added to the logit of each token. @param {GenerateOptions} options @param {number[]} arrivals  tokens of this generation */
function biases({ logitBias = [], presencePenalty = 0, frequencyPenalty = 0 }, arrivals) {
  /** @type {Map<number, number>} */
  const all = new Map();
  const add = (/** @type {number} */ id, /** @type {number} */ bias) => all.set(id, (all.get(id) ?? 0) + bias);
  for (const { token, bias } of logitBias) add(token, bias);
  for (const id of new Set(arrivals))
    if (presencePenalty || frequencyPenalty)
      add(id, -presencePenalty - frequencyPenalty * arrivals.filter((one) => one === id).length);
  return all;
}

/**
 * The tokens that may come next, of which there are several only where a draw falls on a border.
 * @param {Float32Array} logits @param {GenerateOptions} options @param {number[]} sequence @param {number} prompt  tokens of it
 * @param {() => number} draw
 * @returns {Set<number>}
 */
export function sampled(logits, options, sequence, prompt, draw) {
  const { temperature = 0.7, topK = 40, topP = 0.95, minP = 0, repeatPenalty = 1, repeatLast = 64 } = options;
  const bias = biases(options, sequence.slice(prompt));
  const recent = new Set(repeatLast ? sequence.slice(-repeatLast) : []);
  const penalty = fround(repeatPenalty);
  /** @type {Candidate[]} */
  const all = [...logits]
    .map((logit, id) => ({ id, value: bias.has(id) ? fround(logit + fround(bias.get(id) ?? 0)) : logit }))
    .filter(({ value }) => value > -Infinity)
    .map(({ id, value }) => {
      if (!(penalty > 0) || penalty === 1 || !recent.has(id)) return { id, value };
      return { id, value: fround(value > 0 ? value / penalty : value * penalty) };
    });
  const best = all.reduce((a, b) => (b.value > a.value ? b : a));
  const heat = fround(temperature);
  if (!(heat > 0)) return new Set([best.id]);
  const share = draw();
  if (topK === 1 || topP === 0) return new Set([best.id]);
  const warm = all.map(({ id, value }) => ({ id, value: fround(value / heat) }));
  const most = fround(best.value / heat);
  const weigh = (/** @type {Candidate} */ { id, value }) => ({ id, weight: Math.exp(value - most) });
  if (!topK && topP >= 1 && minP <= 0) return picked(warm.map(weigh), share);
  const ordered = warm.sort((a, b) => b.value - a.value || a.id - b.id).map(weigh);
  const kept = topK && topK < ordered.length ? ordered.slice(0, topK) : ordered;
  const total = kept.reduce((sum, { weight }) => sum + weight, 0);
  /** @type {Set<number>} */
  const found = new Set();
  for (const p of [1 - HAIR, 1, 1 + HAIR])
    for (const m of [1 - HAIR, 1, 1 + HAIR]) {
      let [n, sum] = [0, 0];
      const limit = topP < 1 ? fround(topP) * p * total : Infinity;
      while (n < kept.length && sum < limit && !(n && kept[n].weight < fround(minP) * m)) sum += kept[n++].weight;
      for (const id of picked(kept.slice(0, n), share)) found.add(id);
    }
  return found;
}

/** @param {{ id: number, weight: number }[]} kept @param {number} share  of their sum, where the draw fell */
function picked(kept, share) {
  const sum = kept.reduce((all, { weight }) => all + weight, 0);
  return new Set(
    [-HAIR, 0, HAIR].map((hair) => {
      let left = (share + hair) * sum;
      return (kept.find(({ weight }) => (left -= weight) < 0) ?? kept[kept.length - 1]).id;
    }),
  );
}

/** Options at random, each left out as often as not. @param {number} seed @returns {GenerateOptions} */
export function optionsOf(seed) {
  const next = drawFrom(seed);
  const one = (/** @type {any[]} */ ...values) => values[next(values.length)];
  const token = () => (next(3) ? BYTE + next(256) : next(271));
  const bias = () => one(-Infinity, -100, -3, 2.5, 6, 6, 12);
  const all = {
    temperature: one(0, 0.01, 0.3, 0.7, 1, 1.7, 5),
    topK: one(0, 1, 2, 5, 40, 270, 271, 100000),
    topP: one(0, 0.05, 0.5, 0.9, 0.95, 1),
    minP: one(0, 0.02, 0.1, 0.5, 1),
    repeatPenalty: one(0, 0.5, 1, 1.1, 1.5, 3),
    repeatLast: one(0, 1, 3, 64, 1000),
    logitBias: Array.from({ length: next(12) }, () => ({ token: token(), bias: bias() })),
    presencePenalty: one(-2, 0, 0.5, 2),
    frequencyPenalty: one(-1, 0, 0.3, 2),
    speculate: one('auto', true, false, { tokens: 3 }),
    maxTokens: one(1, 8, 24),
  };
  const given = Object.fromEntries(Object.entries(all).filter(() => next(2)));
  // Without any of these three all else is seldom seen: then one token has nearly all of the weight.
  return { ...given, seed: one(0, 1, next(2 ** 30), 2 ** 53), maxTokens: all.maxTokens };
}

/** Compares generations by random options with the sampler here. @param {number[]} seeds */
export async function compareSampling(seeds) {
  const engine = await createEngine({ threads: 1 });
  const reference = await openLogits(fromBytes(bytes), { contextTokens: CONTEXT });
  try {
    const model = await engine.load(fromBytes(bytes), { contextTokens: CONTEXT, kv: 'f32' });
    const session = await model.createSession();
    let several = 0;
    let tokens = 0;
    for (const seed of seeds) {
      const options = optionsOf(seed);
      const next = drawFrom(seed + 1_000_000);
      const prompt = Array.from({ length: 1 + next(12) }, () => BYTE + 97 + next(6));
      const { tokens: ids } = await session.generate(prompt, options).result;
      const draw = random(Number(options.seed));
      const sequence = [...prompt];
      for (const [i, id] of ids.entries()) {
        const logits = i ? reference.next(ids[i - 1]) : reference.start(prompt);
        const may = sampled(logits, options, sequence, prompt.length, draw);
        assert.ok(
          may.has(id),
          `BQ4_SEED=${seed}: token ${i} is ${id}, not ${[...may].join(' or ')}, by ${JSON.stringify(options)}`,
        );
        several += Number(may.size > 1);
        tokens++;
        sequence.push(id);
      }
    }
    assert.ok(several <= tokens / 50, `${several} of ${tokens} draws fell on a border: that is no comparison`);
  } finally {
    reference.close();
    await engine.close();
  }
}
