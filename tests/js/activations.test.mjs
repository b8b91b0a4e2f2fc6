// Finer activations: what they are for, on a real model. That their bits are the same everywhere, golden.test.mjs and the C tests show.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromFile } from '../../js/engine.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';

const file = realModel('smollm2');

/** The reply, by the model's own template with its own system line. @param {import('../../js/shared/types.js').LoadOptions} options */
async function capital(options) {
  const engine = await createEngine();
  try {
    const model = await engine.load(fromFile(/** @type {string} */ (file)), { context: 128, ...options });
    assert.equal(model.info.activations, options.activations ?? 'i8');
    const { text } = await model.reply([{ role: 'user', content: 'What is the capital of France?' }], {
      temperature: 0,
      maxTokens: 16,
    });
    return text;
  } finally {
    await engine.close();
  }
}

// In f32 mathematics " The" leads by 0.08; activations of 8 bits (llama.cpp's too) make it "L'Étoile, …".
for (const kv of /** @type {const} */ (['f32', 'f16', 'i8']))
  test(
    `SmolLM2 with activations of i16, KV ${kv}: the capital of France is Paris`,
    { skip: file ? false : NO_REAL_MODEL },
    async () => {
      assert.equal(await capital({ kv, activations: 'i16' }), 'The capital of France is Paris.');
    },
  );
