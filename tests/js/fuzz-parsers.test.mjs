// Tests of parsers with random files, folders and requests: each is read, or refused with a BqError that names the reason. A failure prints
// the seed of its round, which runs alone with BQ4_FUZZ_SEED and BQ4_FUZZ_ROUNDS=1. fuzz-parsers.long.mjs runs more rounds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine } from '../../js/node.js';
import { modelTargets, round, TARGETS } from './fuzz-kit.mjs';

/** Of each parser. */
const ROUNDS = Number(process.env.BQ4_FUZZ_ROUNDS ?? 80);
const FIRST = Number(process.env.BQ4_FUZZ_SEED ?? 1);

/** One line of each kind of failure, by its message and place. @param {import('./fuzz-kit.mjs').Target} target */
async function rounds(target) {
  const inputs = await target.inputs();
  /** @type {Map<string, string>} */
  const failed = new Map();
  for (let seed = FIRST; seed < FIRST + Math.ceil(ROUNDS * (target.rounds ?? 1)); seed++) {
    const error = await round(target, inputs, seed);
    if (!error) continue;
    const { name, message, stack = '' } = /** @type {Error} */ (error);
    const places = stack.split('\n').filter((line) => /^ +at /.test(line));
    const what = `${name}: ${message.slice(0, 300)}\n${places.slice(0, 4).join('\n')}`;
    failed.set(
      `${name} ${message.slice(0, 40)} ${places[0]}`,
      `BQ4_FUZZ_SEED=${seed} BQ4_FUZZ_ROUNDS=1, ${target.name}: ${what}`,
    );
  }
  assert.equal(failed.size, 0, [...failed.values()].join('\n'));
}

for (const target of TARGETS) test(`mutants are read or refused by name: ${target.name}`, () => rounds(target));

test('parsers that need a model read changed inputs or refuse them by name', async (t) => {
  const engine = await createEngine({ threads: 1 });
  for (const target of await modelTargets(engine)) await t.test(target.name, () => rounds(target));
  await engine.close();
});
