// Tests of the engine in every browser: tokens of an independent forward pass, and the same bits as in Node.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { convert } from '../../js/convert/index.js';
import { BROWSERS } from './browsers.mjs';
import { chromiumFirst, start } from './every.mjs';
import { goldenRun } from './golden.mjs';
import { host, ISOLATED } from './host.mjs';
import { ROOT } from './site.mjs';

const golden = JSON.parse(readFileSync(join(ROOT, 'tests/golden/tiny.json'), 'utf8'));
/** name → hash of the logits along the reference ids, of every build there is: see tests/js/golden.test.mjs. */
const recorded = new Map(
  readFileSync(join(ROOT, 'tests/golden/logit_hashes.txt'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => /** @type {[string, string]} */ (line.split(' '))),
);
const shared = join(process.env.BQ4_SHARED ?? join(ROOT, '../shared'), 'data/models');

const folder = mkdtempSync(join(tmpdir(), 'bq4-golden-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} from @param {import('../../js/convert/index.js').ConvertOptions} options @returns {Promise<Buffer>} */
async function converted(from, options) {
  const to = join(folder, 'converted.bq4');
  await convert(from, to, options);
  return readFileSync(to);
}

await chromiumFirst((name) => {
  const builds = BROWSERS[name].relaxed ? ['relaxed', 'relaxed16', 'simd128'] : ['simd128'];
  /** @type {import('./browsers.mjs').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof host>>} */
  let site;
  /** @type {import('./browsers.mjs').Page} */
  let page;

  before(async () => {
    site = await host();
    browser = await start(name);
    page = await browser.open(site.url);
  });
  after(async () => {
    await browser?.close();
    await site?.close();
  });

  /** `goldenRun` in the page. @param {string} build @param {Buffer} model @param {number[]} prompt @param {number[] | number} follow */
  const inPage = (build, model, prompt, follow) =>
    page.evaluate(
      async ([build, model, prompt, follow]) => {
        const path = '/tests/browser/golden.mjs';
        const { goldenRun } = await import(path);
        return goldenRun(
          build,
          Uint8Array.from(atob(model), (c) => c.charCodeAt(0)),
          prompt,
          follow,
        );
      },
      /** @type {const} */ ([build, model.toString('base64'), prompt, follow]),
    );

  /** What every build says, here and in the page, to the bit. @param {Buffer} model @param {number[]} prompt @param {number[] | number} follow */
  async function everywhere(model, prompt, follow) {
    const first = await goldenRun('relaxed', model, prompt, follow);
    for (const build of /** @type {const} */ (['relaxed16', 'simd128']))
      assert.deepEqual(await goldenRun(build, model, prompt, follow), first, `${build} in Node`);
    for (const build of builds)
      assert.deepEqual(await inPage(build, model, prompt, follow), first, `${build} in ${name}`);
    return first;
  }

  for (const [name, options] of Object.entries({ f32: { quant: 'f32' }, bq4: { quant: 'bq4', embed: 'bq4' } })) {
    test(`tiny, ${name}: the recorded hash of all logits`, async () => {
      const model = await converted(join(ROOT, 'tests/golden/tiny'), options);
      const { ids, hash } = await everywhere(model, golden.prompt_ids, golden.ids);
      assert.equal(hash, recorded.get(name));
      if (name === 'f32') assert.deepEqual(ids, golden.ids, 'the 200 ids of the double-precision reference');
    });
  }

  test('the bundled model: the same ids and logits', async () => {
    await everywhere(readFileSync(join(ROOT, 'models/chat.bq4')), [1, 100, 200, 300, 400, 3, 2], 60);
  });

  test('stories260K: its 200 reference ids', { skip: !existsSync(shared) && 'no shared data' }, async () => {
    const text = readFileSync(join(shared, 'stories260K.greedy200.txt'), 'utf8');
    const [first, ...ids] = JSON.parse(/ids (\[.*?\])/.exec(text)?.[1] ?? '[]');
    const model = await converted(join(shared, 'stories260K.bin'), {
      quant: 'f32',
      tokenizer: join(shared, 'tok512.bin'),
    });
    assert.deepEqual((await everywhere(model, [first], ids.length)).ids, ids);
  });

  test('the public interface in a page: both engines give the same ids, streamed', async () => {
    const model = await converted(join(ROOT, 'tests/golden/tiny'), { quant: 'f32' });
    const results = await page.evaluate(
      async ([base64, prompt, count, builds]) => {
        const [path, local] = ['/js/index.js', '/js/node.js'];
        const { createWorkerEngine, fromBlob } = await import(path);
        const { createEngine } = await import(local);
        const blob = new Blob([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))]);
        const all = [];
        for (const create of [createEngine, createWorkerEngine]) {
          for (const build of builds) {
            const engine = await create({ build });
            const model = await engine.load(fromBlob(blob), { kv: 'f32' });
            const session = await model.createSession();
            const run = session.generate(prompt, { temperature: 0, maxTokens: count });
            const ids = [];
            for await (const part of run) ids.push(part.token);
            all.push({
              ids,
              same: JSON.stringify(ids) === JSON.stringify((await run.result).tokens),
              info: engine.info,
            });
            await engine.close();
          }
        }
        return all;
      },
      /** @type {const} */ ([model.toString('base64'), golden.prompt_ids, golden.ids.length, builds]),
    );
    assert.deepEqual(
      results.map(({ info }) => [info.build, info.worker]),
      [false, true].flatMap((worker) => builds.map((build) => [build, worker])),
    );
    for (const { ids, same, info } of results) {
      assert.ok(same);
      // Generation ends at an end token, the reference goes on.
      assert.deepEqual(ids, golden.ids.slice(0, ids.length), `${info.build}, worker ${info.worker}`);
      assert.ok(ids.length > 10);
    }
  });

  test('the heap cannot grow, and pointers beyond 2 GiB are good', async () => {
    const seen = await page.evaluate(async () => {
      const path = '/js/wasm/wasm.js';
      const { compile, Wasm } = await import(path);
      const wasm = await Wasm.create(await compile(), 2 ** 31 + 2 ** 22);
      let grows = true;
      try {
        wasm.memory.grow(1);
      } catch {
        grows = false;
      }
      wasm.alloc(2 ** 31);
      const at = wasm.alloc(2 ** 20);
      wasm.bytes(at, 4).set([1, 2, 3, 4]);
      return { grows, beyond: at > 2 ** 31, bytes: [...wasm.bytes(at, 4)], within: at + 2 ** 20 <= wasm.memoryBytes };
    });
    assert.deepEqual(seen, { grows: false, beyond: true, bytes: [1, 2, 3, 4], within: true });
  });

  test('an isolated page: the recorded hash, in Chromium on 1 to 8 threads; as many threads as asked for, or why not', async (t) => {
    // Firefox at times hangs in a worker that starts workers over and over: docs/decisions/0006-threads.md.
    const counts = name === 'chromium' ? [1, 2, 3, 4, 5, 6, 7, 8] : [0];
    const isolated = await host(ISOLATED);
    t.after(() => isolated.close());
    const page = await browser.open(isolated.url);
    for (const [type, options] of Object.entries({ f32: { quant: 'f32' }, bq4: { quant: 'bq4', embed: 'bq4' } })) {
      const model = await converted(join(ROOT, 'tests/golden/tiny'), options);
      const hashes = await page.evaluate(
        async ([model, prompt, follow, builds, counts]) => {
          const worker = new Worker('/tests/browser/shims/golden-worker.mjs', { type: 'module' });
          const answer = () =>
            new Promise((resolve, reject) => {
              worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data.result));
              worker.onerror = () => reject(new Error('the worker did not start'));
            });
          await answer();
          const bytes = Uint8Array.from(atob(model), (c) => c.charCodeAt(0));
          /** @type {Record<string, string>} */
          const hashes = {};
          for (const build of builds)
            for (const threads of counts) {
              worker.postMessage([build, bytes, prompt, follow, threads]);
              hashes[`${build}, ${threads} threads`] = (await answer()).hash;
            }
          worker.terminate();
          return hashes;
        },
        /** @type {const} */ ([model.toString('base64'), golden.prompt_ids, golden.ids, builds, counts]),
      );
      for (const [what, hash] of Object.entries(hashes)) assert.equal(hash, recorded.get(type), `${type}, ${what}`);
      assert.equal(Object.keys(hashes).length, builds.length * counts.length);
    }
    const info = await page.evaluate(async () => {
      const path = '/js/index.js';
      const engine = await (await import(path)).createWorkerEngine({ threads: 3 });
      await engine.close();
      return engine.info;
    });
    const hung = name === 'firefox' && /silent/.test(info.threadsReason);
    if (hung) t.diagnostic(info.threadsReason);
    const all = BROWSERS[name].sharedMemory && !hung;
    assert.equal(info.threads, all ? 3 : 1, info.threadsReason);
    if (!hung) assert.match(info.threadsReason, all ? /^set by the option threads$/ : /memory can be shared only/);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('nothing on the page complained', async () => {
    assert.deepEqual(await page.trouble(), []);
  });
});
