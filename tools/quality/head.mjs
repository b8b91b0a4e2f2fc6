#!/usr/bin/env node
// Measures loss and gain of a clustered LM head that computes only a share of its rows: a table of docs/log/quality.md.
//
//   npm run build && node tools/quality/head.mjs MODEL TEXT [--tokens 2048] [--shares 0.05,0.1,0.2,0.3,0.5] [--activations i16] [--build relaxed] [--rounds 5]
//
// "same choice": share of positions where the likeliest token is that of the complete LM head. "probability": sum of the probabilities
// that the complete head assigns to the computed tokens, as the mean of all positions. "out of reach": share of the text's tokens that
// were not computed. "step": duration of a step relative to one with the complete head, in alternating --rounds (0: none): the median of
// the ratios and, in brackets, the smallest and the largest.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { createEngine, fromFile } from '../../js/node.js';
import { summary } from '../bench/stats.mjs';
import { openReader, readerOf } from './reader.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tokens: { type: 'string', default: '2048' },
    shares: { type: 'string', default: '0.05,0.1,0.2,0.3,0.5' },
    activations: { type: 'string', default: 'i16' },
    build: { type: 'string', default: 'relaxed' },
    rounds: { type: 'string', default: '5' },
  },
});
if (positionals.length !== 2) throw new Error('see the head of this file');
const [file, text] = positionals;
const n = Number(values.tokens);
const shares = values.shares.split(',').map(Number);

const engine = await createEngine();
const model = await engine.load(fromFile(file), { contextTokens: 64 });
const ids = (await model.tokenize(readFileSync(text, 'utf8').slice(0, 32 * n))).slice(0, n);
await engine.close();
if (ids.length < n) throw new Error(`${text} has ${ids.length} tokens, ${n} are asked for`);

const whole = await openReader(fromFile(file), ids, {
  kv: 'i8',
  activations: /** @type {'i16'} */ (values.activations),
  build: /** @type {'relaxed'} */ (values.build),
  quality: { lmHeadFraction: shares[0] },
  sessions: 1 + shares.length,
});
const startUsage = process.cpuUsage();
whole.wasm.check('bqw_model_cluster', whole.model);
console.log(`Clusters took ${(process.cpuUsage(startUsage).user / 1e6).toFixed(1)} s of a core.\n`);
const some = shares.map((head) => {
  const reader = readerOf(whole.another({ quality: { lmHeadFraction: head } }), ids);
  reader.wasm.check('bqw_session_clusters', reader.session, 1);
  return { head, reader, same: 0, probability: 0, missed: 0, ratios: /** @type {number[]} */ ([]) };
});
for (let i = 1; i < n; i++) {
  const all = whole.read(i);
  const [best, sum] = [argmax(all), logSum(all)];
  for (const one of some) {
    const logits = one.reader.read(i);
    one.same += Number(argmax(logits) === best);
    one.missed += Number(logits[ids[i]] === -Infinity);
    one.probability += Math.exp(logSum(logits) - sum);
  }
}
for (let round = 0; round < Number(values.rounds); round++) {
  const step = whole.step(Math.min(128, n));
  for (const one of some) one.ratios.push(one.reader.step(Math.min(128, n)) / step);
}
console.log(`| share, of ${n - 1} positions | same choice | probability | out of reach | step |`);
console.log('|---|---|---|---|---|');
for (const { head, same, probability, missed, ratios } of some) {
  const percent = (/** @type {number} */ sum) => `${((100 * sum) / (n - 1)).toFixed(2)} %`;
  const step = summary(ratios);
  const shown = step ? `${step.median.toFixed(3)} (${step.least.toFixed(3)}–${step.most.toFixed(3)})` : '';
  console.log(`| ${head} | ${percent(same)} | ${percent(probability)} | ${percent(missed)} | ${shown} |`);
}
whole.close();
process.exit(0);
