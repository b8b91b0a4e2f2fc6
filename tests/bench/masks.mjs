#!/usr/bin/env node
// Measures masks over the first 150,000 tokens of o200k_base (OpenAI), and the compilation of schemas. Each round does the same with a new
// `Machine`, whose caches are empty; times are minima of all rounds, since other load only increases them:
//
//   node tests/bench/masks.mjs
import { createRequire } from 'node:module';
import { encodeTokenizer, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';
import { compile, Machine } from '../../js/text/grammar/index.js';
import { random } from '../js/fixture.mjs';

const TOKENS = 150_000;
const ROUNDS = 5;
/** Returns the CPU milliseconds of this thread, for measurements that other threads can interrupt. */
const threadMs = () => {
  const { user, system } = /** @type {any} */ (process).threadCpuUsage();
  return (user + system) / 1000;
};
/** Rows with the number of the first token, then consecutive tokens. @type {string} */
const ranks = createRequire(import.meta.url)('js-tiktoken/ranks/o200k_base').bpe_ranks;
/** @type {{ bytes: Uint8Array, score: number, kind: number }[]} */
const tokens = [];
for (const row of ranks.split('\n')) {
  const [, first, ...texts] = row.split(' ');
  for (const [i, text] of texts.entries())
    tokens[Number(first) + i] = { bytes: Uint8Array.from(Buffer.from(text, 'base64')), score: 0, kind: TOKEN.normal };
}
tokens.length = TOKENS;
const section = encodeTokenizer({
  kind: KIND.wordlist,
  flags: 0,
  bos: NONE,
  eos: NONE,
  unk: NONE,
  pad: NONE,
  eog: [],
  tokens,
  merges: [],
});

const field = { type: 'string', minLength: 1, maxLength: 100 };
/** A schema of more than 10 KB: simple properties, and objects of several kinds that contain each other. */
const largeSchema = {
  type: 'object',
  properties: {
    ...Object.fromEntries(
      Array.from({ length: 70 }, (_, i) => [
        `a_property_with_number_${i}`,
        i % 3
          ? { type: 'integer', minimum: 0, maximum: 100 + i, description: 'a number' }
          : { ...field, description: 'a short text about it' },
      ]),
    ),
    parts: { type: 'array', items: { $ref: '#/$defs/part_0' }, minItems: 1 },
  },
  required: Array.from({ length: 20 }, (_, i) => `a_property_with_number_${3 * i}`),
  additionalProperties: false,
  $defs: Object.fromEntries(
    Array.from({ length: 12 }, (_, i) => [
      `part_${i}`,
      {
        type: 'object',
        properties: {
          kind: { enum: [`kind_${i}`, `other_${i}`] },
          made: { type: 'string', format: 'date' },
          code: { type: 'string', pattern: '^[A-Z]{2}-[0-9]{4}$' },
          parts: { type: 'array', items: { anyOf: [{ $ref: `#/$defs/part_${(i + 1) % 12}` }, { type: 'null' }] } },
        },
        required: ['kind', 'code'],
        additionalProperties: false,
      },
    ]),
  ),
};
const SCHEMAS = {
  'any object': { type: 'object' },
  'a text': field,
  texts: { type: 'array', items: { type: 'string' } },
  'a person': {
    type: 'object',
    properties: { name: field, age: { type: 'integer' }, tags: { type: 'array', items: field } },
    required: ['name', 'age', 'tags'],
  },
  [`${JSON.stringify(largeSchema).length} bytes`]: largeSchema,
};

/** @type {Map<string, { compileMs: number[], masks: number[] }>} */
const timesBySchema = new Map();
const sorting = { ms: Infinity, bytes: 0 };
for (let round = 0; round < ROUNDS; round++) {
  let since = threadMs();
  const machine = await Machine.create(
    new URL('../../build/wasm/bq4-grammar.wasm', import.meta.url).href,
    section,
    TOKENS,
  );
  [sorting.ms, sorting.bytes] = [Math.min(sorting.ms, threadMs() - since), machine.memoryBytes];
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    since = threadMs();
    await compile({ type: 'json_schema', schema });
    const { compileMs, masks } = timesBySchema.get(name) ?? { compileMs: [], masks: [] };
    timesBySchema.set(name, { compileMs, masks });
    compileMs.push(threadMs() - since);
    const next = random(3);
    let i = 0;
    for (let turn = 0; turn < 8; turn++) {
      const matcher = await machine.matcher(name, () => compile({ type: 'json_schema', schema }));
      for (let n = 0; n < 60 && matcher.continues; n++) {
        since = performance.now();
        const mask = matcher.mask(TOKENS / 32 + 1);
        masks[i] = Math.min(masks[i] ?? Infinity, 1000 * (performance.now() - since));
        i++;
        let id = Math.floor(((next() + 1) / 2) * TOKENS);
        while (!((mask[id >>> 5] >>> (id & 31)) & 1)) id = (id + 1) % TOKENS;
        matcher.accept(id);
      }
      machine.give(matcher);
    }
  }
}

console.log(`${TOKENS} tokens sorted in ${sorting.ms.toFixed(0)} ms, ${(sorting.bytes / 2 ** 20).toFixed(1)} MiB`);
console.log('schema          compile ms: first  minimum   masks   mean µs    median µs   largest µs');
for (const [name, { compileMs, masks }] of timesBySchema) {
  const mean = masks.reduce((a, b) => a + b, 0) / masks.length;
  const sortedMasks = [...masks].sort((a, b) => a - b);
  console.log(
    name.padEnd(16) +
      compileMs[0].toFixed(1).padStart(17) +
      Math.min(...compileMs)
        .toFixed(1)
        .padStart(9) +
      String(masks.length).padStart(8) +
      mean.toFixed(1).padStart(10) +
      sortedMasks[sortedMasks.length >> 1].toFixed(1).padStart(13) +
      sortedMasks[sortedMasks.length - 1].toFixed(0).padStart(13),
  );
}
