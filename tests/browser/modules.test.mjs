// Tests of modules that are loaded on demand while the connection fails: the error names the cause, and no partial engine remains.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chromiumFirst, oneSite } from './every.mjs';

/** What each needs that an engine does not begin with. */
const CASES = {
  'loading from an address': '/js/storage/sources/retry.js',
  'loading bytes': '/js/storage/sources/bytes.js',
  planning: '/js/engine/speed-estimate.js',
  'telling of progress': '/js/storage/load/progress.js',
  tracing: '/js/engine/model/trace.js',
};

/** @param {string} what */
async function inPage(what) {
  const [js, fixture] = ['/js/index.js', '/tests/js/fixture.mjs'];
  const { createWorkerEngine, fromBytes } = await import(js);
  const { tinyModel } = await import(fixture);
  const bytes = await tinyModel();
  const engine = await createWorkerEngine({ threads: 1, build: 'simd128', cache: false });
  const work = async () => {
    if (what === 'loading from an address') return engine.load('/models/chat.bq4');
    if (what === 'planning') return engine.plan(fromBytes(bytes));
    const model = await engine.load(fromBytes(bytes), what === 'telling of progress' ? { onProgress() {} } : {});
    if (what === 'tracing') return (await model.createSession()).trace();
  };
  const { name, code, message, hint } = await work().then(
    () => ({}),
    (/** @type {any} */ error) => error,
  );
  await engine.close();
  return { name, code, message, hint };
}

await chromiumFirst((name) => {
  const here = oneSite(name, {}, { sources: true });

  for (const [what, path] of Object.entries(CASES)) {
    test(`${what}: ${path} fails to load`, async () => {
      const page = await here.open();
      here.site.refused.add(path);
      const error = await page.evaluate(inPage, what);
      assert.deepEqual([error.name, error.code], ['BqError', 'NETWORK'], JSON.stringify(error));
      assert.match(error.message, /a module of bq4 can't be loaded/);
      assert.match(error.hint, /reload/);
      here.site.refused.clear();
      assert.equal((await page.evaluate(inPage, what)).code ?? '', '', 'the next engine has it');
      await page.close();
    });
  }
});
