// What guesses bring (js/engine/speculation/prompt-lookup.js): decode without them, wherever something repeats (`true`) and by default (`'auto'`) on
// SmolLM2, in turn, round after round, and what steps of 1 to 8 tokens take. Tokens are checked to be the same.
//
//   node tests/bench/speculate.mjs [--rounds N] [--tokens N] [--threads N] [--build NAME] [--activations i8|i16] [--model FILE]
//     [--only PROMPT,…] [--rest MS] [--steps 1,1.4,…] [--draft FILE [--draft-skip 3,14]] [--json]
//
// Printed for each prompt: tokens/s of the medians; the medians over the rounds of true / false and 'auto' / false; tokens that were
// guessed and that came; what the measured batches allow, had it been known which guesses come ("allowed"), and the share of that which 'auto'
// reached, as timed and as counted from what it computes with such batches. The engine's first two generations, in which it learns what
// batches take, are not timed. `--rest`: before each, for others of the machine. `--steps`: nothing is timed, all is counted for a machine whose steps of 1, 2, … tokens take so long.
// `--draft`: and guessed by this smaller model of the same vocabulary (`--draft-skip`: without these layers), with its own counts.
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { median } from '../../tools/bench/stats.mjs';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { allowed, counted } from './hindsight.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '160' },
    threads: { type: 'string', default: '1' },
    build: { type: 'string' },
    activations: { type: 'string' },
    model: { type: 'string' },
    only: { type: 'string' },
    rest: { type: 'string', default: '0' },
    steps: { type: 'string' },
    draft: { type: 'string' },
    'draft-skip': { type: 'string' },
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
  'a list of sentences': {
    ask: `List all sentences of this text that have a number in them:\n\n${ARTICLE}`,
    begin: '1.',
  },
  'nothing repeated': { ask: 'Tell me an adventure of a young sailor who finds an unknown land far in the south.' },
};

const file = values.model ?? realModel('smollm2');
if (!file) {
  console.error(NO_REAL_MODEL);
  process.exit(1);
}
const engine = await createEngine(/** @type {any} */ ({ threads, build: values.build }));
const model = /** @type {any} */ (
  await engine.load(
    fromFile(file),
    /** @type {any} */ ({ contextTokens: 2048, forks: 1, activations: values.activations }),
  )
);

const skip = values['draft-skip']?.split(',').map(Number);
const more = /** @type {any} */ ({
  contextTokens: 2048,
  activations: values.activations,
  ...(skip && { quality: { skipLayers: skip } }),
});
const small = values.draft ? await engine.load(fromFile(values.draft), more) : null;

const base = await model.createSession();

/** Milliseconds of a step with so many tokens, behind 300 others: medians of rounds in turn. @param {number} most */
async function stepsOf(most) {
  const ids = Array.from({ length: 300 }, (_, i) => 1000 + ((i * 37) % 5000));
  /** @type {number[][]} */
  const ms = Array.from({ length: most }, () => []);
  await base.runAlone(async (/** @type {any} */ { sequence }) => {
    sequence.sync(Uint32Array.from(ids));
    await sequence.run({}, 0);
    for (let round = 0; round < 9; round++)
      for (let n = 1; n <= most; n++) {
        sequence.sync(Uint32Array.from([...ids, 2000 + 40 * round + n])); // what was there already would not be computed
        if (n > 1) sequence.addDraftTokens(ids.slice(0, n - 1));
        const since = performance.now();
        await sequence.run({}, 0);
        if (round > 1) ms[n - 1].push(performance.now() - since);
      }
  });
  return ms.map(median);
}

/** Its prompt is computed, for what comes next. @param {{ ask: string, begin?: string }} prompt @returns {Promise<number[]>} */
async function begin({ ask, begin = '' }) {
  const text = `<|im_start|>user\n${ask}<|im_end|>\n<|im_start|>assistant\n${begin}`;
  const prompt = [...(await model.tokenize(text, { parseSpecial: true }))];
  await base.generate(prompt, { maxTokens: 1, temperature: 0 }).result;
  await base.truncate(prompt.length);
  return prompt;
}

/** In a session of its own, which has learned nothing of the text yet. @param {any} speculate */
async function once(speculate) {
  await new Promise((go) => setTimeout(go, Number(values.rest)));
  const session = await base.fork();
  const { tokens: output, timings } = await session.continue({ temperature: 0, maxTokens, speculate }).result;
  await session.close();
  return { made: output, timings, rate: (1000 * (output.length - 1)) / timings.decodeMs };
}

const only = values.only?.split(',');
const prompts = Object.entries(PROMPTS).filter(([name]) => only?.includes(name) ?? true);
const ms = values.steps ? values.steps.split(',').map(Number) : await stepsOf(8);
const steps = ms.map((each) => each / ms[0]);

/** @param {[string, { ask: string, begin?: string }]} entry */
async function measured([name, asked]) {
  const prompt = await begin(asked);
  const ways = [false, true, 'auto', ...(small ? [{ model: small }] : [])];
  /** @type {Map<any, any[]>} */
  const runs = new Map(ways.map((mode) => [mode, []]));
  // In another order each time.
  for (let round = 0; round < rounds; round++)
    for (const [i] of ways.entries()) {
      const method = ways[(i + round) % ways.length];
      runs.get(method)?.push(await once(method));
    }
  const [plain, all, auto, drafted] = ways.map((mode) => runs.get(mode) ?? []);
  for (const { made: output } of [...runs.values()].flat())
    if (String(output) !== String(plain[0].made)) throw new Error(`${name}: other tokens`);
  const rate = (/** @type {any[]} */ some) => median(some.map((run) => run.rate));
  const ratio = (/** @type {any[]} */ some) => median(some.map((run, i) => run.rate / plain[i].rate));
  const last = (/** @type {any[]} */ some) => some[some.length - 1].timings;
  const text = { prompt, made: plain[0].made };
  const limit = allowed(text, steps);
  return {
    name,
    tokens: plain[0].made.length,
    rates: [plain, all, auto].map(rate),
    always: ratio(all),
    auto: ratio(auto),
    guessed: last(auto).draftedTokens,
    came: last(auto).acceptedTokens,
    draft: drafted && {
      rate: ratio(drafted),
      guessed: last(drafted).draftedTokens,
      came: last(drafted).acceptedTokens,
    },
    allowed: limit,
    share: ratio(auto) / limit,
    counted: counted(text, steps) / limit,
  };
}

/** @param {[string, { ask: string, begin?: string }]} entry */
async function thought([name, asked]) {
  const prompt = await begin(asked);
  const text = { prompt, made: (await once(false)).made };
  const limit = allowed(text, steps);
  const auto = counted(text, steps);
  return { name, tokens: text.made.length, auto, allowed: limit, counted: auto / limit };
}

if (!values.steps) {
  await begin(PROMPTS.editing);
  for (const mode of [true, 'auto']) await once(mode);
}
/** @type {any[]} */
const found = [];
for (const entry of prompts) found.push(await (values.steps ? thought : measured)(entry));
await engine.close();
const { build } = engine.info;
if (values.json) console.log(JSON.stringify({ build, threads: engine.info.threads, ms, steps, found }));
else {
  const two = (/** @type {number} */ x) => x.toFixed(2);
  console.log(`${build}, ${engine.info.threads} threads, activations ${values.activations ?? 'as by default'}`);
  console.log(
    `steps of 1 to ${ms.length} tokens: ${steps.map(two).join(' ')}`,
    values.steps ? '(as told)' : `(1: ${two(ms[0])} ms)`,
  );
  for (const row of found)
    console.log(
      row.name.padEnd(20),
      ...(row.rates
        ? [
            `${row.rates.map((/** @type {number} */ x) => x.toFixed(1)).join(' | ')} tokens/s, true ${two(row.always)} x, auto ${two(row.auto)} x;`,
            `of ${row.tokens} tokens ${row.guessed} guessed, ${row.came} came; allowed ${two(row.allowed)}, reached ${two(row.share)}, counted ${two(row.counted)}`,
            row.draft ? `; draft ${two(row.draft.rate)} x, ${row.draft.guessed} guessed, ${row.draft.came} came` : '',
          ]
        : [`${row.tokens} tokens: auto ${two(row.auto)} x; allowed ${two(row.allowed)}, counted ${two(row.counted)}`]),
    );
}
