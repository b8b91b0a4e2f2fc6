#!/usr/bin/env node
// What a mask costs over the first 150,000 tokens of o200k_base (OpenAI's), and what compiling costs. Each round does the same
// on a machine of its own, where nothing was met before; a time is the least of all rounds, since others on the machine only add:
//
//   node tests/bench/masks.mjs
import { createRequire } from 'node:module';
import { encodeTokenizer, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';
import { compile, Machine } from '../../js/text/grammar/index.js';
import { random } from '../js/fixture.mjs';

const TOKENS = 150_000;
const ROUNDS = 5;
/** Milliseconds that this thread has computed: of what takes longer than the machine leaves a thread alone. */
const spent = () => {
  const { user, system } = /** @type {any} */ (process).threadCpuUsage();
  return (user + system) / 1000;
};
/** A list of rows, each of some tokens from a number on. @type {string} */
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
/** Of more than 10 KB: plain properties, and objects of several kinds that contain each other. */
const large = {
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
  [`${JSON.stringify(large).length} bytes`]: large,
};

/** @type {Map<string, { compiled: number[], masks: number[] }>} */
const least = new Map();
const sorted = { ms: Infinity, bytes: 0 };
for (let round = 0; round < ROUNDS; round++) {
  let since = spent();
  const machine = await Machine.create(
    new URL('../../build/wasm/bq4-grammar.wasm', import.meta.url).href,
    section,
    TOKENS,
  );
  [sorted.ms, sorted.bytes] = [Math.min(sorted.ms, spent() - since), machine.memoryBytes];
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    since = spent();
    await compile({ type: 'json_schema', schema });
    const { compiled, masks } = least.get(name) ?? { compiled: [], masks: [] };
    least.set(name, { compiled, masks });
    compiled.push(spent() - since);
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

console.log(`${TOKENS} tokens sorted in ${sorted.ms.toFixed(0)} ms, ${(sorted.bytes / 2 ** 20).toFixed(1)} MiB`);
console.log('schema          compile ms: first    least   masks   mean µs    median µs   largest µs');
for (const [name, { compiled, masks }] of least) {
  const mean = masks.reduce((a, b) => a + b, 0) / masks.length;
  const rising = [...masks].sort((a, b) => a - b);
  console.log(
    name.padEnd(16) +
      compiled[0].toFixed(1).padStart(17) +
      Math.min(...compiled)
        .toFixed(1)
        .padStart(9) +
      String(masks.length).padStart(8) +
      mean.toFixed(1).padStart(10) +
      rising[rising.length >> 1].toFixed(1).padStart(13) +
      rising[rising.length - 1].toFixed(0).padStart(13),
  );
}
