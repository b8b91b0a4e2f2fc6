// Tests of activations with 16 bits: their effect on a real model, and the cases in which they are the default. golden.test.mjs and the C
// tests compare their bits.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';

const file = realModel('smollm2');

/** The reply, by the model's own template with its own system line. @param {import('../../js/shared/types.js').LoadOptions} options */
async function capital(options) {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  try {
    const model = await engine.load(fromFile(/** @type {string} */ (file)), { contextTokens: 128, ...options });
    assert.equal(model.info.activations, options.activations ?? 'i16');
    const { text } = await model.generate([{ role: 'user', content: 'What is the capital of France?' }], {
      temperature: 0,
      maxTokens: 16,
    }).result;
    return text;
  } finally {
    await engine.close();
  }
}

const PARIS = 'The capital of France is Paris.';
const skip = file ? false : NO_REAL_MODEL;

// In f32 mathematics " The" leads by 0.08; activations of 8 bits (llama.cpp's too) make it "L'Étoile, …".
for (const kv of /** @type {const} */ ([undefined, 'f32', 'f16', 'i8']))
  test(`SmolLM2 as it is loaded, KV ${kv ?? 'by default'}: the capital of France is Paris`, { skip }, async () => {
    assert.equal(await capital({ kv }), PARIS);
  });

test('SmolLM2 computes with the requested type of activations', { skip }, async () => {
  assert.equal(await capital({ activations: 'i16' }), PARIS);
  assert.match(await capital({ activations: 'i8' }), /^L'Étoile/);
});

test('bq4 run SmolLM2: the capital of France is Paris', { skip }, () => {
  const program = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
  const question = ['--chat', '--prompt', 'What is the capital of France?', '--temperature', '0', '--max-tokens', '16'];
  const { stdout } = spawnSync(process.execPath, [program, 'run', String(file), ...question], { encoding: 'utf8' });
  assert.match(stdout, /The capital of France is Paris\./);
});
