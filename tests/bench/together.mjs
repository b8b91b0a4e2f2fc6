// What sessions that share a pass bring (js/engine/batching/continuous-batching.js): tokens/s of 1, 2, 4 and 8 generations at the same time on SmolLM2, in
// turn, round after round. Tokens are checked to be those that each gives alone.
//
//   node tests/bench/together.mjs [--rounds N] [--tokens N] [--threads N] [--build NAME] [--model FILE] [--json]
//
// Then choices of one request, `n: 4`, one after the other and at the same time: what that takes, prompt included.
//
// Printed for each number: the median over the rounds of tokens/s of all together, and of its ratio to one's in the same round.
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { median } from '../../tools/bench/stats.mjs';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '64' },
    threads: { type: 'string', default: '1' },
    build: { type: 'string' },
    model: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const [rounds, maxTokens, threads] = [values.rounds, values.tokens, values.threads].map(Number);
const COUNTS = [1, 2, 4, 8];
const PROMPTS = ['The sea', 'A letter', 'In spring', 'My friend', 'The city', 'An old man', 'Music', 'At night'];

const file = values.model ?? realModel('smollm2');
if (!file) {
  console.error(NO_REAL_MODEL);
  process.exit(1);
}
const engine = await createEngine(/** @type {any} */ ({ threads, build: values.build }));
const model = /** @type {any} */ (
  await engine.load(fromFile(file), { contextTokens: 512, sessions: PROMPTS.length, activations: 'i8' })
);
const sessions = await Promise.all(PROMPTS.map(() => model.createSession()));
const options = { maxTokens, temperature: 0, stopTokens: [], speculate: false };

/** Tokens/s behind the first of n generations that run at the same time. @param {number} n */
async function rate(n) {
  const results = await Promise.all(
    sessions.slice(0, n).map((session, i) => session.generate(PROMPTS[i], options).result),
  );
  const ms = Math.max(...results.map(({ timings }) => timings.decodeMs));
  const tokens = results.reduce((sum, { tokens: ids }) => sum + ids.length - 1, 0);
  return { rate: (1000 * tokens) / ms, made: results.map(({ tokens: ids }) => String(ids)) };
}

/** @type {Map<number, number[]>} */
const rates = new Map(COUNTS.map((n) => [n, []]));
const wanted = [];
for (let i = 0; i < PROMPTS.length; i++)
  wanted.push(String((await sessions[i].generate(PROMPTS[i], options).result).tokens));
for (let round = 0; round < rounds; round++)
  for (const n of round % 2 ? [...COUNTS].reverse() : COUNTS) {
    const found = await rate(n);
    for (const [i, output] of found.made.entries())
      if (output !== wanted[i]) throw new Error(`session ${i} of ${n}: other tokens`);
    rates.get(n)?.push(found.rate);
  }
for (const session of sessions) await session.close();

const CHOICES = 4;
const content = `Tell me about ${PROMPTS.join(', ').toLowerCase()}.`.repeat(4);
/** Milliseconds for choices of one request, whose prompt is new. @param {number} parallel @param {number} round */
async function choices(parallel, round) {
  const since = performance.now();
  const messages = [{ role: 'user', content: `${round}${parallel}: ${content}` }];
  const request = { messages, n: CHOICES, seed: 1, max_tokens: maxTokens };
  const result = await model.chat.completions.create(request, { parallel });
  return { ms: performance.now() - since, tokens: result.usage.total_tokens };
}
/** @type {number[]} */
const gains = [];
await choices(2, -1); // what it loads is there
for (let round = 0; round < rounds; round++) {
  const [alone, together] = [await choices(1, round), await choices(CHOICES, round)];
  gains.push(alone.ms / alone.tokens / (together.ms / together.tokens));
}
await engine.close();
const one = rates.get(1) ?? [];
const found = COUNTS.map((n) => {
  const list = rates.get(n) ?? [];
  return { sessions: n, rate: median(list), ratio: median(list.map((rate, i) => rate / one[i])) };
});
if (values.json)
  console.log(
    JSON.stringify({ build: engine.info.build, threads: engine.info.threads, found, choices: median(gains) }),
  );
else {
  console.log(`${engine.info.build}, ${engine.info.threads} threads`);
  for (const { sessions: n, rate, ratio } of found)
    console.log(`${n} sessions: ${rate.toFixed(1)} tokens/s, ${ratio.toFixed(2)} x`);
  console.log(
    `${CHOICES} choices of a request at the same time: ${median(gains).toFixed(2)} x as fast as one after the other`,
  );
}
