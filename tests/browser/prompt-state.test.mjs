// Tests of a visitor's first reply with a prompt cache: the file is read once, and none of its tokens is computed in the page.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { faultServer } from '../server/faults.mjs';
import { chromiumFirst, oneSite } from './every.mjs';

const BEFORE = [
  { role: 'user', content: 'Tell me a story about a dog.' },
  { role: 'assistant', content: 'Once upon a time there was a dog who lived by the sea and barked at every wave.' },
];
const ASKED = [...BEFORE, { role: 'user', content: 'And then?' }];

/** What another machine does beforehand. */
async function output() {
  const engine = await createEngine({ build: 'simd128', threads: 1 });
  const model = await engine.load(fromFile(fileURLToPath(new URL('../../models/chat.bq4', import.meta.url))));
  const state = await model.savePromptCache(BEFORE);
  await engine.close();
  return state;
}

await chromiumFirst((name) => {
  const here = oneSite(name);

  test('the first reply of a visit computes only the tokens after the prompt cache, which is read once', async (t) => {
    const state = await output();
    const server = await faultServer({ '/chat.state': state });
    t.after(() => server.close());
    /** The first reply of a page. @param {string | null} url  of a state */
    const visit = async (url) =>
      (await here.open()).evaluate(
        async (/** @type {any} */ { url, asked }) => {
          const script = new URL('/js/index.js', location.href).href;
          const { createWorkerEngine } = await import(script);
          const engine = await createWorkerEngine();
          const model = await engine.load('/models/chat.bq4');
          const read = async () => new Uint8Array(await (await fetch(url)).arrayBuffer());
          const { tokens } = url ? await model.loadPromptCache(await read()) : { tokens: 0 };
          /** @type {{ done: number, total: number } | undefined} */
          let computed;
          const onProgress = (/** @type {any} */ progress) => (computed = progress);
          const { tokens: ids, usage } = await model.generate(asked, { maxTokens: 12, temperature: 0, onProgress })
            .result;
          await engine.close();
          return { tokens, ids, computed, promptTokens: usage.promptTokens, reusedTokens: usage.cachedTokens };
        },
        { url, asked: ASKED },
      );
    const [plain, quick] = [await visit(null), await visit(server.at('/chat.state'))];
    assert.equal(plain.reusedTokens, 0);
    assert.ok(quick.tokens > 20, String(quick.tokens));
    assert.deepEqual([quick.promptTokens, quick.reusedTokens], [plain.promptTokens, quick.tokens]);
    assert.deepEqual(
      [plain.computed?.total, quick.computed?.total],
      [plain.promptTokens, plain.promptTokens - quick.tokens],
    );
    assert.deepEqual(quick.ids, plain.ids);
    const asked = server.asked().map(({ method, status, sent }) => ({ method, status, sent }));
    assert.deepEqual(asked, [{ method: 'GET', status: 200, sent: state.length }]);
  });

  test('the prompt cache next to the model is requested once, only with the option; without it the reply is the same', async (t) => {
    const state = await output();
    const chat = readFileSync(fileURLToPath(new URL('../../models/chat.bq4', import.meta.url)));
    const server = await faultServer({
      '/with/chat.bq4': chat,
      '/with/chat.bq4.prompt': state,
      '/without/chat.bq4': chat,
    });
    t.after(() => server.close());
    const visit = async (/** @type {string} */ url, /** @type {any} */ options) =>
      (await here.open()).evaluate(
        async (/** @type {any} */ { url, options, asked }) => {
          const script = new URL('/js/index.js', location.href).href;
          const { createWorkerEngine } = await import(script);
          const engine = await createWorkerEngine();
          const model = await engine.load(url, options);
          const { tokens: ids, usage } = await model.generate(asked, { maxTokens: 12, temperature: 0 }).result;
          await engine.close();
          return { ids, found: model.info.promptCache, reusedTokens: usage.cachedTokens };
        },
        { url, options, asked: ASKED },
      );
    const plain = await visit(server.at('/with/chat.bq4'), {});
    assert.deepEqual([plain.found, plain.reusedTokens], [null, 0]);
    const quick = await visit(server.at('/with/chat.bq4'), { promptCache: true });
    assert.equal(quick.found.problem, '');
    assert.ok(quick.found.tokens > 20, String(quick.found.tokens));
    assert.equal(quick.reusedTokens, quick.found.tokens);
    const alone = await visit(server.at('/without/chat.bq4'), { promptCache: true });
    assert.equal(alone.found.tokens, 0);
    assert.match(alone.found.problem, /^HTTP_STATUS: /);
    const ofPage = await visit('/models/chat.bq4', { promptCache: '/js/index.js' }); // an address of the page, not of its worker
    assert.match(ofPage.found.problem, /^FORMAT: /);
    for (const { ids } of [quick, alone, ofPage]) assert.deepEqual(ids, plain.ids);
    const asked = server.asked().filter(({ path }) => path.endsWith('.prompt'));
    assert.deepEqual(
      asked.map(({ path, status }) => [path, status]),
      [
        ['/with/chat.bq4.prompt', 206],
        ['/without/chat.bq4.prompt', 404],
      ],
    );
  });
});
