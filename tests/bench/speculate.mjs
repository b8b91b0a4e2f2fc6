// What guesses bring (js/engine/guesses.js): decode with and without on SmolLM2, in turn, round after round, and what steps
// of 1 to 8 tokens take. Tokens are checked to be the same.
//
//   node tests/bench/speculate.mjs [--rounds N] [--tokens N] [--threads N] [--build NAME] [--model FILE] [--json]
//
// Printed for each prompt: tokens/s of the medians, the median over the rounds of with / without, tokens that were guessed
// and that came.
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/engine.js';
import { median } from '../../tools/bench/stats.mjs';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '160' },
    threads: { type: 'string', default: '1' },
    build: { type: 'string' },
    model: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const [rounds, maxTokens, threads] = [values.rounds, values.tokens, values.threads].map(Number);

const LETTER = `Dear Mrs. Green,

thank you for you're letter of the third of May. We have recieved the three boxes of tea cups that you sent us, and we are happy with
there quality. Two of the cups was broken when they arrived, but we do not beleive that this is your fault. We would like to order
five more boxes of the same kind, and one box of the blue plates that you have shown us in the spring. Please send them to our new
adress, which you find at the end of this letter. We will pay as soon as the boxes has arrived.

Yours sincerely,
Thomas Miller`;
const ARTICLE = `The lighthouse of Northpoint was built in 1871 from granite that was cut on the island itself. For ninety years it was
kept by three families, who lived in the two houses at its foot. In 1961 the lamp was replaced by an electric one, and the last keeper,
Anna Larsen, left the island with her two sons. The houses stood empty until 1994, when the town of Northpoint bought the island and
opened a museum in the larger house. Today some 12,000 visitors come each summer. The lighthouse of Northpoint still works, but its light
is switched on and off by a computer in the harbour office, eleven kilometres away.`;
const RECORDS = `name: Anna Larsen, role: keeper, born: 1912, island: Northpoint
name: Erik Larsen, role: assistant, born: 1938, island: Northpoint
name: Maria Olsen, role: keeper, born: 1871, island: Southpoint
name: Jonas Olsen, role: assistant, born: 1899, island: Southpoint
name: Ida Berg, role: cook, born: 1904, island: Northpoint`;

/** @type {Record<string, { ask: string, begin?: string }>} */
const PROMPTS = {
  editing: { ask: `Correct the spelling mistakes in this letter, and change nothing else:\n\n${LETTER}` },
  summarizing: { ask: `Summarize this text in its own words and sentences:\n\n${ARTICLE}` },
  JSON: {
    ask: `Write each of these lines as an object of a JSON array, with the keys "name", "role", "born" and "island":\n\n${RECORDS}`,
    begin: '[\n  {\n    "name": "Anna Larsen",',
  },
  'nothing repeated': { ask: 'Tell me an adventure of a young sailor who finds an unknown land far in the south.' },
};

const file = values.model ?? realModel('smollm2');
if (!file) {
  console.error(NO_REAL_MODEL);
  process.exit(1);
}
const engine = await createEngine(/** @type {any} */ ({ threads, build: values.build }));
const model = /** @type {any} */ (await engine.load(fromFile(file), { context: 2048, activations: 'i8' }));

/** Milliseconds of a step with so many tokens, behind 300 others: medians of rounds in turn. @param {number} most */
async function stepsOf(most) {
  const session = await model.createSession();
  const ids = Array.from({ length: 300 }, (_, i) => 1000 + ((i * 37) % 5000));
  /** @type {number[][]} */
  const ms = Array.from({ length: most }, () => []);
  await session.alone(async (/** @type {any} */ { timeline }) => {
    timeline.sync(Uint32Array.from(ids));
    await timeline.run({}, 0);
    for (let round = 0; round < 20; round++)
      for (let n = 1; n <= most; n++) {
        timeline.sync(Uint32Array.from(ids));
        await timeline.run({}, 0);
        timeline.push(2000 + round);
        if (n > 1) timeline.draft(ids.slice(0, n - 1));
        const since = performance.now();
        await timeline.run({}, 0);
        if (round > 3) ms[n - 1].push(performance.now() - since);
      }
  });
  await session.close();
  return ms.map(median);
}

/** @param {{ ask: string, begin?: string }} prompt @param {any} speculate */
async function once({ ask, begin = '' }, speculate) {
  const text = `<|im_start|>user\n${ask}<|im_end|>\n<|im_start|>assistant\n${begin}`;
  const ids = await model.tokenize(text, { parseSpecial: true });
  const session = await model.createSession();
  const { ids: made, timings } = await session.generate(ids, { temperature: 0, maxTokens, speculate });
  await session.close();
  return { made, timings, rate: (1000 * (made.length - 1)) / timings.decodeMs };
}

const steps = await stepsOf(8);
const found = [];
for (const [name, prompt] of Object.entries(PROMPTS)) {
  const [plain, fast] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  let last;
  for (let round = 0; round < rounds; round++)
    for (const speculate of round % 2 ? [true, false] : [false, true]) {
      const run = await once(prompt, speculate);
      if (last && String(last.made) !== String(run.made)) throw new Error(`${name}: other tokens`);
      (speculate === false ? plain : fast).push(run.rate);
      if (speculate) last = run;
    }
  const { made, timings } = /** @type {any} */ (last);
  found.push({
    name,
    tokens: made.length,
    plain: median(plain),
    speculating: median(fast),
    ratio: median(fast.map((rate, i) => rate / plain[i])),
    drafted: timings.draftedTokens,
    accepted: timings.acceptedTokens,
  });
}
await engine.close();
if (values.json) console.log(JSON.stringify({ build: engine.info.build, threads: engine.info.threads, steps, found }));
else {
  console.log(`${engine.info.build}, ${engine.info.threads} threads`);
  console.log(
    `steps of 1 to 8 tokens: ${steps.map((ms) => (ms / steps[0]).toFixed(2)).join(' ')} (1: ${steps[0].toFixed(2)} ms)`,
  );
  for (const row of found)
    console.log(
      row.name.padEnd(18),
      `${row.plain.toFixed(1)} -> ${row.speculating.toFixed(1)} tokens/s, ${row.ratio.toFixed(2)} x;`,
      `${row.tokens} tokens, ${row.drafted} guessed, ${row.accepted} came`,
    );
}
