// Tests of threads in browsers on isolated pages, and of workers without shared memory on others: the bits are the same for any number.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { BROWSERS } from './browsers.mjs';
import { chromiumFirst, start } from './every.mjs';
import { host, ISOLATED } from './host.mjs';

/** What an engine says about its threads, and what it writes. @param {{ worker: boolean, options: object }} how */
async function inPage({ worker, options }) {
  const [js, local, fixture] = ['/js/index.js', '/js/node.js', '/tests/js/fixture.mjs'];
  const { createWorkerEngine, fromBytes } = await import(js);
  const { createEngine } = await import(local);
  const { tinyModel } = await import(fixture);
  const engine = await (worker ? createWorkerEngine : createEngine)(options);
  const bytes = await tinyModel({ type: 'bq4' });
  const ids = [];
  const threads = [];
  const spread = [];
  // Workers are used again, and again.
  for (let round = 0; round < 6; round++) {
    const model = await engine.load(fromBytes(bytes));
    const session = await model.createSession();
    ids.push((await session.generate('Once upon a time', { temperature: 0, maxTokens: 10 }).result).tokens.join());
    threads.push(model.info.threads);
    spread.push(model.info.tensorParallel?.parts ?? 1);
    await model.close();
  }
  await engine.close();
  return { info: engine.info, threads: [...new Set(threads)], spread: [...new Set(spread)], ids: [...new Set(ids)] };
}

/** How a reply ends whose model is closed while workers compute. @param {boolean} worker */
async function closedAmid(worker) {
  const [js, local] = ['/js/index.js', '/js/node.js'];
  const { createWorkerEngine } = await import(js);
  const { createEngine } = await import(local);
  const engine = await (worker ? createWorkerEngine : createEngine)({ threads: 2 });
  const model = await engine.load(`${location.origin}/models/chat.bq4`);
  const session = await model.createSession();
  const prompt = Array.from({ length: 400 }, (_, i) => 300 + i);
  const reply = session.generate(prompt, { maxTokens: 100 }).result;
  const end = reply.then(String, (/** @type {any} */ error) => error.code);
  await model.close();
  const message = await end;
  await engine.close();
  return message;
}

/** Opens an engine as a visitor does, and returns what it says about its build and threads. @param {object} options */
async function visit(options) {
  const { createWorkerEngine } = await import(/** @type {string} */ ('/js/index.js'));
  const engine = await createWorkerEngine({ cache: { name: 'measured' }, ...options });
  const { build, threads, threadsReason, timings } = engine.info;
  const backend = engine.store?.backend;
  await engine.close();
  return { build, threads, threadsReason, timings, backend };
}

/**
 * The file of measurements, which `text` replaces first; null: no file.
 * @param {string} [text] @returns {Promise<string | null>}
 */
async function storedMeasurements(text) {
  let folder = await navigator.storage.getDirectory();
  for (const part of ['bq4', 'measured']) folder = await folder.getDirectoryHandle(part, { create: true });
  if (text !== undefined) {
    const out = await (await folder.getFileHandle('measurements', { create: true })).createWritable();
    await out.write(text);
    await out.close();
  }
  const file = await folder.getFileHandle('measurements').catch(() => null);
  return file && (await file.getFile()).text();
}

/** Deletes all that the cache keeps. */
async function clearCache() {
  const { createWorkerEngine } = await import(/** @type {string} */ ('/js/index.js'));
  const engine = await createWorkerEngine({ cache: { name: 'measured' } });
  await engine.store.clear();
  await engine.close();
}

await chromiumFirst((name) => {
  /** @type {import('./browsers.mjs').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof host>>[]} */
  let sites;
  before(async () => {
    browser = await start(name);
    sites = [await host(), await host(ISOLATED)];
  });
  after(async () => {
    await browser?.close();
    for (const site of sites ?? []) await site.close();
  });

  test('without shared memory there is one thread, and the reason is reported', async () => {
    const page = await browser.open(sites[BROWSERS[name].sharedMemory ? 0 : 1].url);
    for (const worker of [false, true]) {
      const { info, threads } = await page.evaluate(inPage, { worker, options: { threads: 3 } });
      assert.deepEqual([info.threads, threads, info.timings], [1, [1], []]);
      assert.match(info.threadsReason, /isolated/);
    }
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('without shared memory, workers compute parts of each product, with the same tokens', async () => {
    const page = await browser.open(sites[BROWSERS[name].sharedMemory ? 0 : 1].url);
    const seen = new Set();
    for (const [worker, threads] of /** @type {const} */ ([
      [true, 1],
      [true, 2],
      [true, 3],
      [false, 3],
    ])) {
      const { ids, spread } = await page.evaluate(inPage, { worker, options: { threads } });
      // Firefox at times hangs in `new Worker`: that round is computed by one.
      if (name === 'firefox') assert.ok(spread.includes(threads), `${spread}`);
      else assert.deepEqual(spread, [threads]);
      for (const id of ids) seen.add(id);
    }
    assert.equal(seen.size, 1);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('without shared memory, closing an engine ends its reply', async () => {
    const page = await browser.open(sites[BROWSERS[name].sharedMemory ? 0 : 1].url);
    for (const worker of [false, true]) assert.equal(await page.evaluate(closedAmid, worker), 'CLOSED');
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });
  if (!BROWSERS[name].sharedMemory) return;

  test('an isolated page has the requested or measured number of threads, with the same tokens', async (t) => {
    const page = await browser.open(sites[1].url);
    const seen = new Set();
    for (const threads of [1, 2, 3]) {
      const got = await page.evaluate(inPage, { worker: true, options: { threads } });
      // Firefox at times hangs in `new Worker`: what must hold then is that another worker takes over.
      const hung = name === 'firefox' && /silent/.test(got.info.threadsReason);
      if (hung) t.diagnostic(`${threads} threads: ${got.info.threadsReason}`);
      assert.deepEqual([got.info.threads, got.threads], hung ? [1, [1]] : [threads, [threads]], got.info.threadsReason);
      for (const ids of got.ids) seen.add(ids);
    }
    const auto = await page.evaluate(inPage, { worker: true, options: {} });
    for (const ids of auto.ids) seen.add(ids);
    assert.equal(seen.size, 1);
    if (name !== 'firefox' || auto.info.timings.length) {
      assert.match(auto.info.threadsReason, /measure/);
      assert.deepEqual(auto.info.timings.map(({ threads }) => threads).slice(0, 2), [1, 2]);
    }
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('measurements of the machine are stored for later visits, unless they are damaged, old or of another machine', async (t) => {
    const page = await browser.open(sites[1].url);
    const ms = (/** @type {{ timings: { ms: number }[] }} */ { timings }) => timings.map(({ ms }) => ms);
    // Firefox at times hangs in `new Worker`: another worker takes over, which measures no threads.
    const visitAgain = async (/** @type {object} */ options = {}) => {
      for (;;) {
        const got = await page.evaluate(visit, options);
        if (name !== 'firefox' || !/silent|stopped answering/.test(got.threadsReason)) return got;
        t.diagnostic(got.threadsReason);
      }
    };

    await visitAgain({ cache: false });
    assert.equal(await page.evaluate(storedMeasurements), null);
    const first = await visitAgain();
    assert.equal(first.backend, 'opfs');
    const stored = JSON.parse(String(await page.evaluate(storedMeasurements)));
    assert.deepEqual([stored.build, stored.timings], [first.build, first.timings]);
    assert.ok(first.timings.length > 1);

    // What no measurement gives shows where the file is used.
    const build = first.build === 'simd128' ? 'relaxed' : 'simd128';
    const timings = first.timings.map(({ threads }, i) => ({ threads, ms: 1e6 + i }));
    const other = { ...stored, build, timings };
    await page.evaluate(storedMeasurements, JSON.stringify(other));
    const second = await visitAgain();
    assert.deepEqual([second.build, second.timings, second.threads], [build, timings, first.threads]);
    assert.ok(Math.max(...ms(await visitAgain({ cache: false }))) < 1e6);
    assert.ok(Math.max(...ms(await visitAgain({ build: 'relaxed' }))) < 1e6, 'timings of another build');
    assert.deepEqual(JSON.parse(String(await page.evaluate(storedMeasurements))), other);

    const day = 24 * 3600 * 1000;
    for (const bad of [
      '',
      'null',
      `${JSON.stringify(other)}}`,
      { ...other, machine: `${other.machine} of another` },
      { ...other, date: other.date - 31 * day },
      { ...other, date: other.date + day },
      { ...other, timings: {} },
      { ...other, timings: timings.slice(0, -1) },
      { ...other, timings: timings.map((timing) => ({ ...timing, ms: `${timing.ms}` })) },
      { ...other, timings: [timings[0], { threads: 10_000, ms: 1e6 }, ...timings.slice(1)] },
    ]) {
      const text = typeof bad === 'string' ? bad : JSON.stringify(bad);
      await page.evaluate(storedMeasurements, text);
      const got = await visitAgain();
      assert.ok(Math.max(...ms(got)) < 1e6, text);
      const { timings: kept } = JSON.parse(String(await page.evaluate(storedMeasurements)));
      assert.deepEqual(kept, got.timings, text);
    }
    await page.evaluate(storedMeasurements, JSON.stringify({ ...other, build: 'fast' }));
    const measured = await visitAgain();
    assert.deepEqual(measured.timings, timings);
    const { build: measuredBuild } = JSON.parse(String(await page.evaluate(storedMeasurements)));
    assert.deepEqual([measuredBuild, measuredBuild === 'fast'], [measured.build, false]);

    // Whichever of two writes last: the file is good, or the next visit measures.
    await page.evaluate(storedMeasurements, '');
    await Promise.all([visitAgain(), visitAgain()]);
    assert.ok(Math.max(...ms(await visitAgain())) < 1e6);

    await page.evaluate(clearCache);
    assert.equal(await page.evaluate(storedMeasurements), null);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('an engine in the page itself has one thread: a page must not wait', async () => {
    const page = await browser.open(sites[1].url);
    const { info, threads } = await page.evaluate(inPage, { worker: false, options: { threads: 2 } });
    assert.deepEqual([info.threads, threads], [1, [1]]);
    assert.match(info.threadsReason, /createWorkerEngine/);
    await page.close();
  });

  test('without workers there is one thread, and the reason is reported', async () => {
    const page = await browser.open(sites[1].url);
    const { info, threads } = await page.evaluate(inPage, {
      worker: true,
      options: { threads: 2, threadUrl: '/nothing/here.js' },
    });
    assert.deepEqual([info.threads, threads], [1, [1]]);
    assert.match(info.threadsReason, /no threads could be started/);
    await page.close();
  });

  test('a thread that throws leaves one thread and a reason; the engine works', async () => {
    const page = await browser.open(sites[1].url);
    const options = { threads: 2, threadUrl: '/tests/browser/shims/throwing-thread.mjs' };
    const { info, threads, ids } = await page.evaluate(inPage, { worker: true, options });
    assert.deepEqual([info.threads, threads, ids.length], [1, [1], 1]);
    assert.match(info.threadsReason, /no threads could be started.*thrown in a thread/);
    await page.close();
  });
});
