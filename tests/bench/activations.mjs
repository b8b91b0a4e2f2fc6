// Measures the cost of i16 activations relative to i8: decode and prefill of one model, in turn, with one thread.
//
//   node tests/bench/activations.mjs MODEL [ROUNDS] [simd128|relaxed]      default: 9 rounds, the best build
//
// Each round computes a prompt of 256 tokens and 32 more tokens with both. The ratios are medians of the rounds, on which other load of
// the machine has little influence.
import { fromFile } from '../../js/node.js';
import { openLogits } from '../js/logits.mjs';

const PROMPT = 256;
const STEPS = 32;
const [model, rounds = '9', build] = process.argv.slice(2);
const open = (/** @type {'i8' | 'i16'} */ activations) =>
  openLogits(fromFile(model), {
    contextTokens: 512,
    kv: 'i8',
    activations,
    build: /** @type {'relaxed' | undefined} */ (build),
  });
const sessions = { i8: await open('i8'), i16: await open('i16') };
const median = (/** @type {number[]} */ x) => x.sort((a, b) => a - b)[x.length >> 1].toFixed(2);

/** Returns milliseconds of the prompt and of the steps. @param {Awaited<ReturnType<typeof openLogits>>} session @param {number} round */
function measure(session, round) {
  const ids = Array.from({ length: PROMPT }, (_, i) => 100 + (i ? (i * 7919) % 40000 : round));
  const start = performance.now();
  session.start(ids);
  const middle = performance.now();
  for (let i = 0; i < STEPS; i++) session.next(300 + i);
  return { prefill: middle - start, decode: performance.now() - middle };
}

const ratios = { prefill: /** @type {number[]} */ ([]), decode: /** @type {number[]} */ ([]) };
for (let round = 0; round < Number(rounds); round++) {
  /** @type {Record<string, { prefill: number, decode: number }>} */
  const ms = {};
  for (const name of round % 2 ? /** @type {const} */ (['i16', 'i8']) : /** @type {const} */ (['i8', 'i16']))
    ms[name] = measure(sessions[name], round);
  for (const part of /** @type {const} */ (['prefill', 'decode'])) ratios[part].push(ms.i16[part] / ms.i8[part]);
}
console.log(
  `time with i16 / with i8, ${rounds} rounds: prefill ${median(ratios.prefill)}, decode ${median(ratios.decode)}`,
);
