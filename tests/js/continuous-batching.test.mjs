// Tests of simultaneous generations: they share batches, and their tokens do not change.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';

const CHAT = readFileSync(new URL('../../models/chat.bq4', import.meta.url));
const PROMPTS = [
  'Once upon a time',
  'A quick brown fox jumps over the lazy dog, and then',
  'Hello',
  'One, two, three,',
];
const TOKENS = 24;
/** Of generation i: some greedy, some drawn. @param {number} i */
const options = (i) => ({ maxTokens: TOKENS, stopTokens: [], temperature: i % 2 ? 0.9 : 0, seed: 7 + i });

/** Slices that all sessions computed: passes over a layer's weights, or the head's. @param {any[]} sessions */
async function workUnits(sessions) {
  const stats = await Promise.all(sessions.map((session) => session.stats()));
  return stats.reduce((sum, one) => sum + one.workUnits, 0);
}

for (const [build, threads] of /** @type {const} */ ([
  ['simd128', 1],
  ['relaxed', 1],
  ['relaxed', 2],
  ['relaxed16', 1],
]))
  describe(`${build}, threads: ${threads}`, () => {
    /** @type {any} */
    let engine;
    /** @type {any} */
    let model;
    /** What each prompt gives alone. @type {number[][]} */
    const alone = [];
    before(async () => {
      engine = await createEngine({ build, threads });
      model = await engine.load(fromBytes(CHAT), { contextTokens: 128, sessions: PROMPTS.length });
      for (const [i, prompt] of PROMPTS.entries()) alone.push((await model.generate(prompt, options(i)).result).tokens);
    });
    after(() => engine.close());

    test('each generation in a batch gives the same tokens as alone', async () => {
      const all = await Promise.all(PROMPTS.map((prompt, i) => model.generate(prompt, options(i)).result));
      assert.deepEqual(
        all.map(({ tokens }) => tokens),
        alone,
      );
    });

    test('a step of four sessions reads each weight once', async () => {
      const sessions = await Promise.all(PROMPTS.map(() => model.createSession({ contextTokens: 64 })));
      /** Slices behind the first tokens of so many. @param {number} n */
      const measure = async (n) => {
        const runs = sessions.slice(0, n).map((session, i) => session.generate(PROMPTS[i], options(i)));
        const readers = runs.map((run) => run[Symbol.asyncIterator]());
        for (const reader of readers) await reader.next();
        const since = await workUnits(sessions);
        const rest = async (/** @type {any} */ reader) => {
          while (!(await reader.next()).done);
        };
        await Promise.all(readers.map(rest));
        const ids = await Promise.all(runs.map(async ({ result }) => (await result).tokens));
        assert.deepEqual(ids, alone.slice(0, n));
        return (await workUnits(sessions)) - since;
      };
      const one = await measure(1);
      assert.equal(await measure(4), one);
      assert.equal(await measure(3), one);
      for (const session of sessions) await session.close();
    });

    test('a generation that is left, closed or aborted does not change the others', async () => {
      const controller = new AbortController();
      const sessions = await Promise.all(PROMPTS.slice(0, 3).map(() => model.createSession({ contextTokens: 128 })));
      const read = async (/** @type {any} */ session, /** @type {number} */ i) => {
        const ids = [];
        for await (const { token: id } of session.generate(PROMPTS[i], {
          ...options(i),
          signal: i === 1 ? controller.signal : undefined,
        })) {
          ids.push(id);
          if (i === 1 && ids.length === 5) controller.abort();
          if (i === 2 && ids.length === 7) await session.close();
        }
        return ids;
      };
      const [first, second, third] = await Promise.allSettled(sessions.map(read));
      assert.deepEqual(first.status === 'fulfilled' && first.value, alone[0]);
      assert.equal(second.status === 'rejected' && second.reason.name, 'AbortError');
      assert.equal(third.status === 'rejected' && third.reason.code, 'CLOSED');
      for (const session of sessions) await session.close();
    });
  });

test('a worker gives the same results', async () => {
  const engine = await createWorkerEngine({ threads: 1 });
  try {
    const model = await engine.load(fromBytes(CHAT), { contextTokens: 128, sessions: PROMPTS.length });
    const alone = [];
    for (const [i, prompt] of PROMPTS.entries()) alone.push((await model.generate(prompt, options(i)).result).tokens);
    const all = await Promise.all(PROMPTS.map((prompt, i) => model.generate(prompt, options(i)).result));
    assert.deepEqual(
      all.map(({ tokens: ids }) => ids),
      alone,
    );
  } finally {
    await engine.close();
  }
});
