#!/usr/bin/env node
// Measures memory, quality and speed of each type of KV cache at several depths, also with windows: tables of docs/log/quality.md and of
// docs/decisions/0005-kv-cache-types.md and 0018-attention-sinks.md.
//
//   npm run build && node tools/quality/kv.mjs MODEL TEXT [--at 512,2048,8192] [--kv f32,f16,i8,i4,i2] [--activations i16] [--build relaxed] [--threads 1]
//
// --at: depths, in tokens. --kv: types of caches. A type can be followed by a window and a number of attention sinks, as in i8/1024/4, and
// then by h2o: the position with the least attention is evicted in place of the oldest one (i8/1024/4/h2o).
// A session of each type reads the first tokens of the text in one window. "perplexity" is that of all tokens up to the depth. "KL" is the
// mean divergence of the distribution of the next token from that of the first type, in thousandths of a nat. "tokens/s" is measured with
// single steps that end 16 tokens before the depth, so that no window moves, in five rounds of all types in turn. It is the median of the
// rounds' medians and, in brackets, their smallest and largest value. "MB" is the memory of a cache for as many tokens as the depth.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { createEngine, fromFile } from '../../js/node.js';
import { summary } from '../bench/stats.mjs';
import { openReader } from './reader.mjs';

/** @typedef {{ kv: 'f32' | 'f16' | 'i8' | 'i4' | 'i2', kvWindow?: number, kvSinks?: number, kvEvict?: 'attention' }} Cache */

/** Number of rounds in which steps are measured. */
const ROUNDS = 5;
/** Number of tokens before each depth at which steps are measured. */
const TOKENS_BEFORE_DEPTH = 16;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    at: { type: 'string', default: '512,2048,8192' },
    kv: { type: 'string', default: 'f32,f16,i8,i4,i2' },
    activations: { type: 'string', default: 'i16' },
    build: { type: 'string', default: 'relaxed' },
    threads: { type: 'string', default: '1' },
  },
});
if (positionals.length !== 2)
  throw new Error(
    `expected MODEL and TEXT, found ${positionals.length} arguments: see the comment at the top of kv.mjs`,
  );
const [modelPath, textPath] = positionals;
const source = fromFile(modelPath);
const names = values.kv.split(',');
const caches = names.map((name) => {
  const [kv, window, sinks, eviction] = name.split('/');
  if (eviction && eviction !== 'h2o') throw new Error(`--kv ${name}: expected h2o, found "${eviction}"`);
  return {
    kv: /** @type {Cache['kv']} */ (kv),
    ...(window && { kvWindow: Number(window) }),
    ...(sinks && { kvSinks: Number(sinks) }),
    ...(eviction && { kvEvict: /** @type {const} */ ('attention') }),
  };
});
const depths = values.at.split(',').map(Number);
const maximumDepth = Math.max(...depths);
const activations = /** @type {'i8' | 'i16'} */ (values.activations);

const build = /** @type {'relaxed'} */ (values.build);
const engine = await createEngine({ build, threads: 1 });
const model = await engine.load(source, { contextTokens: 64 });
const tokens = (await model.tokenize(readFileSync(textPath, 'utf8').slice(0, 16 * maximumDepth))).slice(
  0,
  maximumDepth,
);
await model.close();
if (tokens.length < maximumDepth)
  throw new Error(`${textPath}: expected a text of at least ${maximumDepth} tokens, found ${tokens.length}`);

const readers = await Promise.all(
  caches.map((cache) =>
    openReader(source, tokens, {
      ...cache,
      activations,
      build,
      threads: Number(values.threads),
    }),
  ),
);
/** Sums over all positions, for each cache. */
const sums = caches.map(() => ({ surprisal: 0, kl: 0, equalChoices: 0 }));

/** Reads a token with each cache and adds its predictions to the sums. @param {number} n  number of tokens read after the call */
function readToken(n) {
  const logitsOfCaches = readers.map((reader) => reader.read(n));
  if (n === tokens.length) return;
  const logSums = logitsOfCaches.map(logSum);
  const referenceLogits = logitsOfCaches[0];
  for (const [k, logits] of logitsOfCaches.entries()) {
    sums[k].surprisal += logSums[k] - logits[tokens[n]];
    sums[k].equalChoices += Number(argmax(logits) === argmax(referenceLogits));
    if (k)
      for (let i = 0; i < logits.length; i++) {
        const logProbability = referenceLogits[i] - logSums[0];
        sums[k].kl += Math.exp(logProbability) * (logProbability - (logits[i] - logSums[k]));
      }
  }
}

console.log(
  `| depth | cache | MB | of ${names[0]} | perplexity | against ${names[0]} | KL, 10⁻³ | same choice | tokens/s |`,
);
console.log('|---|---|---|---|---|---|---|---|---|');
/** Milliseconds of a step in each round, for each cache. @type {number[][]} */
let stepTimes = [];
for (let n = 1, depthIndex = 0; n <= maximumDepth; n++) {
  readToken(n);
  if (n % 256 === 0) process.stderr.write(`\r${n} of ${maximumDepth} tokens read`);
  if (n === depths[depthIndex] - TOKENS_BEFORE_DEPTH) {
    stepTimes = caches.map(() => []);
    for (let round = 0; round < ROUNDS; round++)
      for (const [k, reader] of readers.entries()) stepTimes[k].push(reader.step(n));
    for (const reader of readers) reader.resume(n);
  }
  if (n !== depths[depthIndex]) continue;
  depthIndex++;
  const bytes = await Promise.all(
    caches.map(async (cache) => (await engine.plan(source, { contextTokens: n, ...cache })).kvBytes),
  );
  const predictedTokens = Math.min(n, tokens.length - 1);
  const perplexity = sums.map(({ surprisal }) => Math.exp(surprisal / predictedTokens));
  for (const [k, { kl, equalChoices }] of sums.entries()) {
    const addedPercent = 100 * (perplexity[k] / perplexity[0] - 1);
    const rates = summary(stepTimes[k].map((ms) => 1000 / ms));
    const ratesText = rates && `${rates.median.toFixed(1)} (${rates.least.toFixed(1)}–${rates.most.toFixed(1)})`;
    console.log(
      `| ${n} | ${names[k]} | ${(bytes[k] / 1e6).toFixed(1)} | ${(bytes[k] / bytes[0]).toFixed(2)} | ${perplexity[k].toFixed(3)} | ` +
        `${k ? `${addedPercent < 0 ? '−' : '+'}${Math.abs(addedPercent).toFixed(2)} %` : ''} | ${((1000 * kl) / predictedTokens).toFixed(2)} | ` +
        `${((100 * equalChoices) / predictedTokens).toFixed(2)} % | ${ratesText} |`,
    );
  }
}
for (const reader of readers) reader.close();
await engine.close();
process.exit(0);
