// Tests of the number of draft tokens, for given acceptances and costs of batches. No time is measured.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, mock, test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { StepCosts, SpeculationTuner } from '../../js/engine/speculation/tuner.js';
import { computeMaxSpeedup, computeAutoSpeedup } from '../bench/hindsight.mjs';
import { random } from './fixture.mjs';

/** Steps of one token that 1 to 8 take: with VNNI; where arithmetic is the limit; where a token more costs as much as a step. */
const CHEAP = [1, 1.4, 2.1, 2.2, 3.1, 3.2, 3.8, 3.9];
const SLOW = [1, 2.1, 2.8, 2.9, 4.3, 4.3, 5.1, 5.2];
/** Before they are measured. */
const USUAL = [1, 1.55, 2.2, 2.6, 3.4, 3.8, 4.6, 5];
const DEAR = [1, 2.1, 3.1, 4.2, 5.3, 6.4, 7.4, 8.5];

/** @param {number[]} steps  that so many tokens take */
function costsOf(steps) {
  const costs = new StepCosts();
  for (const [i, each] of steps.entries()) costs.record(i + 1, 5 * each);
  return costs;
}

/**
 * A text of which each token is guessed behind `length` equal ones, and comes with a chance; what is found of it.
 * @param {SpeculationTuner} gains @param {number} tokens @param {number[]} steps @param {(at: number) => { length: number, chance: number }} text @param {number} seed
 */
function run(gains, tokens, steps, text, seed) {
  const next = random(seed); // -1 to 1
  const [sizes, found] = [
    /** @type {number[]} */ ([]),
    { guessed: 0, came: 0, steps: 0, sizes: /** @type {number[]} */ ([]) },
  ];
  for (let at = 0; at < tokens;) {
    const { length, chance } = text(at);
    const comes = () => next() < 2 * chance - 1;
    const n = length ? gains.bestDraftLength(length, 7, 1) : 0;
    let arrivals = 0;
    while (arrivals < n && comes()) gains.recordToken(length + arrivals++, true);
    if (arrivals < n) gains.recordToken(length + arrivals, false);
    else if (!n && length) gains.recordToken(length, comes());
    gains.recordStep(1, n, arrivals);
    sizes.push(n);
    found.guessed += n;
    found.came += arrivals;
    found.steps += steps[n];
    at += 1 + arrivals;
  }
  return { ...found, sizes };
}

test('if no draft token is accepted, none is proposed', () => {
  for (const steps of [CHEAP, SLOW, DEAR])
    for (const length of [1, 2, 5, 8]) {
      const gains = new SpeculationTuner(costsOf(steps));
      run(gains, 100, steps, () => ({ length, chance: 0 }), 1);
      assert.equal(run(gains, 400, steps, () => ({ length, chance: 0 }), 2).guessed, 0);
    }
});

test('if all draft tokens are accepted, they are soon proposed, also after a text without any, and given up again', () => {
  for (const steps of [CHEAP, SLOW]) {
    const gains = new SpeculationTuner(costsOf(steps));
    const text = (/** @type {number} */ chance) => () => ({ length: 8, chance });
    assert.ok(run(gains, 300, steps, text(0), 1).guessed < 10);
    const all = run(gains, 300, steps, text(1), 2);
    assert.ok(all.sizes.findIndex((n) => n > 0) < 100 && all.came > 100, `${all.sizes}`);
    assert.equal(Math.max(...all.sizes), 7);
    run(gains, 100, steps, text(0), 3);
    assert.equal(run(gains, 300, steps, text(0), 4).guessed, 0);
  }
});

test('batches as slow as single tokens are never used, no matter how many draft tokens are accepted', () => {
  const gains = new SpeculationTuner(costsOf(DEAR));
  const { guessed } = run(gains, 200, DEAR, () => ({ length: 8, chance: 1 }), 1);
  assert.equal(guessed, 0);
});

test('longer matches, faster batches and earlier acceptance increase the number of draft tokens', () => {
  const worth = (/** @type {SpeculationTuner} */ gains) =>
    [2, 4, 8].map((length) => gains.bestDraftLength(length, 7, 1));
  const [cheap, slow] = [CHEAP, SLOW].map((steps) => new SpeculationTuner(costsOf(steps)));
  assert.deepEqual(worth(cheap), [0, 1, 3]);
  assert.deepEqual(worth(slow), [0, 0, 3]);
  for (const gains of [cheap, slow]) for (let i = 0; i < 100; i++) gains.recordToken(8, true);
  assert.deepEqual(worth(cheap), [0, 1, 7]);
  assert.deepEqual(worth(slow), [0, 0, 7]);
  for (let i = 0; i < 20; i++) cheap.recordToken(2, true);
  assert.deepEqual(worth(cheap), [1, 1, 7]);
});

test('trials lose less than 2 % of the steps for any text', () => {
  for (const steps of [CHEAP, SLOW, DEAR])
    for (const chance of [0, 0.2, 0.4, 0.5, 0.6, 0.7])
      for (const fresh of [false, true]) {
        let [spent, tokens] = [0, 0];
        for (let seed = 1; seed <= 8; seed++) {
          const costs = fresh ? new StepCosts() : costsOf(steps);
          const next = random(seed + 100);
          // A third of the places stood there before in some way; each hundred tokens are unlike the others.
          const text = (/** @type {number} */ at) => ({
            length: next() < -0.3 ? 1 + Math.floor((next() + 1) * 2) : 0,
            chance: at % 200 < 100 ? chance : chance / 2,
          });
          const gains = new SpeculationTuner(costs);
          const took = gains.recordStep.bind(gains);
          gains.recordStep = (due, guessed, arrivals) => {
            costs.record(due + guessed, 5 * steps[guessed]);
            took(due, guessed, arrivals);
          };
          spent += run(gains, 400, steps, text, seed).steps;
          tokens += 400;
        }
        assert.ok(spent < 1.02 * tokens, `${steps}, ${chance}, ${fresh}: ${spent} for ${tokens}`);
      }
});

test('no draft tokens are proposed if they fail after a different number of equal tokens each time', () => {
  const { steps } = run(
    new SpeculationTuner(costsOf(CHEAP)),
    400,
    CHEAP,
    (at) => ({ length: 1 + (at % 8), chance: 0 }),
    1,
  );
  assert.ok(steps < 1.02 * 400, `${steps}`);
});

test('the cost of draft tokens is the time that they add to the tokens of other generations', () => {
  const steps = [1, 2, 3, 3.05, 3.1, 6, 6.1, 8];
  const worth = (/** @type {number} */ due) => new SpeculationTuner(costsOf(steps)).bestDraftLength(4, 2, due);
  assert.deepEqual([worth(1), worth(3)], [0, 2]);
});

test('unmeasured batch sizes are estimated from the limit of arithmetic, or from measured sizes', () => {
  const costs = new StepCosts();
  const all = () => USUAL.map((_, i) => +costs.costOf(i + 1).toFixed(2));
  assert.deepEqual(all(), USUAL);
  assert.equal(costs.costOf(16), costs.costOf(8) * 2);
  costs.record(4, 12); // no step of one token is known yet
  assert.deepEqual(all(), USUAL);
  costs.record(1, 4);
  costs.record(4, 4 * (1 + 1.6 / 2));
  assert.deepEqual(
    all(),
    USUAL.map((steps) => +(1 + (steps - 1) / 2).toFixed(2)),
  );
  for (let i = 0; i < 40; i++) costs.record(4, 11.6);
  assert.ok(Math.abs(costs.costOf(4) - 2.9) < 0.01);
  const before = costs.costOf(4);
  costs.record(4, 4000); // whatever was in between
  assert.ok(costs.costOf(4) < 1.26 * before);
});

test('uncertain numbers of draft tokens are tried if they may be faster, used if they are, otherwise not tried again soon', () => {
  const costs = () => {
    const all = new StepCosts();
    all.record(1, 5);
    return all;
  };
  /** Steps with draft tokens, after three equal tokens. @param {number[]} steps */
  const guessed = (steps) => {
    const known = costs();
    const gains = new SpeculationTuner(known);
    let n = 0;
    for (let i = 0; i < 250; i++) {
      const tokens = gains.bestDraftLength(3, 3, 1);
      n += Number(tokens > 0);
      known.record(1 + tokens, 5 * steps[tokens]);
      for (let arrivals = 0; arrivals < Math.min(tokens, 2); arrivals++) gains.recordToken(3 + arrivals, true);
      if (tokens > 2) gains.recordToken(5, false);
      gains.recordStep(1, tokens, Math.min(tokens, 2));
    }
    return n;
  };
  assert.deepEqual([guessed(DEAR) <= 3, guessed(DEAR) > 0, guessed(CHEAP) > 200], [true, true, true]);
});

test('the tuner reaches most of the speed that is possible for a text in hindsight', () => {
  const words = Array.from({ length: 20 }, (_, i) => 100 + i);
  const again = { prompt: [...words, 1, 2], output: words };
  // Behind the first token one step, then 18 tokens in three batches of at most 8.
  assert.equal(computeMaxSpeedup(again, Array(8).fill(1)), 19 / 4);
  assert.equal(computeMaxSpeedup(again, [1, 2, 3, 4, 5, 6, 7, 8]), 1);
  assert.equal(computeMaxSpeedup({ prompt: [1, 2], output: words }, CHEAP), 1);
  assert.equal(computeAutoSpeedup({ prompt: [1, 2], output: words }, CHEAP), 1);
  for (const steps of [CHEAP, SLOW, DEAR]) {
    assert.ok(computeAutoSpeedup(again, steps) <= computeMaxSpeedup(again, steps));
    // A list whose second column is another one each time.
    const rows = Array.from({ length: 60 }, (_, i) => [...words.slice(0, 6), 200 + i]).flat();
    const table = { prompt: rows.slice(0, 35), output: rows.slice(35) };
    assert.ok(
      computeAutoSpeedup(table, steps) > 0.8 * computeMaxSpeedup(table, steps),
      `${computeAutoSpeedup(table, steps)} of ${computeMaxSpeedup(table, steps)}`,
    );
  }
});

describe('in a session', () => {
  const CHAT = readFileSync(new URL('../../models/chat.bq4', import.meta.url));
  const LIST = 'red apples, green pears, yellow lemons, '.repeat(4);
  /** @type {any} */
  let engine;
  before(async () => (engine = await createEngine({ threads: 1 })));
  after(() => engine.close());

  /** Steps are said to take so long while it works. @template T @param {number[]} steps @param {() => Promise<T>} work @param {number} [ms]  of one token */
  async function message(steps, work, ms = 5) {
    const { record } = StepCosts.prototype;
    const report = mock.method(
      StepCosts.prototype,
      'record',
      /** @this {StepCosts} @param {number} tokens */ function (tokens) {
        record.call(this, tokens, ms * steps[tokens - 1]);
      },
    );
    try {
      return await work();
    } finally {
      report.mock.restore();
    }
  }

  test('`auto`, the default, uses draft tokens where batches are fast and none where they are slow', async () => {
    const usageOf = (/** @type {number[]} */ steps, /** @type {any} */ speculate, /** @type {number} */ ms = 5) =>
      message(
        steps,
        async () => {
          const model = await engine.load(fromBytes(CHAT), { contextTokens: 256 });
          const { usage } = await model.generate(LIST, { temperature: 0, maxTokens: 150, speculate }).result;
          await model.close();
          return usage;
        },
        ms,
      );
    const counts = (/** @type {any} */ { draftedTokens, acceptedTokens }) => [draftedTokens, acceptedTokens];
    const cheap = await usageOf(CHEAP, 'auto');
    assert.ok(cheap.acceptedTokens > 10, JSON.stringify(cheap));
    assert.ok(cheap.acceptedTokens > 0.5 * cheap.draftedTokens, JSON.stringify(cheap));
    assert.deepEqual(await usageOf(CHEAP, undefined).then(counts), counts(cheap));
    const dear = await usageOf(DEAR, 'auto');
    // A step takes less time than the search for draft tokens.
    assert.equal((await usageOf(CHEAP, 'auto', 0.2)).draftedTokens, 0);
    const always = await usageOf(DEAR, true);
    assert.ok(3 * dear.draftedTokens < always.draftedTokens, `${dear.draftedTokens} of ${always.draftedTokens}`);
  });

  test('no draft tokens are used while another generation shares the batches, and again afterwards', () =>
    message(CHEAP, async () => {
      const model = await engine.load(fromBytes(CHAT), { contextTokens: 256, sessions: 2 });
      const options = { temperature: 0, stopTokens: [] };
      const whole = await model.generate(LIST, { ...options, maxTokens: 150, speculate: false }).result;
      const [a, b] = [await model.createSession(), await model.createSession()];
      const [one, other] = [
        a.generate(LIST, { ...options, maxTokens: 150, speculate: 'auto' }),
        b.generate(LIST, { ...options, maxTokens: 40, speculate: 'auto' }),
      ];
      const [reader, beside] = [one, other].map((run) => run[Symbol.asyncIterator]());
      const drafted = async () => (await Promise.all([a.stats(), b.stats()])).map((stats) => stats.draftedTokens);
      for (let i = 0; i < 40; i++) await Promise.all([reader.next(), beside.next()]);
      assert.deepEqual(await drafted(), [0, 0]);
      while (!(await beside.next()).done);
      while (!(await reader.next()).done);
      assert.ok((await drafted())[0] > 20, `${await drafted()}`);
      assert.deepEqual(
        [(await one.result).tokens, (await other.result).tokens],
        [whole.tokens, whole.tokens.slice(0, 40)],
      );
      await model.close();
    }));
});
