// Tests of files of version 2 that were written on 2026-11-21 and never change: they load and compute the same bits. A change that fails
// this test breaks existing files of users (docs/decisions/0011-format-v2-is-stable.md).
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { xxh64 } from './xxh64.mjs';
import { createEngine, fromBytes } from '../../js/node.js';
import { openLogits } from './logits.mjs';

const FOLDER = new URL('../golden/v2/', import.meta.url);
const recorded = JSON.parse(readFileSync(new URL('recorded.json', FOLDER), 'utf8'));

/** Logits after each of some ids. @param {Uint8Array} bytes @param {import('../../js/shared/types.js').Build} build */
async function logits(bytes, build) {
  const model = await openLogits(fromBytes(bytes), { build });
  const steps = [model.start([1, 2, 3]), ...[4, 7, 11, 13, 2, 9, 5].map((id) => model.next(id))];
  model.close();
  return xxh64(Buffer.concat(steps.map((step) => new Uint8Array(step.buffer))))
    .toString(16)
    .padStart(16, '0');
}

for (const name of readdirSync(FOLDER).filter((file) => file.endsWith('.bq4'))) {
  test(`${name}: the recorded properties and logits`, async () => {
    const bytes = new Uint8Array(readFileSync(new URL(name, FOLDER)));
    const engine = await createEngine({ threads: 1 });
    const plan = await engine.plan(fromBytes(bytes));
    const model = await engine.load(fromBytes(bytes));
    const { arch, layers, hidden, heads, kvHeads, vocabSize, tokenizerSize, tied, license } = /** @type {any} */ (plan);
    const seen = {
      sha256: createHash('sha256').update(bytes).digest('hex'),
      facts: {
        name: plan.name,
        arch,
        layers,
        hidden,
        heads,
        kvHeads,
        vocab: vocabSize,
        tokens: tokenizerSize,
        tied,
        license,
      },
      ids: plan.tokenizerSize ? await model.tokenize('Once upon a time, the lion — ü!') : [],
      logits: { simd128: await logits(bytes, 'simd128'), relaxed: await logits(bytes, 'relaxed') },
    };
    await engine.close();
    assert.equal(seen.logits.simd128, seen.logits.relaxed);
    assert.equal(await logits(bytes, 'relaxed16'), seen.logits.relaxed);
    assert.deepEqual(JSON.parse(JSON.stringify(seen)), recorded[name]);
  });
}

test('every recorded file exists', () => {
  assert.deepEqual(
    readdirSync(FOLDER).filter((file) => file.endsWith('.bq4')),
    Object.keys(recorded).sort(),
  );
});
