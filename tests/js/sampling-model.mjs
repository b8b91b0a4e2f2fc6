// A model-based test of sampling: with random options, every token is compared with those of a small sampler, a plain implementation of the
// filters of c/session/sampler.c. It uses the logits of the engine, but the exponential function of the platform. So if a random number is
// very close to the border between two tokens, both are accepted.
import assert from 'node:assert/strict';
import { createEngine } from '../../js/node.js';
import { fromBytes } from '../../js/index.js';
import { BYTE, tinyModel } from './fixture.mjs';
import { drawFrom } from './random-numbers.mjs';
import { openLogits } from './logits.mjs';

/** @typedef {import('../../js/index.js').GenerateOptions} GenerateOptions */
/** @typedef {{ id: number, value: number }} Candidate */

const CONTEXT = 64;
/** Relative tolerance of sums of weights. */
const TOLERANCE = 1e-5;
const bytes = await tinyModel();
const { fround } = Math;

/** A generator of uniform numbers in [0, 1): SplitMix64, as in c/session/sampler.c. @param {number} seed */
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

/** The sum of biases and penalties of each token. @param {GenerateOptions} options @param {number[]} generated  tokens of this generation */
function biases({ logitBias = [], presencePenalty = 0, frequencyPenalty = 0 }, generated) {
  /** @type {Map<number, number>} */
  const all = new Map();
  const add = (/** @type {number} */ id, /** @type {number} */ bias) => all.set(id, (all.get(id) ?? 0) + bias);
  for (const { token, bias } of logitBias) add(token, bias);
  for (const id of new Set(generated))
    if (presencePenalty || frequencyPenalty)
      add(id, -presencePenalty - frequencyPenalty * generated.filter((token) => token === id).length);
  return all;
}

/**
 * The acceptable next tokens; there are several only if the random number is on a border.
 * @param {Float32Array} logits @param {GenerateOptions} options @param {number[]} sequence @param {number} prompt  number of tokens of the prompt
 * @param {() => number} draw  uniform in [0, 1)
 * @returns {Set<number>}
 */
export function sampleTokens(logits, options, sequence, prompt, draw) {
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
  const divisor = fround(temperature);
  if (!(divisor > 0)) return new Set([best.id]);
  const fraction = draw();
  if (topK === 1 || topP === 0) return new Set([best.id]);
  const candidates = all.map(({ id, value }) => ({ id, value: fround(value / divisor) }));
  const maximum = fround(best.value / divisor);
  const weigh = (/** @type {Candidate} */ { id, value }) => ({ id, weight: Math.exp(value - maximum) });
  if (!topK && topP >= 1 && minP <= 0) return tokensAt(candidates.map(weigh), fraction);
  const ordered = candidates.sort((a, b) => b.value - a.value || a.id - b.id).map(weigh);
  const top = topK && topK < ordered.length ? ordered.slice(0, topK) : ordered;
  const total = top.reduce((sum, { weight }) => sum + weight, 0);
  /** @type {Set<number>} */
  const tokens = new Set();
  for (const p of [1 - TOLERANCE, 1, 1 + TOLERANCE])
    for (const m of [1 - TOLERANCE, 1, 1 + TOLERANCE]) {
      let [n, sum] = [0, 0];
      const limit = topP < 1 ? fround(topP) * p * total : Infinity;
      while (n < top.length && sum < limit && !(n && top[n].weight < fround(minP) * m)) sum += top[n++].weight;
      for (const id of tokensAt(top.slice(0, n), fraction)) tokens.add(id);
    }
  return tokens;
}

/** The tokens at a place in the sum of the weights. @param {{ id: number, weight: number }[]} candidates @param {number} fraction  of the sum */
function tokensAt(candidates, fraction) {
  const sum = candidates.reduce((all, { weight }) => all + weight, 0);
  return new Set(
    [-TOLERANCE, 0, TOLERANCE].map((shift) => {
      let rest = (fraction + shift) * sum;
      return (candidates.find(({ weight }) => (rest -= weight) < 0) ?? candidates[candidates.length - 1]).id;
    }),
  );
}

/** Random options; each is left out with a probability of one half. @param {number} seed @returns {GenerateOptions} */
export function optionsOf(seed) {
  const next = drawFrom(seed);
  const pick = (/** @type {any[]} */ ...values) => values[next(values.length)];
  const token = () => (next(3) ? BYTE + next(256) : next(271));
  const bias = () => pick(-Infinity, -100, -3, 2.5, 6, 6, 12);
  const all = {
    temperature: pick(0, 0.01, 0.3, 0.7, 1, 1.7, 5),
    topK: pick(0, 1, 2, 5, 40, 270, 271, 100000),
    topP: pick(0, 0.05, 0.5, 0.9, 0.95, 1),
    minP: pick(0, 0.02, 0.1, 0.5, 1),
    repeatPenalty: pick(0, 0.5, 1, 1.1, 1.5, 3),
    repeatLast: pick(0, 1, 3, 64, 1000),
    logitBias: Array.from({ length: next(12) }, () => ({ token: token(), bias: bias() })),
    presencePenalty: pick(-2, 0, 0.5, 2),
    frequencyPenalty: pick(-1, 0, 0.3, 2),
    speculate: pick('auto', true, false, { tokens: 3 }),
    maxTokens: pick(1, 8, 24),
  };
  const options = Object.fromEntries(Object.entries(all).filter(() => next(2)));
  return { ...options, seed: pick(0, 1, next(2 ** 30), 2 ** 53), maxTokens: all.maxTokens };
}

/** Compares generations with random options with the sampler of this file. @param {number[]} seeds */
export async function compareSampling(seeds) {
  const engine = await createEngine({ threads: 1 });
  const reference = await openLogits(fromBytes(bytes), { contextTokens: CONTEXT });
  try {
    const model = await engine.load(fromBytes(bytes), { contextTokens: CONTEXT, kv: 'f32' });
    const session = await model.createSession();
    let ambiguous = 0;
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
        const expected = sampleTokens(logits, options, sequence, prompt.length, draw);
        assert.ok(
          expected.has(id),
          `BQ4_SEED=${seed}: token ${i}: expected ${[...expected].join(' or ')}, found ${id}, with ${JSON.stringify(options)}`,
        );
        ambiguous += Number(expected.size > 1);
        tokens++;
        sequence.push(id);
      }
    }
    assert.ok(
      ambiguous <= tokens / 50,
      `expected at most ${tokens / 50} random numbers on a border, found ${ambiguous} of ${tokens}`,
    );
  } finally {
    reference.close();
    await engine.close();
  }
}
