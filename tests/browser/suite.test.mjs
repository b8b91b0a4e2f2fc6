// The suites of tests/js over both engines, in Chromium: once as any host serves a page, once isolated, where
// threads can share memory. The servers that the suites read from are of another origin and answer nothing but GET.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { publicPath } from '../../tools/serve.mjs';
import { serve } from '../js/server.mjs';
import { launch } from './launch.mjs';
import { newPage, ROOT } from './site.mjs';

/** @type {Record<string, string>} */
const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };
const PAGE = `<!doctype html><title>suites</title><link rel="icon" href="data:,">
<script type="importmap">{ "imports": {
  "node:test": "/tests/browser/shims/node-test.mjs",
  "node:assert/strict": "/tests/browser/shims/node-assert.mjs",
  "/tests/js/server.mjs": "/tests/browser/shims/server.mjs"
} }</script>`;

/** Serves the repository, and servers on demand. @param {Record<string, string>} headers */
async function host(headers) {
  /** @type {Map<string, Awaited<ReturnType<typeof serve>>>} */
  const servers = new Map();
  const server = createServer(async (request, response) => {
    const [path, query = ''] = String(request.url).split('?');
    const json = (/** @type {any} */ value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (path === '/') return void response.writeHead(200, { 'content-type': 'text/html', ...headers }).end(PAGE);
    if (path === '/control/serve') {
      const made = await serve(new Uint8Array(Buffer.concat(await request.toArray())), JSON.parse(decodeURIComponent(query)));
      servers.set(String(servers.size), made);
      return json({ id: servers.size - 1, url: made.url });
    }
    if (path === '/control/asked') return json(await servers.get(query)?.asked());
    if (path === '/control/close') return json(String(await servers.get(query)?.close()));
    const file = publicPath(path, ['js', 'build/wasm', 'tests']);
    try {
      response.writeHead(200, { 'content-type': TYPES[extname(String(file))], ...headers }).end(readFileSync(join(ROOT, String(file))));
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://localhost:${port}/`,
    close: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}

const HOSTS = {
  'as any host serves it': {},
  isolated: { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp', 'cross-origin-resource-policy': 'same-origin' },
};

for (const [name, headers] of Object.entries(HOSTS)) {
  describe(`a page ${name}`, () => {
    /** @type {Awaited<ReturnType<typeof launch>>} */
    let browser;
    /** @type {Awaited<ReturnType<typeof host>>} */
    let site;
    before(async () => {
      browser = await launch();
      site = await host(headers);
    });
    after(async () => {
      await browser?.close();
      await site?.close();
    });

    for (const suite of ['engine', 'chat']) {
      test(`tests/js/${suite}.test.mjs`, async (t) => {
        const page = await newPage(browser);
        await page.goto(site.url);
        assert.equal(await page.evaluate(() => crossOriginIsolated), 'cross-origin-embedder-policy' in headers);
        const results = await page.evaluate(async (path) => {
          await import(path);
          const shim = '/tests/browser/shims/node-test.mjs';
          return (await import(shim)).run();
        }, `/tests/js/${suite}.test.mjs`);
        assert.ok(results.length > 15);
        for (const { name, error } of results) await t.test(name, () => assert.equal(error, null));
        await page.close();
      });
    }
  });
}

// Where memory can't be shared nobody outside can count; then the abort is a message that the worker meets soon.
test('an abort from an isolated page: at most one more token and one more slice', async (t) => {
  const browser = await launch();
  t.after(() => browser.close());
  const site = await host(HOSTS.isolated);
  t.after(() => site.close());
  const page = await newPage(browser);
  await page.goto(site.url);
  const rounds = await page.evaluate(async () => {
    const [js, fixture] = ['/js/index.js', '/tests/js/fixture.mjs'];
    const { createWorkerEngine, fromBytes } = await import(js);
    const { tinyModel, tokenizer } = await import(fixture);
    const counters = new Int32Array(new SharedArrayBuffer(8));
    const worker = new Worker('/tests/browser/shims/counting-worker.mjs', { type: 'module' });
    await new Promise((resolve) => {
      worker.onmessage = resolve;
      worker.postMessage(counters);
    });
    const engine = await createWorkerEngine({ worker });
    const bytes = await tinyModel({ config: { hidden: 128, layers: 6, heads: 4, ffn: 384, context: 1024 }, type: 'bq4', tokens: { ...tokenizer(), eog: [] } });
    const session = await (await engine.load(fromBytes(bytes), { batch: 8 })).createSession();
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
      rounds.push({ name, reason: run.result?.reason, slices: read()[0] - at[0], samples: read()[1] - at[1], before: at[0] - started[0] });
    }
    await engine.close();
    return rounds;
  });
  for (const { name, reason, slices, samples, before } of rounds) {
    assert.deepEqual([name, reason], ['AbortError', 'abort']);
    assert.ok(slices <= 1, `${slices} more slices`);
    assert.ok(samples <= 1, `${samples} more tokens`);
    assert.ok(before > 0 && before < 600, `${before} slices before`);
  }
});
