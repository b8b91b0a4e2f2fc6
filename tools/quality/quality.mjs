#!/usr/bin/env node
// How near an engine comes to the mathematics of a model: per position against the logits of reference.py, top-1
// agreement, mean KL divergence, perplexity.
//   node tools/quality/quality.mjs tokens MODEL.gguf TEXT 20000 tokens.json
//   python tools/quality/reference.py MODEL.gguf tokens.json reference.f32
//   node tools/quality/quality.mjs compare MODEL.gguf tokens.json reference.f32 f16 [i16]
//   python tools/quality/llama_cpp.py MODEL.gguf tokens.json reference.f32
import { closeSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { createEngine, fromFile } from '../../js/engine.js';
import { argmax, openLogits } from '../../tests/js/logits.mjs';

/** Tokens after which the context begins anew, as in reference.py. */
const WINDOW = 1000;

/** @param {Float32Array} logits @returns {Float64Array} logarithms of probabilities */
function logProbabilities(logits) {
  const max = logits[argmax(logits)];
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - max);
  const all = Math.log(sum) + max;
  return Float64Array.from(logits, (value) => value - all);
}

/** @param {Float64Array} p @param {Float64Array} q  sum of p (log p - log q) */
function divergence(p, q) {
  let sum = 0;
  for (let i = 0; i < p.length; i++) sum += Math.exp(p[i]) * (p[i] - q[i]);
  return sum;
}

/** @param {string} model @param {string} text @param {string} count @param {string} out */
async function tokens(model, text, count, out) {
  const engine = await createEngine();
  const loaded = await engine.load(fromFile(model), { context: 64 });
  const ids = (await loaded.tokenize(readFileSync(text, 'utf8'))).slice(0, Number(count));
  writeFileSync(out, JSON.stringify(ids));
  await engine.close();
  console.log(`${ids.length} tokens`);
}

/** @param {string} model @param {string} list @param {string} reference @param {'f32' | 'f16' | 'i8' | 'i4'} kv @param {'i8' | 'i16'} activations */
async function compare(model, list, reference, kv, activations) {
  /** @type {number[]} */
  const ids = JSON.parse(readFileSync(list, 'utf8'));
  const ours = await openLogits(fromFile(model), { context: WINDOW + 24, kv, activations });
  const file = openSync(reference, 'r');
  const sums = { agree: 0, kl: 0, positions: 0, ours: 0, theirs: 0, predicted: 0 };
  for (let i = 0; i < ids.length; i++) {
    const got = i % WINDOW ? ours.next(ids[i]) : ours.start([ids[i]]);
    const wanted = new Float32Array(got.length);
    if (readSync(file, wanted, 0, wanted.byteLength, i * wanted.byteLength) !== wanted.byteLength) break;
    const [p, q] = [logProbabilities(wanted), logProbabilities(got)];
    sums.positions++;
    sums.agree += Number(argmax(wanted) === argmax(got));
    sums.kl += divergence(p, q);
    if (i + 1 < ids.length && (i + 1) % WINDOW) {
      sums.predicted++;
      sums.ours -= q[ids[i + 1]];
      sums.theirs -= p[ids[i + 1]];
    }
    if (i % WINDOW === WINDOW - 1) console.error(told(`bq4, KV ${kv}, activations ${activations}`, sums));
  }
  closeSync(file);
  ours.close();
  console.log(told(`bq4, KV ${kv}, activations ${activations}`, sums));
}

/** @param {string} name @param {{ agree: number, kl: number, positions: number, ours: number, theirs: number, predicted: number }} sums */
function told(name, { agree, kl, positions, ours, theirs, predicted }) {
  const [a, b] = [Math.exp(ours / predicted), Math.exp(theirs / predicted)];
  return (
    `${name}: ${positions} positions, top-1 ${((100 * agree) / positions).toFixed(2)} %, KL ${(kl / positions).toFixed(5)}, ` +
    `perplexity ${a.toFixed(4)} (reference ${b.toFixed(4)}, ${(100 * (a / b - 1)).toFixed(2)} %)`
  );
}

const [task, ...rest] = process.argv.slice(2);
if (task === 'tokens' && rest.length === 4) await tokens(rest[0], rest[1], rest[2], rest[3]);
else if (task === 'compare' && (rest.length === 4 || rest.length === 5))
  await compare(
    rest[0],
    rest[1],
    rest[2],
    /** @type {'f16'} */ (rest[3]),
    /** @type {'i16' | undefined} */ (rest[4]) ?? 'i8',
  );
else console.error('see the head of this file');
