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
if (positionals.length !== 2)
  throw new Error(
    `expected MODEL and TEXT, found ${positionals.length} arguments: see the comment at the top of head.mjs`,
  );
const [modelPath, textPath] = positionals;
const n = Number(values.tokens);
const shares = values.shares.split(',').map(Number);

const engine = await createEngine();
const model = await engine.load(fromFile(modelPath), { contextTokens: 64 });
const tokens = (await model.tokenize(readFileSync(textPath, 'utf8').slice(0, 32 * n))).slice(0, n);
await engine.close();
if (tokens.length < n) throw new Error(`${textPath}: expected a text of at least ${n} tokens, found ${tokens.length}`);

const completeReader = await openReader(fromFile(modelPath), tokens, {
  kv: 'i8',
  activations: /** @type {'i16'} */ (values.activations),
  build: /** @type {'relaxed'} */ (values.build),
  quality: { lmHeadFraction: shares[0] },
  sessions: 1 + shares.length,
});
const startUsage = process.cpuUsage();
completeReader.wasm.check('bqw_model_cluster', completeReader.model);
console.log(`Clusters took ${(process.cpuUsage(startUsage).user / 1e6).toFixed(1)} s of a core.\n`);
const clusteredHeads = shares.map((share) => {
  const reader = readerOf(completeReader.another({ quality: { lmHeadFraction: share } }), tokens);
  reader.wasm.check('bqw_session_clusters', reader.session, 1);
  return { share, reader, equalChoices: 0, probability: 0, missedTokens: 0, ratios: /** @type {number[]} */ ([]) };
});
for (let i = 1; i < n; i++) {
  const completeLogits = completeReader.read(i);
  const [choice, sum] = [argmax(completeLogits), logSum(completeLogits)];
  for (const head of clusteredHeads) {
    const logits = head.reader.read(i);
    head.equalChoices += Number(argmax(logits) === choice);
    head.missedTokens += Number(logits[tokens[i]] === -Infinity);
    head.probability += Math.exp(logSum(logits) - sum);
  }
}
for (let round = 0; round < Number(values.rounds); round++) {
  const stepMs = completeReader.step(Math.min(128, n));
  for (const { ratios, reader } of clusteredHeads) ratios.push(reader.step(Math.min(128, n)) / stepMs);
}
console.log(`| share, of ${n - 1} positions | same choice | probability | out of reach | step |`);
console.log('|---|---|---|---|---|');
for (const { share, equalChoices, probability, missedTokens, ratios } of clusteredHeads) {
  const formatPercent = (/** @type {number} */ sum) => `${((100 * sum) / (n - 1)).toFixed(2)} %`;
  const ratio = summary(ratios);
  const ratioText = ratio ? `${ratio.median.toFixed(3)} (${ratio.least.toFixed(3)}–${ratio.most.toFixed(3)})` : '';
  console.log(
    `| ${share} | ${formatPercent(equalChoices)} | ${formatPercent(probability)} | ${formatPercent(missedTokens)} | ${ratioText} |`,
  );
}
completeReader.close();
process.exit(0);
