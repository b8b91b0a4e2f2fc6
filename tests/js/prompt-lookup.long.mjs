// Tests of prompt lookup with a real model: edits, summaries and JSON have the same tokens as without it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';

const real = realModel('smollm2');
const NOTE =
  'The two ships left the harbour at noon. The first ship carried tea, and the second ship carried salt. At night a storm came, and the ' +
  'second ship was lost. The first ship came to the island in the morning, with all of its tea.';
/** @type {Record<string, string>} */
const ASKED = {
  editing: `Repeat this text word by word, but write "vessel" for "ship":\n\n${NOTE}`,
  summarizing: `Summarize this text:\n\n${NOTE}`,
  JSON: 'Write as a JSON array of objects with the keys "name" and "age": Anna is 3, Ben is 5, Cleo is 7, Dora is 9.',
};

/** @type {any} */
let engine;
/** @type {any} */
let model;
before(async () => {
  if (!real) return;
  engine = await createEngine();
  model = await engine.load(fromFile(real), { contextTokens: 512 });
});
after(() => engine?.close());

for (const [what, content] of Object.entries(ASKED))
  test(`SmolLM2, ${what}: the same tokens`, { skip: real ? false : NO_REAL_MODEL }, async () => {
    let accepted = 0;
    for (const sampling of [{ temperature: 0 }, { temperature: 0.6, seed: 5 }]) {
      const reply = (/** @type {any} */ speculate) =>
        model.generate([{ role: 'user', content }], { ...sampling, maxTokens: 80, speculate }).result;
      const plain = await reply(false);
      for (const speculate of [true, { tokens: 5 }]) {
        const { tokens: ids, text, usage } = await reply(speculate);
        assert.deepEqual([ids, text], [plain.tokens, plain.text]);
        if (speculate !== true) accepted += usage.acceptedTokens;
      }
    }
    assert.ok(accepted > 5, `${accepted} accepted`);
  });
