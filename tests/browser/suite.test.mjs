// Runs the suites of tests/js for every engine in every browser, on pages of a usual host; those of engines in a worker also run on an
// isolated page, where threads can share memory. The servers of the suites are of another origin and accept GET only.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BROWSERS } from './browsers.mjs';
import { expectFaults } from './console.mjs';
import { chromiumFirst, everyHost, start } from './every.mjs';
import { host, ISOLATED } from './host.mjs';

/** What differs on an isolated page: workers, whose memory is shared there. An engine in the page's thread has none of its own. */
const SHARED = /in a worker|of a worker/;
/** What differs there alone: elsewhere there is one thread, however many are asked for (`threads.test.mjs`). */
const THREADS = /with (one|three) threads?:/;

/** @param {string} test  its group and name @param {boolean} isolated  the page */
const belongsTo = (test, isolated) => (isolated ? SHARED.test(test) : !THREADS.test(test));

await chromiumFirst((name) => {
  everyHost(name, ({ isolated, open }) => {
    for (const suite of ['engine', 'chat', 'paging']) {
      test(`tests/js/${suite}.test.mjs`, { timeout: 300_000 }, async (t) => {
        const page = await open();
        assert.deepEqual(await page.evaluate(() => [crossOriginIsolated, typeof SharedArrayBuffer]), [
          isolated,
          isolated && BROWSERS[name].sharedMemory ? 'function' : 'undefined',
        ]);
        const names = await page.evaluate(async (path) => {
          await import(path);
          const shim = '/tests/browser/shims/node-test.mjs';
          return (await import(shim)).testNames();
        }, `/tests/js/${suite}.test.mjs`);
        const here = [...names.entries()].filter(([, test]) => belongsTo(test, isolated));
        assert.ok(here.length > 7);
        for (const [i, name] of here) {
          await t.test(name, async () => {
            expectFaults(/Error: of the page/); // which a callback of a suite throws, to be reported
            const failure = await page.evaluate(async (i) => {
              const shim = '/tests/browser/shims/node-test.mjs';
              return (await import(shim)).run(i);
            }, i);
            assert.equal(failure, null);
          });
        }
        await page.close();
      });
    }
  });
  if (!BROWSERS[name].sharedMemory) return;

  // Where memory can't be shared nobody outside can count; then the abort is a message that the worker meets soon.
  test('an abort from an isolated page: at most one more token and one more work unit', async (t) => {
    const browser = await start(name);
    t.after(() => browser.close());
    // Not the package's worker: the modules that are counted.
    const site = await host(ISOLATED, { sources: true });
    t.after(() => site.close());
    const page = await browser.open(site.url);
    const rounds = await page.evaluate(async () => {
      const [js, fixture] = ['/js/index.js', '/tests/js/fixture.mjs'];
      const { createWorkerEngine, fromBytes } = await import(js);
      const { tinyModel, tokenizer } = await import(fixture);
      const counters = new Int32Array(new SharedArrayBuffer(16));
      // A function: where Firefox hangs as it starts threads, a second worker takes over.
      const engine = await createWorkerEngine({
        cache: false,
        worker: async () => {
          const worker = new Worker('/tests/browser/shims/counting-worker.mjs', { type: 'module' });
          await new Promise((resolve) => {
            worker.onmessage = resolve;
            worker.postMessage(counters);
          });
          return worker;
        },
      });
      const bytes = await tinyModel({
        config: { hidden: 128, layers: 6, heads: 4, ffn: 384, context: 1024 },
        type: 'bq4',
        tokens: { ...tokenizer(), eog: [] },
      });
      const session = await (await engine.load(fromBytes(bytes), { prefillBatch: 8 })).createSession();
      const read = () => [Atomics.load(counters, 0), Atomics.load(counters, 1)];
      const rounds = [];
      for (let round = 0; round < 10; round++) {
        const inPrompt = round < 5;
        const controller = new AbortController();
        const prompt = Array.from({ length: inPrompt ? 900 : 3 }, (_, i) => 5 + ((i + round) % 250));
        const run = session.generate(prompt, { temperature: 1, seed: round, signal: controller.signal });
        const started = read();
        let at = started;
        const stop = () => {
          controller.abort();
          at = read();
        };
        const ended = (async () => {
          let n = 0;
          for await (const _ of run) if (!inPrompt && ++n === 3) stop();
        })().catch((error) => error.name);
        if (inPrompt) {
          while (read()[0] < started[0] + 20) await new Promise((resolve) => setTimeout(resolve));
          stop();
        }
        const name = await ended;
        rounds.push({
          name,
          reason: (await run.result)?.finishReason,
          workUnits: read()[0] - at[0],
          samples: read()[1] - at[1],
          before: at[0] - started[0],
        });
      }
      await engine.close();
      return rounds;
    });
    for (const { name, reason, workUnits, samples, before } of rounds) {
      assert.deepEqual([name, reason], ['AbortError', 'abort']);
      assert.ok(workUnits <= 1, `${workUnits} more work units`);
      assert.ok(samples <= 1, `${samples} more tokens`);
      assert.ok(before > 0 && before < 600, `${before} work units before`);
    }
  });
});
