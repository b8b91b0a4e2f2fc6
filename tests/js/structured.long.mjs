// Forms that a real model fills in, at any temperature and any limit: what is said to be whole is, as ajv judges.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromFile } from '../../js/engine.js';
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
    model = await engine.load(fromFile(String(real)), { context: 512 });
  });
  after(() => engine?.close());

  for (const file of readdirSync(folder).sort()) {
    const name = file.replace('.json', '');
    const schema = JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
    const valid = validator(schema);

    test(`a form, ${name}: whole within any limit that it fits, and the reason says where it does not`, async () => {
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
