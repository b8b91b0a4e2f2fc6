#!/usr/bin/env node
// What a mask costs over a vocabulary of 150,000 tokens, made of the words of a text, and what compiling costs:
//
//   node tests/bench/masks.mjs TEXT
import { readFileSync } from 'node:fs';
import { encodeTokenizer, KIND, NONE, TOKEN } from '../../js/convert/tokenizers/section.js';
import { compile, Machine } from '../../js/grammar/index.js';
import { random } from '../js/fixture.mjs';

const TOKENS = 150_000;
/** Milliseconds that this thread has computed: others on the machine don't count. */
const now = () => {
  const { user, system } = /** @type {any} */ (process).threadCpuUsage();
  return (user + system) / 1000;
};
const text = readFileSync(process.argv[2], 'utf8');
/** @type {Map<string, Uint8Array>} */
const found = new Map();
const add = (/** @type {Uint8Array} */ bytes) => found.size < TOKENS && bytes.length && found.set(bytes.join(), bytes);
for (let b = 0; b < 256; b++) add(Uint8Array.of(b));
const encoder = new TextEncoder();
for (const part of ['{"', '":', '", "', '": "', '"}', '"]', '\\n', '\\"', '\n\n', '  ', '    ', '."', ',"', '!"'])
  add(encoder.encode(part));
const words = text.match(/ ?\p{L}+| ?\d+| ?[^\s\p{L}\d]+|\s+/gu) ?? [];
for (const word of words) add(encoder.encode(word));
for (let n = 2; found.size < TOKENS; n++)
  for (const word of words) add(encoder.encode(n < word.length ? word.slice(0, n) : `${word}${words[n]}`));
const tokens = [...found.values()].map((bytes) => ({ bytes, score: 0, kind: TOKEN.normal }));
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

const address = new URL('../../build/wasm/bq4-grammar.wasm', import.meta.url).href;
let since = now();
const machine = await Machine.create(address, section, TOKENS);
console.log(
  `${TOKENS} tokens sorted in ${(now() - since).toFixed(0)} ms, ${(machine.memoryBytes / 2 ** 20).toFixed(1)} MiB`,
);

const field = { type: 'string', minLength: 1, maxLength: 100 };
const large = {
  type: 'object',
  properties: Object.fromEntries(
    Array.from({ length: 70 }, (_, i) => [
      `a_property_with_number_${i}`,
      i % 3
        ? { type: 'integer', minimum: 0, maximum: 100 + i, description: 'a number' }
        : { ...field, description: 'a short text about it' },
    ]),
  ),
  additionalProperties: false,
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
const next = random(3);
console.log('schema          compile ms   masks   mean µs    median µs   largest µs');
for (const [name, schema] of Object.entries(SCHEMAS)) {
  const times = [];
  let compiled = Infinity;
  for (let turn = 0; turn < 5; turn++) {
    since = now();
    await compile({ type: 'json_schema', schema });
    compiled = Math.min(compiled, now() - since);
  }
  for (let turn = 0; turn < 8; turn++) {
    const matcher = await machine.matcher(name, () => compile({ type: 'json_schema', schema }));
    for (let n = 0; n < 60 && matcher.continues; n++) {
      since = now();
      const mask = matcher.mask(TOKENS / 32 + 1);
      times.push(1000 * (now() - since));
      let id = Math.floor(((next() + 1) / 2) * TOKENS);
      while (!((mask[id >>> 5] >>> (id & 31)) & 1)) id = (id + 1) % TOKENS;
      matcher.accept(id);
    }
    machine.give(matcher);
  }
  const mean = times.reduce((a, b) => a + b, 0) / times.length;
  times.sort((a, b) => a - b);
  console.log(
    `${name.padEnd(16)}${compiled.toFixed(1).padStart(10)}${String(times.length).padStart(8)}${mean.toFixed(1).padStart(10)}${times[times.length >> 1].toFixed(1).padStart(13)}${times[times.length - 1].toFixed(0).padStart(13)}`,
  );
}
