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
// weights that a step would then multiply, relative to a step without early exit.
// Who leaves has saved those layers; who doesn't has met the head twice.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { createEngine, fromFile } from '../../js/node.js';
import { summary } from '../bench/stats.mjs';
import { scatter } from './plot.mjs';
import { openReader } from './reader.mjs';

/** Percents: what adds more is no point of the plot. */
const DRAWN = 1e5;

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
if (positionals.length !== 2) throw new Error('see the head of this file');
const [file, text] = positionals;
const source = fromFile(file);
const n = Number(values.tokens);
const numbers = (/** @type {string} */ list) => list.split(',').filter(Boolean).map(Number);

const engine = await createEngine();
const model = await engine.load(source, { contextTokens: 64 });
const { layers, tokenWeights, vocabSize: vocab, hidden } = model.info;
const ids = (await model.tokenize(readFileSync(text, 'utf8').slice(0, 32 * n))).slice(0, 2 * n);
await engine.close();
if (ids.length < 2 * n) throw new Error(`${text} has ${ids.length} tokens, ${2 * n} are asked for`);

/** @param {number[]} part  of the text */
async function readerOf(part) {
  const reader = await openReader(source, part, {
    kv: 'i8',
    activations: /** @type {'i16'} */ (values.activations),
    build: /** @type {'relaxed'} */ (values.build),
  });
  /** @param {number[]} left */
  const skip = (left) =>
    reader.wasm.scope((take) => {
      const at = take(4 * left.length);
      reader.wasm.u32(at, left.length).set(left);
      reader.wasm.check('bqw_session_skip', reader.session, at, left.length);
    });
  return {
    ...reader,
    skip,
    /** Perplexity without these layers, and what is chosen at each position. @param {number[]} left */
    without(left) {
      skip(left);
      let sum = 0;
      const chosen = [];
      const sure = [];
      for (let i = 1; i < part.length; i++) {
        const logits = reader.read(i);
        const all = logSum(logits);
        const best = argmax(logits);
        sum += all - logits[part[i]];
        chosen.push(best);
        sure.push(Math.exp(logits[best] - all));
      }
      return { perplexity: Math.exp(sum / (part.length - 1)), chosen, sure };
    },
  };
}

const first = await readerOf(ids.slice(0, n));
const alone = Array.from({ length: layers }, (_, layer) => first.without([layer]).perplexity);
const whole = first.without([]).perplexity;
first.close();
const order = Array.from(alone, (_, layer) => layer).sort((a, b) => alone[a] - alone[b]);
console.log(`Perplexity of ${n} tokens: ${whole.toFixed(2)}; without a layer, those first that matter least:\n`);
console.log(order.map((layer) => `${layer}: ${alone[layer].toFixed(2)}`).join(', '));

const reader = await readerOf(ids.slice(n));
const cases = [
  { name: 'all', left: /** @type {number[]} */ ([]) },
  ...numbers(values.skip).map((k) => ({ name: `skip ${k}`, left: order.slice(0, k) })),
  ...numbers(values.exit).map((k) => ({
    name: `exit ${k}`,
    left: Array.from({ length: k }, (_, i) => layers - 1 - i),
  })),
];
const found = cases.map(({ left }) => reader.without(left));
/** @type {number[][]} */
const steps = cases.map(() => []);
for (let round = 0; round < Number(values.rounds); round++)
  for (const [i, { left }] of cases.entries()) {
    reader.skip(left);
    steps[i].push(reader.step(Math.min(128, n)));
  }
console.log(`\n| ${n} tokens behind these | layers left out | perplexity | against all | same choice | step |`);
console.log('|---|---|---|---|---|---|');
const times = steps.map((of) => summary(of.map((ms, round) => ms / steps[0][round])));
const more = found.map(({ perplexity }) => 100 * (perplexity / found[0].perplexity - 1));
for (const [i, { name, left }] of cases.entries()) {
  const { perplexity, chosen } = found[i];
  const same = chosen.filter((id, at) => id === found[0].chosen[at]).length / chosen.length;
  const time = i ? times[i] : null;
  const shown = time ? `${time.median.toFixed(3)} (${time.least.toFixed(3)}–${time.most.toFixed(3)})` : '';
  const sorted = left.toSorted((a, b) => a - b);
  console.log(
    `| ${name} | ${sorted.join(', ')} | ${perplexity.toFixed(2)} | ${i ? `${more[i] < 0 ? '−' : '+'}${Math.abs(more[i]).toFixed(1)} %` : ''} | ` +
      `${(100 * same).toFixed(1)} % | ${shown} |`,
  );
}
if (values.plot) {
  /** @param {'skip' | 'exit'} kind @param {string} name */
  const line = (kind, name) => ({
    name,
    points: cases.flatMap((one, i) =>
      one.name.startsWith(kind) && more[i] <= DRAWN
        ? [{ x: times[i]?.median ?? 1, y: more[i], text: one.left.join(', ') }]
        : [],
    ),
  });
  const drawn = [line('skip', 'without those that matter least'), line('exit', 'without the last ones')];
  writeFileSync(values.plot, scatter(drawn, 'time of a step, of all layers', 'added to the perplexity, %', 0.05));
}

const head = vocab * hidden;
console.log('\n| leaves out, if sure | of | tokens | same choice | weights met |\n|---|---|---|---|---|');
for (const [i, { name, left }] of cases.entries()) {
  if (!name.startsWith('exit')) continue;
  const { chosen, sure } = found[i];
  for (const least of numbers(values.sure)) {
    const those = chosen.flatMap((id, at) => (sure[at] >= least ? [Number(id === found[0].chosen[at])] : []));
    const part = those.length / chosen.length;
    const same = those.length ? (100 * those.reduce((a, b) => a + b, 0)) / those.length : NaN;
    const saved = (part * left.length * (tokenWeights - head)) / layers;
    const matches = 1 - (saved - (1 - part) * head) / tokenWeights;
    console.log(
      `| ${left.length} | ${least} | ${(100 * part).toFixed(1)} % | ${those.length ? `${same.toFixed(1)} %` : '–'} | ${(100 * matches).toFixed(1)} % |`,
    );
  }
}
reader.close();
process.exit(0);
