// Arguments of calls in the notations of LFM2 (Python) and Gemma 4: random schemas beside ajv, and what is written beside Python's own reader.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compileParts } from '../../js/text/grammar/index.js';
import { CALL_NOTATIONS, notationNamed, writeValue } from '../../js/text/grammar/notations.js';
import { readArguments } from '../../js/text/templates/noted-values.js';
import { callStyle, compareModels } from './schema-model.mjs';
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

for (const { name } of CALL_NOTATIONS)
  describe(`arguments in the notation "${name}"`, () => {
    test(`what ${COUNT} random schemas from seed ${FROM} on write is valid, what is valid they take, and nothing else; Python reads the same`, async (t) => {
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
      for (const [i, { text, value }] of written.entries())
        assert.deepEqual(read[i], JSON.parse(JSON.stringify(value)), text);
    });
  });
