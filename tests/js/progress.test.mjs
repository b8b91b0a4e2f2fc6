// Tests of the speed of downloads, with a simulated clock: cached bytes and pauses do not affect the rate.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { progress } from '../../demo/page/format.js';
import { Meter } from '../../js/storage/load/progress.js';

const MB = 1e6;

/** A load of 100 MB, of which so many are stored; `after` lets time pass, then tells where it is. @param {import('node:test').TestContext} t @param {number} stored */
function load(t, stored) {
  let now = 0;
  const clock = mock.method(performance, 'now', () => now);
  /** @type {import('../../js/shared/types.js').Progress | undefined} */
  let report;
  const meter = new Meter((progress) => (report = progress), 100 * MB, stored);
  t.after(() => (meter.stop(), clock.mock.restore()));
  return {
    meter,
    /** @param {number} ms @param {'download' | 'paused'} phase @param {number} loaded */
    after(ms, phase, loaded) {
      now += ms;
      meter.report(phase, loaded);
      return /** @type {import('../../js/shared/types.js').Progress} */ (report);
    },
  };
}

test('cached bytes do not count as speed: only bytes from the network determine rate and remaining time', (t) => {
  const { meter, after } = load(t, 60 * MB);
  after(0, 'download', 0);
  meter.addCached(60 * MB);
  const read = after(100, 'download', 60 * MB);
  assert.deepEqual([read.bytesPerSecond, read.etaMs], [0, null], 'nothing came over the network');
  const { bytesPerSecond: rate, etaMs } = after(900, 'download', 62 * MB);
  assert.equal(rate, 2 * MB);
  assert.equal(etaMs, 19_000, '38 MB at 2 MB/s');
});

test('a pause does not reduce the rate: it is measured again afterwards', (t) => {
  const { after } = load(t, 0);
  after(0, 'download', 0);
  assert.equal(after(1000, 'download', 4 * MB).bytesPerSecond, 4 * MB);
  assert.equal(after(10, 'paused', 4 * MB).etaMs, null);
  after(60_000, 'download', 4 * MB);
  const { bytesPerSecond: rate, etaMs } = after(1000, 'download', 8 * MB);
  assert.equal(rate, 4 * MB);
  assert.equal(etaMs, 23_000);
});

test('the loaded bytes never decrease and never exceed the total', (t) => {
  const { after } = load(t, 0);
  const loaded = [5, 3, 4.5, 6.000_000_5, 120, 90].map((mb) => after(1000, 'download', mb * MB).loaded);
  assert.deepEqual(
    loaded,
    [5, 5, 5, 6, 100, 100].map((mb) => mb * MB),
  );
});

test('retries are reported when they happen, and end with the next byte', (t) => {
  const { meter, after } = load(t, 0);
  after(0, 'download', 0);
  after(1000, 'download', 4 * MB);
  /** @type {string[]} */
  const words = [];
  for (const failures of [1, 2]) {
    meter.reportRetries(failures);
    words.push(progress(after(50, 'download', 4 * MB)));
  }
  words.push(progress(after(1000, 'download', 6 * MB)));
  assert.deepEqual(words, [
    '4.0 MB of 100 MB; network lost, retrying (2)',
    '4.0 MB of 100 MB; network lost, retrying (3)',
    '6.0 MB of 100 MB, 2.0 MB/s, 47 s left',
  ]);
});
