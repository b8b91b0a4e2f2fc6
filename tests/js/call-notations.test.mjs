// Tests of arguments in the notations of LFM2 (Python) and Gemma 4: random schemas are compared with ajv, and texts with Python's own
// parser.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compileParts, Machine } from '../../js/text/grammar/index.js';
import { CALL_NOTATIONS, notationNamed, writeValue } from '../../js/text/grammar/notations.js';
import { readArguments } from '../../js/text/templates/noted-values.js';
import { callStyle, compareModels } from './schema-model.mjs';
import { encodeTokenizer, TOKEN } from '../../js/text/tokenizers/section.js';
import { random, tokenizer } from './fixture.mjs';
import { picker } from './random-texts.mjs';

const FROM = Number(process.env.BQ4_SEED ?? 1);
const COUNT = Number(process.env.BQ4_SCHEMAS ?? 60);
const PYTHON = process.env.BQ4_PYTHON ?? 'python3';
const SCRIPT = fileURLToPath(new URL('../py/call_notations.py', import.meta.url));

/** What Python reads of texts. @param {string} notation @param {string[]} texts @returns {any[]} */
function pythonReads(notation, texts) {
  const { stdout, stderr, status } = spawnSync(PYTHON, [SCRIPT, notation], {
    input: JSON.stringify(texts),
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/** Arguments with all that a value may be. */
const SAMPLES = [
  {},
  { city: 'Oslo' },
  { a: [true, null, 1.5e-7, 'it\'s "x"\n'], b: { c: { d: false } } },
  { n: -12, text: 'a <|"| > \\ } ) ] , : \t', list: [[], {}, [{ e: '' }]] },
];

for (const { name } of CALL_NOTATIONS)
  describe(`arguments in the notation "${name}"`, () => {
    test(`texts of ${COUNT} random schemas from seed ${FROM} are valid, only valid texts are accepted, and Python parses them equally`, async (t) => {
      const { compiled, texts, valid, invalid, refused, differences, written } = await compareModels(FROM, COUNT, {
        style: callStyle(name),
      });
      t.diagnostic(`${compiled} compiled, ${texts} texts, ${valid} valid values and ${invalid} others`);
      assert.deepEqual(differences, [], differences.join('\n'));
      assert.ok(refused.length <= COUNT / 3, refused.join('\n'));
      const read = pythonReads(
        name,
        written.map(({ text }) => text),
      );
      const bare = (/** @type {any} */ value) => JSON.parse(JSON.stringify(value)); // without -0
      for (const [i, { text, value }] of written.entries()) assert.deepEqual(bare(read[i]), bare(value), text);
    });

    test('randomly changed texts are parsed if and only if the grammar matches them', async (t) => {
      const notation = notationNamed(name);
      const { takes } = await picker(FROM);
      const format = { arguments: name };
      const compiled = await compileParts({ arguments: { type: 'object' }, notation: name });
      const next = random(FROM);
      const below = (/** @type {number} */ n) => Math.floor(((next() + 1) / 2) * n);
      const marks = [...notation.quotes, ...notation.object.names, ...notation.root.names].flatMap((q) => [
        q.open,
        q.close,
      ]);
      const pieces = [
        ...marks,
        ...'{}[](),:= \\\n\'"<|>',
        'a',
        '7',
        '-',
        '.',
        'e1',
        'u00e9',
        'x41',
        'ud83d',
        'None',
        'true',
        'é𝄞',
      ];
      const counts = { read: 0, refused: 0 };
      for (let i = 0; i < 3000; i++) {
        let text = writeValue(SAMPLES[below(SAMPLES.length)], notation, notation.root);
        for (let n = 1 + below(3); n--;) {
          const at = below(text.length + 1);
          const end = at + (below(2) ? 0 : 1 + below(4));
          text = text.slice(0, at) + (below(4) ? pieces[below(pieces.length)] : '') + text.slice(end);
        }
        // The grammar has numbers of at most 15 digits, with exponents of at most two; half of a character is no text.
        if (/\d{9}|[eE][+-]?\d{3}/.test(text) || /\p{Surrogate}/u.test(text)) continue;
        let read = null;
        try {
          read = readArguments(text, notation);
        } catch {
          // it is not in the notation
        }
        counts[read ? 'read' : 'refused']++;
        assert.equal(await takes(format, text, compiled), read !== null, JSON.stringify(text));
      }
      t.diagnostic(JSON.stringify(counts));
      assert.ok(counts.read > 200 && counts.refused > 200);
    });
  });

test('a token that contains a quote is allowed only in strings with other quotes', async () => {
  const tokens = tokenizer();
  const id = tokens.tokens.push({ bytes: new TextEncoder().encode("it's"), score: 0, kind: TOKEN.normal }) - 1;
  const machine = await Machine.create(
    new URL('../../build/wasm/bq4-grammar.wasm', import.meta.url).href,
    encodeTokenizer(tokens),
    320,
  );
  const schema = {
    type: 'object',
    properties: { a: { type: 'string' } },
    required: ['a'],
    additionalProperties: false,
  };
  const matcher = await machine.matcher('a', () => compileParts({ arguments: schema, notation: 'python' }));
  for (const [text, isAllowed] of /** @type {const} */ ([
    ['a="', true],
    ["a='", false],
  ])) {
    matcher.mark();
    for (const byte of new TextEncoder().encode(text)) assert.ok(matcher.accept(machine.longest(Uint8Array.of(byte))));
    assert.equal(Boolean((matcher.mask(10)[id >>> 5] >>> (id & 31)) & 1), isAllowed, text);
    matcher.return();
  }
});
