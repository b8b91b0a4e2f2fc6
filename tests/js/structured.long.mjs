// Tests of forms that a real model fills in, at any temperature and limit: replies that are reported as complete are valid, as checked by
// ajv. Also tests formats of exponential size, which stop at the limit of memory.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createEngine, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { validator } from './validator.mjs';

const folder = new URL('../bench/forms/', import.meta.url);
/** Two that no form fits; one that each can be ended within, though some would go on; one that none comes to. */
const LIMITS = [8, 40, 90, 300];
const real = realModel('smollm2');

describe('SmolLM2', { skip: real ? false : NO_REAL_MODEL }, () => {
  /** @type {import('../../js/index.js').Engine} */
  let engine;
  /** @type {import('../../js/index.js').Model} */
  let model;
  before(async () => {
    engine = await createEngine();
    model = await engine.load(fromFile(String(real)), { contextTokens: 512 });
  });
  after(() => engine?.close());

  for (const file of readdirSync(folder).sort()) {
    const name = file.replace('.json', '');
    const schema = JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
    const valid = validator(schema);

    test(`a form, ${name}: complete at any limit that it fits, otherwise the finish reason reports it`, async () => {
      for (const temperature of [0, 1, 2]) {
        /** @type {string[]} */
        const reasons = [];
        for (const maxTokens of LIMITS) {
          const {
            choices: [{ message, finish_reason }],
            usage,
          } = await model.chat.completions.create({
            messages: [{ role: 'user', content: `Fill in the ${name} form for John Miller, 34 years old.` }],
            response_format: { type: 'json_schema', json_schema: { name, schema } },
            temperature,
            top_p: 1,
            top_k: 0,
            seed: 4,
            max_tokens: maxTokens,
          });
          const what = `${temperature}, ${maxTokens}: ${message.content}`;
          assert.ok(usage.completion_tokens <= maxTokens, what);
          if (finish_reason === 'stop') assert.ok(valid(JSON.parse(message.content ?? '')), what);
          else assert.throws(() => JSON.parse(message.content ?? ''), what);
          reasons.push(finish_reason);
        }
        assert.deepEqual(reasons, ['length', 'length', 'stop', 'stop']);
      }
    });
  }
});

test('formats with exponential size are refused before they take 256 MB of memory', { timeout: 60_000 }, async () => {
  const many = (/** @type {number} */ n) => Array.from({ length: n }, (_, i) => `text ${i * 7919}`);
  const optional = Object.fromEntries(many(2000).map((name) => [name, {}]));
  const formats = [
    { type: 'regex', pattern: '(a?){10000}' },
    { type: 'regex', pattern: '((((a{50}){50}){50}){50}){50}' },
    { type: 'choice', choices: many(100_000) },
    { type: 'json_schema', schema: { enum: many(100_000) } },
    { type: 'json_schema', schema: { properties: optional, additionalProperties: false, minProperties: 900 } },
    { type: 'grammar', grammar: `root ::= ${'('.repeat(5000)}"a"${')'.repeat(5000)}` },
  ];
  const code = `
    import { parentPort, workerData } from 'node:worker_threads';
    const { compile } = await import(workerData.from);
    const said = [];
    for (const format of workerData.formats)
      said.push(await compile(format).then(({ bytes }) => bytes.length, ({ code, message }) => [code, message]));
    parentPort.postMessage(said);`;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`), {
    workerData: { from: new URL('../../js/text/grammar/index.js', import.meta.url).href, formats },
    resourceLimits: { maxOldGenerationSizeMb: 256 },
  });
  /** @type {any[]} */
  const promise = await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject));
  assert.equal(promise.length, formats.length);
  for (const [code, message] of promise) {
    assert.equal(code, 'GRAMMAR');
    assert.match(message, /too many states|levels deep/);
  }
});
