// Measures continuous batching (js/engine/batching/continuous-batching.js): tokens/s of 1, 2, 4 and 8 generations at the same time with
// SmolLM2, in turn. The tokens are compared with those of each generation alone.
//
//   node tests/bench/together.mjs [--rounds N] [--tokens N] [--threads N] [--build NAME] [--model FILE] [--json]
//
// Then it measures the time of the choices of one request, `n: 4`, one after another and at the same time, prompt included.
//
// It prints for each number the medians over the rounds of tokens/s of all generations, and of the ratio to one in the same round.
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

/** Returns tokens/s after the first token of n generations that run at the same time, and their tokens. @param {number} n */
async function measureRate(n) {
  const results = await Promise.all(
    sessions.slice(0, n).map((session, i) => session.generate(PROMPTS[i], options).result),
  );
  const ms = Math.max(...results.map(({ timings }) => timings.decodeMs));
  const tokens = results.reduce((sum, { tokens: ids }) => sum + ids.length - 1, 0);
  return { rate: (1000 * tokens) / ms, outputs: results.map(({ tokens: ids }) => String(ids)) };
}

/** @type {Map<number, number[]>} */
const rates = new Map(COUNTS.map((n) => [n, []]));
const expected = [];
for (let i = 0; i < PROMPTS.length; i++)
  expected.push(String((await sessions[i].generate(PROMPTS[i], options).result).tokens));
for (let round = 0; round < rounds; round++)
  for (const n of round % 2 ? [...COUNTS].reverse() : COUNTS) {
    const result = await measureRate(n);
    for (const [i, output] of result.outputs.entries())
      if (output !== expected[i])
        throw new Error(`session ${i} of ${n}: expected the tokens ${expected[i]}, found ${output}`);
    rates.get(n)?.push(result.rate);
  }
for (const session of sessions) await session.close();

const CHOICES = 4;
const content = `Tell me about ${PROMPTS.join(', ').toLowerCase()}.`.repeat(4);
/** Returns milliseconds and tokens of the choices of one request with a new prompt. @param {number} parallel @param {number} round */
async function measureChoices(parallel, round) {
  const since = performance.now();
  const messages = [{ role: 'user', content: `${round}${parallel}: ${content}` }];
  const request = { messages, n: CHOICES, seed: 1, max_tokens: maxTokens };
  const result = await model.chat.completions.create(request, { parallel });
  return { ms: performance.now() - since, tokens: result.usage.total_tokens };
}
/** @type {number[]} */
const ratios = [];
await measureChoices(2, -1); // loads modules on demand
for (let round = 0; round < rounds; round++) {
  const [serial, parallelResult] = [await measureChoices(1, round), await measureChoices(CHOICES, round)];
  ratios.push(serial.ms / serial.tokens / (parallelResult.ms / parallelResult.tokens));
}
await engine.close();
const one = rates.get(1) ?? [];
const rows = COUNTS.map((n) => {
  const list = rates.get(n) ?? [];
  return { sessions: n, rate: median(list), ratio: median(list.map((rate, i) => rate / one[i])) };
});
if (values.json)
  console.log(
    JSON.stringify({ build: engine.info.build, threads: engine.info.threads, rows, choices: median(ratios) }),
  );
else {
  console.log(`${engine.info.build}, ${engine.info.threads} threads`);
  for (const { sessions: n, rate, ratio } of rows)
    console.log(`${n} sessions: ${rate.toFixed(1)} tokens/s, ${ratio.toFixed(2)} x`);
  console.log(
    `${CHOICES} choices of a request at the same time: ${median(ratios).toFixed(2)} x as fast as one after the other`,
  );
}
