// ThreadTuner: the number of threads it chooses from given times, how often it tries others, and what the trials lose.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ThreadTuner } from '../../js/wasm/thread-tuner.js';
import { random } from './fixture.mjs';

/** Milliseconds of a step by number of threads. @typedef {Record<number, number>} Costs */

/**
 * Samples of a step each: `times(threads, i)` milliseconds, each multiplied by `noise`.
 * @param {ThreadTuner} tuner @param {number} steps @param {(threads: number, i: number) => number} times @param {() => number} [noise]
 */
function run(tuner, steps, times, noise = () => 1) {
  /** @type {number[]} */
  const used = [];
  for (let i = 0; i < steps; i++) {
    used.push(tuner.threads);
    tuner.add(times(tuner.threads, i) * noise(), 1, true);
  }
  return used;
}

/** @param {number[]} used @param {number} threads */
const count = (used, threads) => used.filter((each) => each === threads).length;

/** Within a fifth, evenly; one in fifty up to nine times as long. @param {number} seed */
function noisy(seed) {
  const next = random(seed); // -1 to 1
  return () => (1 + 0.2 * next()) * (next() > 0.96 ? 5 + 4 * next() : 1);
}

const SIX = [1, 2, 3, 4, 6, 8];

test('with two numbers of threads, three samples of each are taken alternately, then the better one is used', () => {
  for (const costs of /** @type {Costs[]} */ ([
    { 1: 5, 2: 3 },
    { 1: 3, 2: 5 },
  ]))
    for (const first of [1, 2]) {
      const tuner = new ThreadTuner([1, 2], first);
      const used = run(tuner, 6, (threads) => costs[threads]);
      assert.deepEqual([count(used, 1), count(used, 2), used[0]], [3, 3, first]);
      assert.ok(tuner.isSettled);
      assert.equal(tuner.best, costs[1] < costs[2] ? 1 : 2);
      assert.equal(tuner.threads, tuner.best);
    }
});

test('after 16 noisy samples the choice is the best, or within 5 % of it, in 98 of 100 cases', () => {
  for (const costs of /** @type {Costs[]} */ ([
    { 1: 5, 2: 3 },
    { 1: 5, 2: 15 },
    { 1: 5, 2: 6.5 },
    { 1: 5, 2: 4.8 },
  ])) {
    let good = 0;
    for (let seed = 1; seed <= 100; seed++) {
      const tuner = new ThreadTuner([1, 2], 1 + (seed % 2));
      run(tuner, 16, (threads) => costs[threads], noisy(seed));
      good += Number(costs[tuner.best] <= 1.05 * Math.min(costs[1], costs[2]));
    }
    assert.ok(good >= 98, `two take ${costs[2]}: ${good}`);
  }
});

test('with many numbers the neighbours of the best are tried: the best is found in 16 samples from any start, later all are tried', () => {
  for (const costs of /** @type {Costs[]} */ ([
    { 1: 8, 2: 4.4, 3: 3.2, 4: 2.7, 6: 2.3, 8: 2.5 },
    { 1: 2, 2: 3, 3: 4, 4: 5, 6: 7, 8: 9 },
    { 1: 8, 2: 5, 3: 4, 4: 5, 6: 6, 8: 7 },
  ]))
    for (const first of SIX) {
      const tuner = new ThreadTuner(SIX, first);
      const times = (/** @type {number} */ threads) => costs[threads];
      run(tuner, 16, times);
      const best = SIX.reduce((a, b) => (costs[b] < costs[a] ? b : a));
      assert.equal(tuner.best, best, `from ${first}`);
      run(tuner, 5000, times);
      assert.equal(tuner.tried.length, SIX.length);
    }
});

test('when all numbers are measured, trials take at most a sixtieth of the time and continue', () => {
  for (const other of [3.05, 3.3, 4, 6, 30]) {
    const tuner = new ThreadTuner([1, 2], 2);
    const times = (/** @type {number} */ threads) => (threads === 2 ? 3 : other);
    run(tuner, 16, times);
    const used = run(tuner, 20_000, times);
    const lost = count(used, 1) * (other - 3);
    assert.ok(lost <= (1 / 60) * used.length * 3, `${other}: ${lost} ms of ${used.length * 3}`);
    assert.ok(count(used.slice(10_000), 1) >= 5, `${other}: ${count(used, 1)} trials`);
    assert.ok(count(used, 1) <= used.length / 8);
  }
});

test('with noise, over 3,000 samples: 2.5 % more than with the best number from the beginning, the middle of ten; none a tenth', () => {
  for (const other of [3.3, 4, 6, 15]) {
    const lost = Array.from({ length: 10 }, (_, seed) => {
      const times = (/** @type {number} */ threads) => (threads === 2 ? 3 : other);
      const used = run(new ThreadTuner([1, 2], 1), 3000, times, noisy(1 + seed));
      return (count(used, 1) * (other - 3)) / (used.length * 3);
    }).sort((a, b) => a - b);
    assert.ok(lost[5] <= 0.025 && lost[9] <= 0.1, `${other}: ${lost}`);
  }
});

test('a busy core is no longer used after four samples, and used again when it is free', () => {
  for (let seed = 1; seed <= 50; seed++) {
    const tuner = new ThreadTuner([1, 2], 2);
    const next = random(seed);
    const busy = (/** @type {number} */ i) => i >= 500 && i < 1500;
    const times = (/** @type {number} */ threads, /** @type {number} */ i) => (threads === 1 ? 5 : busy(i) ? 12 : 3);
    const used = run(tuner, 2500, times, () => 1 + 0.1 * next());
    const left = used.indexOf(1, 500) - 500;
    assert.ok(
      used.slice(504, 520).every((threads) => threads === 1),
      `seed ${seed}: ${used.slice(500, 520)}, ${left}`,
    );
    assert.ok(count(used.slice(504, 1500), 2) <= 20, `${count(used.slice(504, 1500), 2)} trials while it is busy`);
    const back = used.findIndex((_, i) => i >= 1500 && used.slice(i, i + 20).every((threads) => threads === 2));
    assert.ok(back > 0 && back < 1850, `seed ${seed}: ${back - 1500} samples later`);
  }
});

test('if the whole machine becomes slower or faster, the best number stays', () => {
  const tuner = new ThreadTuner([1, 2], 1);
  const speed = (/** @type {number} */ i) => (Math.floor(i / 200) % 2 ? 1.6 : 1);
  const times = (/** @type {number} */ threads, /** @type {number} */ i) => speed(i) * (threads === 1 ? 5 : 3.5);
  const used = run(tuner, 6000, times);
  assert.ok(count(used, 1) < 0.05 * used.length, `${count(used, 1)}`);
});

test('longer steps of a growing text and steps of different sizes do not change the number', () => {
  const tuner = new ThreadTuner([1, 2], 2);
  let changes = 0;
  for (let i = 0, last = 2; i < 3000; i++) {
    const work = 1 + i / 300;
    const { threads } = tuner;
    changes += Number(threads !== last);
    last = threads;
    // In pieces, of which only the last one ends a sample.
    tuner.add(work * (threads === 1 ? 2 : 1), work, false);
    assert.equal(tuner.threads, threads, 'not amid a sample');
    tuner.add(work * (threads === 1 ? 2 : 1), work, true);
  }
  assert.equal(tuner.best, 2);
  assert.ok(changes <= 100, `${changes} changes`);
});

test('a clock with a resolution of a tenth of a second is sufficient', () => {
  for (const first of [1, 2]) {
    const tuner = new ThreadTuner([1, 2], first);
    let now = 0;
    for (let i = 0; i < 600; i++) {
      const before = Math.floor(now / 100);
      now += tuner.threads === 1 ? 5 : 3;
      tuner.add(100 * (Math.floor(now / 100) - before), 1, true);
    }
    assert.equal(tuner.best, 2);
  }
});

test('the tuner reports the times of other numbers relative to the best', () => {
  const tuner = new ThreadTuner([1, 2], 1);
  run(tuner, 6, (threads) => (threads === 1 ? 6 : 4));
  assert.deepEqual(tuner.tried, [
    { threads: 1, time: 1.5, samples: 3 },
    { threads: 2, time: 1, samples: 3 },
  ]);
});
