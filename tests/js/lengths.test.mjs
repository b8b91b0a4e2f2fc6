// Tests of prompts of 1, 128 and 512 tokens, and of the complete context: the bits of decode in every build and cache; the generation ends
// at the last position.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { CONFIG, random, tinyModel } from './fixture.mjs';
import { openLogits } from './logits.mjs';

const CONTEXT = 640;
const LENGTHS = [1, 128, 512, CONTEXT - 1, CONTEXT];
const bytes = await tinyModel({ config: { layers: 2, context: CONTEXT }, type: 'bq4_32' });
const next = random(7);
const IDS = Array.from({ length: CONTEXT }, () => Math.floor(((next() + 1) / 2) * CONFIG.vocab));

for (const build of /** @type {const} */ (['simd128', 'relaxed', 'relaxed16'])) {
  for (const kv of /** @type {const} */ (['f32', 'f16', 'i8', 'i4', 'i2'])) {
    test(`${build}, ${kv}: prompts of 1, 128, 512 and ${CONTEXT} tokens give what decode gives`, async () => {
      const [one, whole] = await Promise.all(
        [0, 1].map(() =>
          openLogits(fromBytes(bytes), { build, kv, contextTokens: CONTEXT, prefillBatch: 16, prefillWindow: 128 }),
        ),
      );
      try {
        let compared = 0;
        for (const [i, id] of IDS.entries()) {
          const logits = i ? one.next(id) : one.start([id]);
          if (!LENGTHS.includes(i + 1)) continue;
          assert.deepEqual(whole.start(IDS.slice(0, i + 1)), logits, `${i + 1} tokens`);
          compared++;
        }
        assert.equal(compared, LENGTHS.length);
        assert.throws(() => one.next(5), { code: 'CONTEXT_FULL' });
        assert.throws(() => whole.start([...IDS, 5]), { code: 'CONTEXT_FULL' });
      } finally {
        one.close();
        whole.close();
      }
    });
  }
}

test('a generation ends at the end of the context and reports it', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  // Without a tokenizer no token ends a text.
  const endless = await tinyModel({ config: { layers: 2, context: CONTEXT, tokens: 0 }, tokens: null, chat: null });
  const model = await engine.load(fromBytes(endless), { contextTokens: CONTEXT });
  for (const length of [1, 128, 512, CONTEXT - 1]) {
    const session = await model.createSession();
    const { tokens: ids, finishReason: reason } = await session.generate(IDS.slice(0, length), {
      maxTokens: 2000,
      temperature: 0,
    }).result;
    assert.deepEqual([reason, length + ids.length], ['context', CONTEXT + 1], `${length} tokens`);
    await session.close();
  }
  await engine.close();
});
