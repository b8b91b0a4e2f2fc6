#!/usr/bin/env node
// Measures loss and gain of skipping layers: tables of docs/log/quality.md and docs/decisions/0019-quality.md.
//
//   npm run build && node tools/quality/skip.mjs MODEL TEXT [--tokens 256] [--skip 1,2,3,4,6,8] [--exit 1,2,4,8,12] [--activations i16] [--sure 0.5,0.9,0.99] [--build relaxed] [--rounds 5] [--plot OUT.svg]
//
// First it measures the importance of each layer: the perplexity of the text's first tokens without this layer. Then it measures the
// perplexity of the following tokens without the 1, 2, 3, … least important layers ("skip"), and without the last layers (early exit,
// "exit"). "same choice": share of positions where the likeliest token is that of all layers. "step": duration of a step relative to one
// with all layers, in alternating --rounds (0: none): the median of the ratios and, in brackets, the smallest and the largest. --plot
// draws both.
//
// Finally it estimates the best possible gain of early exit for only those tokens whose prediction without the last layers is sure enough
// (--sure: probability of the likeliest token): their share, how many of them predict the same token as all layers, and the number of
// weights that a step would then multiply, relative to a step without early exit. A token that exits early saves the last layers. A token
// that does not exit computes the LM head twice.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { createEngine, fromFile } from '../../js/node.js';
import { summary } from '../bench/stats.mjs';
import { drawScatterPlot } from './plot.mjs';
import { openReader } from './reader.mjs';

/** Rows that add more percent to the perplexity are not drawn. */
const DRAWN_PERCENT = 1e5;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tokens: { type: 'string', default: '256' },
    skip: { type: 'string', default: '1,2,3,4,6,8' },
    exit: { type: 'string', default: '1,2,4,8,12' },
    sure: { type: 'string', default: '0.5,0.9,0.99' },
    activations: { type: 'string', default: 'i16' },
    build: { type: 'string', default: 'relaxed' },
    rounds: { type: 'string', default: '5' },
    plot: { type: 'string' },
  },
});
if (positionals.length !== 2)
  throw new Error(
    `expected MODEL and TEXT, found ${positionals.length} arguments: see the comment at the top of skip.mjs`,
  );
const [modelPath, textPath] = positionals;
const source = fromFile(modelPath);
const n = Number(values.tokens);
const parseNumbers = (/** @type {string} */ list) => list.split(',').filter(Boolean).map(Number);

const engine = await createEngine();
const model = await engine.load(source, { contextTokens: 64 });
const { layers, tokenWeights, vocabSize: vocab, hidden } = model.info;
const tokens = (await model.tokenize(readFileSync(textPath, 'utf8').slice(0, 32 * n))).slice(0, 2 * n);
await engine.close();
if (tokens.length < 2 * n)
  throw new Error(`${textPath}: expected a text of at least ${2 * n} tokens, found ${tokens.length}`);

/** Returns a reader of tokens that can skip layers. @param {number[]} textTokens */
async function openSkippingReader(textTokens) {
  const reader = await openReader(source, textTokens, {
    kv: 'i8',
    activations: /** @type {'i16'} */ (values.activations),
    build: /** @type {'relaxed'} */ (values.build),
  });
  /** Omits layers from the following computations. @param {number[]} skippedLayers */
  const skip = (skippedLayers) =>
    reader.wasm.scope((alloc) => {
      const pointer = alloc(4 * skippedLayers.length);
      reader.wasm.u32(pointer, skippedLayers.length).set(skippedLayers);
      reader.wasm.check('bqw_session_skip', reader.session, pointer, skippedLayers.length);
    });
  return {
    ...reader,
    skip,
    /**
     * Returns the perplexity without these layers, and the likeliest token and its probability at each position.
     * @param {number[]} skippedLayers
     */
    measureWithout(skippedLayers) {
      skip(skippedLayers);
      let surprisal = 0;
      const choices = [];
      const probabilities = [];
      for (let i = 1; i < textTokens.length; i++) {
        const logits = reader.read(i);
        const sum = logSum(logits);
        const choice = argmax(logits);
        surprisal += sum - logits[textTokens[i]];
        choices.push(choice);
        probabilities.push(Math.exp(logits[choice] - sum));
      }
      return { perplexity: Math.exp(surprisal / (textTokens.length - 1)), choices, probabilities };
    },
  };
}

const first = await openSkippingReader(tokens.slice(0, n));
const perplexityWithout = Array.from({ length: layers }, (_, layer) => first.measureWithout([layer]).perplexity);
const completePerplexity = first.measureWithout([]).perplexity;
first.close();
/** Layers, the least important first. */
const order = Array.from(perplexityWithout, (_, layer) => layer).sort(
  (a, b) => perplexityWithout[a] - perplexityWithout[b],
);
console.log(
  `Perplexity of ${n} tokens: ${completePerplexity.toFixed(2)}; without a layer, the least important first:\n`,
);
console.log(order.map((layer) => `${layer}: ${perplexityWithout[layer].toFixed(2)}`).join(', '));

const reader = await openSkippingReader(tokens.slice(n));
const cases = [
  { name: 'all', skippedLayers: /** @type {number[]} */ ([]) },
  ...parseNumbers(values.skip).map((k) => ({ name: `skip ${k}`, skippedLayers: order.slice(0, k) })),
  ...parseNumbers(values.exit).map((k) => ({
    name: `exit ${k}`,
    skippedLayers: Array.from({ length: k }, (_, i) => layers - 1 - i),
  })),
];
const results = cases.map(({ skippedLayers }) => reader.measureWithout(skippedLayers));
/** Milliseconds of a step in each round, for each case. @type {number[][]} */
const stepTimes = cases.map(() => []);
for (let round = 0; round < Number(values.rounds); round++)
  for (const [i, { skippedLayers }] of cases.entries()) {
    reader.skip(skippedLayers);
    stepTimes[i].push(reader.step(Math.min(128, n)));
  }
console.log(`\n| the next ${n} tokens | skipped layers | perplexity | against all | same choice | step |`);
console.log('|---|---|---|---|---|---|');
const stepRatios = stepTimes.map((times) => summary(times.map((ms, round) => ms / stepTimes[0][round])));
const addedPercent = results.map(({ perplexity }) => 100 * (perplexity / results[0].perplexity - 1));
for (const [i, { name, skippedLayers }] of cases.entries()) {
  const { perplexity, choices } = results[i];
  const agreement = choices.filter((token, position) => token === results[0].choices[position]).length / choices.length;
  const ratio = i ? stepRatios[i] : null;
  const ratioText = ratio ? `${ratio.median.toFixed(3)} (${ratio.least.toFixed(3)}–${ratio.most.toFixed(3)})` : '';
  const sortedLayers = skippedLayers.toSorted((a, b) => a - b);
  console.log(
    `| ${name} | ${sortedLayers.join(', ')} | ${perplexity.toFixed(2)} | ${i ? `${addedPercent[i] < 0 ? '−' : '+'}${Math.abs(addedPercent[i]).toFixed(1)} %` : ''} | ` +
      `${(100 * agreement).toFixed(1)} % | ${ratioText} |`,
  );
}
if (values.plot) {
  /** Returns the points of one kind of cases. @param {'skip' | 'exit'} kind @param {string} name */
  const seriesOf = (kind, name) => ({
    name,
    points: cases.flatMap((testCase, i) =>
      testCase.name.startsWith(kind) && addedPercent[i] <= DRAWN_PERCENT
        ? [{ x: stepRatios[i]?.median ?? 1, y: addedPercent[i], text: testCase.skippedLayers.join(', ') }]
        : [],
    ),
  });
  const series = [seriesOf('skip', 'without the least important layers'), seriesOf('exit', 'without the last layers')];
  writeFileSync(
    values.plot,
    drawScatterPlot(series, 'duration of a step, relative to all layers', 'added to the perplexity, %', 0.05),
  );
}

const headWeights = vocab * hidden;
console.log(
  '\n| skipped last layers | least probability | tokens | same choice | multiplied weights |\n|---|---|---|---|---|',
);
for (const [i, { name, skippedLayers }] of cases.entries()) {
  if (!name.startsWith('exit')) continue;
  const { choices, probabilities } = results[i];
  for (const leastProbability of parseNumbers(values.sure)) {
    /** Of each token that exits early, 1 if all layers choose the same token, otherwise 0. */
    const agreements = choices.flatMap((token, position) =>
      probabilities[position] >= leastProbability ? [Number(token === results[0].choices[position])] : [],
    );
    const exitShare = agreements.length / choices.length;
    const agreement = agreements.length ? (100 * agreements.reduce((a, b) => a + b, 0)) / agreements.length : NaN;
    const savedWeights = (exitShare * skippedLayers.length * (tokenWeights - headWeights)) / layers;
    const multipliedShare = 1 - (savedWeights - (1 - exitShare) * headWeights) / tokenWeights;
    console.log(
      `| ${skippedLayers.length} | ${leastProbability} | ${(100 * exitShare).toFixed(1)} % | ${agreements.length ? `${agreement.toFixed(1)} %` : '–'} | ${(100 * multipliedShare).toFixed(1)} % |`,
    );
  }
}
reader.close();
process.exit(0);
