// Measures speculative decoding with prompt lookup (js/engine/speculation/prompt-lookup.js): decode without draft tokens, with them at every
// repetition (`true`) and by default (`'auto'`) with SmolLM2, in turn, and the time of steps of 1 to 8 tokens. The tokens are compared.
//
//   node tests/bench/speculate.mjs [--rounds N] [--tokens N] [--threads N] [--build NAME] [--activations i8|i16] [--model FILE]
//     [--only PROMPT,…] [--rest MS] [--steps 1,1.4,…] [--draft FILE [--draft-skip 3,14]] [--json]
//
// It prints for each prompt: tokens/s (medians); the medians over the rounds of true / false and 'auto' / false; draft tokens and
// accepted ones; the largest possible speedup with the measured costs of batches ("limit"), and the share of it that 'auto' reached, as
// measured and as computed from these costs. The first two generations, in which the engine measures costs, are not counted. `--rest`:
// milliseconds to wait before each generation. `--steps`: computes speedups for a machine with these costs of steps of 1, 2, … tokens, without measuring.
// `--draft`: also measures draft tokens of this smaller model with the same vocabulary (`--draft-skip`: without these layers).
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { median } from '../../tools/bench/stats.mjs';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { computeMaxSpeedup, computeAutoSpeedup } from './hindsight.mjs';

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
const draftOptions = /** @type {any} */ ({
  contextTokens: 2048,
  activations: values.activations,
  ...(skip && { quality: { skipLayers: skip } }),
});
const draftModel = values.draft ? await engine.load(fromFile(values.draft), draftOptions) : null;

const base = await model.createSession();

/** Returns milliseconds of steps with 1 to `maxLength` tokens after 300 others, medians of rounds in turn. @param {number} maxLength */
async function measureSteps(maxLength) {
  const ids = Array.from({ length: 300 }, (_, i) => 1000 + ((i * 37) % 5000));
  /** @type {number[][]} */
  const ms = Array.from({ length: maxLength }, () => []);
  await base.runAlone(async (/** @type {any} */ { sequence }) => {
    sequence.sync(Uint32Array.from(ids));
    await sequence.run({}, 0);
    for (let round = 0; round < 9; round++)
      for (let n = 1; n <= maxLength; n++) {
        sequence.sync(Uint32Array.from([...ids, 2000 + 40 * round + n])); // new tokens, since known ones are not computed again
        if (n > 1) sequence.addDraftTokens(ids.slice(0, n - 1));
        const since = performance.now();
        await sequence.run({}, 0);
        if (round > 1) ms[n - 1].push(performance.now() - since);
      }
  });
  return ms.map(median);
}

/** Computes the prompt in the base session, from which generations fork. Returns its tokens. @param {{ ask: string, begin?: string }} prompt @returns {Promise<number[]>} */
async function computePrompt({ ask, begin = '' }) {
  const text = `<|im_start|>user\n${ask}<|im_end|>\n<|im_start|>assistant\n${begin}`;
  const prompt = [...(await model.tokenize(text, { parseSpecial: true }))];
  await base.generate(prompt, { maxTokens: 1, temperature: 0 }).result;
  await base.truncate(prompt.length);
  return prompt;
}

/** Generates in a fork, whose tuner has no counts of the text yet. @param {any} speculate */
async function runOnce(speculate) {
  await new Promise((go) => setTimeout(go, Number(values.rest)));
  const session = await base.fork();
  const { tokens: output, timings } = await session.continue({ temperature: 0, maxTokens, speculate }).result;
  await session.close();
  return { output, timings, rate: (1000 * (output.length - 1)) / timings.decodeMs };
}

const selected = values.only?.split(',');
const prompts = Object.entries(PROMPTS).filter(([name]) => selected?.includes(name) ?? true);
const ms = values.steps ? values.steps.split(',').map(Number) : await measureSteps(8);
const steps = ms.map((time) => time / ms[0]);

/** Measures all modes with a prompt. @param {[string, { ask: string, begin?: string }]} entry */
async function measurePrompt([name, request]) {
  const prompt = await computePrompt(request);
  const modes = [false, true, 'auto', ...(draftModel ? [{ model: draftModel }] : [])];
  /** @type {Map<any, any[]>} */
  const runs = new Map(modes.map((mode) => [mode, []]));
  // In another order in each round.
  for (let round = 0; round < rounds; round++)
    for (const [i] of modes.entries()) {
      const mode = modes[(i + round) % modes.length];
      runs.get(mode)?.push(await runOnce(mode));
    }
  const [plain, always, auto, withDraftModel] = modes.map((mode) => runs.get(mode) ?? []);
  for (const { output } of [...runs.values()].flat())
    if (String(output) !== String(plain[0].output))
      throw new Error(`${name}: expected the tokens ${plain[0].output}, found ${output}`);
  const rate = (/** @type {any[]} */ runsOfMode) => median(runsOfMode.map((run) => run.rate));
  const ratio = (/** @type {any[]} */ runsOfMode) => median(runsOfMode.map((run, i) => run.rate / plain[i].rate));
  const last = (/** @type {any[]} */ runsOfMode) => runsOfMode[runsOfMode.length - 1].timings;
  const text = { prompt, output: plain[0].output };
  const limit = computeMaxSpeedup(text, steps);
  return {
    name,
    tokens: plain[0].output.length,
    rates: [plain, always, auto].map(rate),
    always: ratio(always),
    auto: ratio(auto),
    drafted: last(auto).draftedTokens,
    accepted: last(auto).acceptedTokens,
    draft: withDraftModel && {
      rate: ratio(withDraftModel),
      drafted: last(withDraftModel).draftedTokens,
      accepted: last(withDraftModel).acceptedTokens,
    },
    limit,
    share: ratio(auto) / limit,
    computedShare: computeAutoSpeedup(text, steps) / limit,
  };
}

/** Computes speedups with the costs of `--steps`. @param {[string, { ask: string, begin?: string }]} entry */
async function computeFromSteps([name, request]) {
  const prompt = await computePrompt(request);
  const text = { prompt, output: (await runOnce(false)).output };
  const limit = computeMaxSpeedup(text, steps);
  const auto = computeAutoSpeedup(text, steps);
  return { name, tokens: text.output.length, auto, limit, computedShare: auto / limit };
}

if (!values.steps) {
  await computePrompt(PROMPTS.editing);
  for (const mode of [true, 'auto']) await runOnce(mode);
}
/** @type {any[]} */
const rows = [];
for (const entry of prompts) rows.push(await (values.steps ? computeFromSteps : measurePrompt)(entry));
await engine.close();
const { build } = engine.info;
if (values.json) console.log(JSON.stringify({ build, threads: engine.info.threads, ms, steps, rows }));
else {
  const formatNumber = (/** @type {number} */ x) => x.toFixed(2);
  console.log(`${build}, ${engine.info.threads} threads, activations ${values.activations ?? 'as by default'}`);
  console.log(
    `steps of 1 to ${ms.length} tokens: ${steps.map(formatNumber).join(' ')}`,
    values.steps ? '(--steps)' : `(1: ${formatNumber(ms[0])} ms)`,
  );
  for (const row of rows)
    console.log(
      row.name.padEnd(20),
      ...(row.rates
        ? [
            `${row.rates.map((/** @type {number} */ x) => x.toFixed(1)).join(' | ')} tokens/s, true ${formatNumber(row.always)} x, auto ${formatNumber(row.auto)} x;`,
            `${row.tokens} tokens, ${row.drafted} drafted, ${row.accepted} accepted; limit ${formatNumber(row.limit)}, share ${formatNumber(row.share)}, computed ${formatNumber(row.computedShare)}`,
            row.draft
              ? `; draft model ${formatNumber(row.draft.rate)} x, ${row.draft.drafted} drafted, ${row.draft.accepted} accepted`
              : '',
          ]
        : [
            `${row.tokens} tokens: auto ${formatNumber(row.auto)} x; limit ${formatNumber(row.limit)}, share ${formatNumber(row.computedShare)}`,
          ]),
    );
}
