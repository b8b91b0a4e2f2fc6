#!/usr/bin/env node
// What each type of KV cache takes, costs and brings, at several depths, with windows, too: tables of docs/log/quality.md and of
// docs/decisions/0005-kv-cache-types.md and 0018-attention-sinks.md.
//
//   npm run build && node tools/quality/kv.mjs MODEL TEXT [--at 512,2048,8192] [--kv f32,f16,i8,i4,i2] [--activations i16] [--build relaxed] [--threads 1]
//
// A type may be followed by a window and a number of sinks: i8/1024/4, and by h2o, where what got the least attention leaves: i8/1024/4/h2o.
// The text's first tokens are read in one window by a session of each type. "perplexity" is that of all tokens up to the depth, "KL" the
// mean divergence of the next token's distribution from the first type's, in thousandths of a nat. "tokens/s": single steps that end 16
// tokens before the depth, so that no window moves, five rounds of all types in turn, the median of the rounds' medians and, in brackets,
// the least and the greatest of these. "MB": the cache alone, of a context of so many tokens.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { createEngine, fromFile } from '../../js/node.js';
import { summary } from '../bench/stats.mjs';
import { openReader } from './reader.mjs';

/** @typedef {{ kv: 'f32' | 'f16' | 'i8' | 'i4' | 'i2', kvWindow?: number, kvSinks?: number, kvEvict?: 'attention' }} Cache */

const ROUNDS = 5;
const BEFORE = 16;

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
if (positionals.length !== 2) throw new Error('see the head of this file');
const [file, text] = positionals;
const source = fromFile(file);
const names = values.kv.split(',');
const kvs = names.map((name) => {
  const [kv, ...sight] = name.split('/');
  const [kvWindow, kvSinks] = sight.slice(0, 2).map(Number);
  if (sight.length > 2 && sight[2] !== 'h2o') throw new Error(`${name}: "${sight[2]}" is not h2o`);
  return {
    kv: /** @type {Cache['kv']} */ (kv),
    kvWindow,
    kvSinks,
    ...(sight.length > 2 && { kvEvict: /** @type {const} */ ('attention') }),
  };
});
const depths = values.at.split(',').map(Number);
const most = Math.max(...depths);
const activations = /** @type {'i8' | 'i16'} */ (values.activations);

const build = /** @type {'relaxed'} */ (values.build);
const engine = await createEngine({ build, threads: 1 });
const model = await engine.load(source, { contextTokens: 64 });
const ids = (await model.tokenize(readFileSync(text, 'utf8').slice(0, 16 * most))).slice(0, most);
await model.close();
if (ids.length < most) throw new Error(`${text} has ${ids.length} tokens, ${most} are asked for`);

const readers = await Promise.all(
  kvs.map((cache) =>
    openReader(source, ids, {
      ...cache,
      activations,
      build,
      threads: Number(values.threads),
    }),
  ),
);
const sums = kvs.map(() => ({ surprise: 0, kl: 0, same: 0 }));

/** @param {number} n */
function predict(n) {
  const all = readers.map((reader) => reader.read(n));
  if (n === ids.length) return;
  const norms = all.map(logSum);
  const first = all[0];
  for (const [k, own] of all.entries()) {
    sums[k].surprise += norms[k] - own[ids[n]];
    sums[k].same += Number(argmax(own) === argmax(first));
    if (k)
      for (let i = 0; i < own.length; i++) {
        const p = first[i] - norms[0];
        sums[k].kl += Math.exp(p) * (p - (own[i] - norms[k]));
      }
  }
}

console.log(
  `| depth | cache | MB | of ${names[0]} | perplexity | against ${names[0]} | KL, 10⁻³ | same choice | tokens/s |`,
);
console.log('|---|---|---|---|---|---|---|---|---|');
/** @type {number[][]} */
let steps = [];
for (let n = 1, at = 0; n <= most; n++) {
  predict(n);
  if (n % 256 === 0) process.stderr.write(`\r${n} of ${most} tokens read`);
  if (n === depths[at] - BEFORE) {
    steps = kvs.map(() => []);
    for (let round = 0; round < ROUNDS; round++)
      for (const [k, reader] of readers.entries()) steps[k].push(reader.step(n));
    for (const reader of readers) reader.resume(n);
  }
  if (n !== depths[at]) continue;
  at++;
  const bytes = await Promise.all(
    kvs.map(async (cache) => (await engine.plan(source, { contextTokens: n, ...cache })).kvBytes),
  );
  const predicted = Math.min(n, ids.length - 1);
  const perplexity = sums.map(({ surprise }) => Math.exp(surprise / predicted));
  for (const [k, { kl, same }] of sums.entries()) {
    const more = 100 * (perplexity[k] / perplexity[0] - 1);
    const rates = summary(steps[k].map((ms) => 1000 / ms));
    const shown = rates && `${rates.median.toFixed(1)} (${rates.least.toFixed(1)}–${rates.most.toFixed(1)})`;
    console.log(
      `| ${n} | ${names[k]} | ${(bytes[k] / 1e6).toFixed(1)} | ${(bytes[k] / bytes[0]).toFixed(2)} | ${perplexity[k].toFixed(3)} | ` +
        `${k ? `${more < 0 ? '−' : '+'}${Math.abs(more).toFixed(2)} %` : ''} | ${((1000 * kl) / predicted).toFixed(2)} | ` +
        `${((100 * same) / predicted).toFixed(2)} % | ${shown} |`,
    );
  }
}
for (const reader of readers) reader.close();
await engine.close();
process.exit(0);
