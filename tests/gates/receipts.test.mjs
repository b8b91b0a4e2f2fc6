// Tests of receipts in the native build, which has other kernels, another compiler and real threads: it computes the same tokens as the
// modules.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { readReceipt, receiptOf } from '../../js/api/receipts/index.js';

const path = (/** @type {string} */ name) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const MODEL = path('models/chat.bq4');
/** Of docs/reference/receipts.md. */
const DEFAULTS = { temperature: 0.7, topK: 40, topP: 0.95, minP: 0, repeatPenalty: 1, repeatLast: 64 };

/** A receipt as tools/native/replay.c reads it. @param {import('../../js/api/receipts/index.js').Receipt} receipt */
function words({
  model: { context, kv, activations },
  options: { maxTokens: _, logitBias = [], ...options },
  seed,
  prompt,
  tokens: ids,
}) {
  const named = { context, kv, activations, ...DEFAULTS, ...options, seed, tokens: ids.length };
  const biases = /** @type {{ token: number, bias: string }[]} */ (logitBias).map(
    ({ token: id, bias }) => `bias ${id} ${bias}`,
  );
  return [
    ...Object.entries(named).map(([name, value]) => `${name} ${value}`),
    ...biases,
    `prompt ${prompt.length} ${prompt.join(' ')}`,
  ].join('\n');
}

/** @param {import('../../js/api/receipts/index.js').Receipt} receipt @param {number} threads */
const replayed = (receipt, threads) =>
  execFileSync(path('build/native/replay'), [MODEL, String(threads)], { input: words(receipt), encoding: 'utf8' })
    .trim()
    .split(' ')
    .map(Number);

test('each build and browser reproduces the receipt', async () => {
  const receipt = await readReceipt(readFileSync(path('tests/golden/receipt.json'), 'utf8'));
  for (const threads of [1, 3]) assert.deepEqual(replayed(receipt, threads), receipt.tokens, `${threads} threads`);
  assert.notDeepEqual(replayed({ ...receipt, seed: receipt.seed + 1 }, 1), receipt.tokens, 'another seed gives others');
});

test('receipts of every KV cache type, both types of activations and all sampling options are reproduced', async () => {
  const engine = await createEngine({ threads: 1 });
  for (const [load, options] of /** @type {const} */ ([
    [{ kv: 'f32' }, { temperature: 0, maxTokens: 30 }],
    [{ kv: 'f16' }, { temperature: 1.3, topK: 0, topP: 1, maxTokens: 30, seed: 2 ** 53 - 1 }],
    [{ kv: 'i4' }, { temperature: 0.8, minP: 0.05, repeatPenalty: 1.3, repeatLast: 20, maxTokens: 40, seed: 4 }],
    [{ kv: 'i2' }, { temperature: 0.7, maxTokens: 40, seed: 5 }],
    [
      { activations: 'i16', contextTokens: 64 },
      {
        logitBias: [
          { token: 262, bias: -Infinity },
          { token: 300, bias: 1.5 },
        ],
        maxTokens: 30,
        seed: 9,
      },
    ],
  ])) {
    const model = await engine.load(fromFile(MODEL), load);
    const session = await model.createSession();
    const chosen = { ...options, logitBias: options.logitBias && [...options.logitBias] };
    const result = await session.generate('There was once a fox that', chosen).result;
    const receipt = await receiptOf(model, session, result, chosen);
    for (const threads of [1, 2]) assert.deepEqual(replayed(receipt, threads), receipt.tokens, JSON.stringify(load));
    await model.close();
  }
  await engine.close();
});

test('input that is no record is refused with a reason', () => {
  for (const [input, what] of /** @type {[string, RegExp][]} */ ([
    ['context 64', /expected a prompt, found none/],
    ['prompt 2 5', /expected a number/],
    ['heat 3', /expected a name of an option or `prompt`/],
    ['kv i9', /expected a type of the KV cache or of activations/],
    ['prompt 1 99999999\ntokens 1', /ARGUMENT/],
  ]))
    assert.throws(
      () =>
        execFileSync(path('build/native/replay'), [MODEL, '1'], {
          input,
          encoding: 'utf8',
          stdio: 'pipe',
        }),
      what,
    );
});
