// Tests of one engine for all tabs in browsers. Frames replace tabs in every browser: each is a document whose locks, channels and workers
// end with it. In Chromium, pages that crash and hang are tested too.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { inTime } from '../waiting.mjs';
import { BROWSERS } from './browsers.mjs';
import { chromiumFirst, oneSite } from './every.mjs';
import { host, ISOLATED } from './host.mjs';
import { launch, missing } from './launch.mjs';
import { newPage } from './site.mjs';

const bytes = await tinyModel({ config: { layers: 6, hidden: 128, ffn: 384, heads: 4, context: 1024 } });

/** Opens tabs as frames, in the page. @param {{ url: string, count: number }} how */
async function openFrames({ url, count }) {
  const all = /** @type {any} */ (globalThis);
  all.frames_ = [];
  for (let i = 0; i < count; i++) {
    const frame = document.createElement('iframe');
    await new Promise((resolve) => {
      frame.onload = resolve;
      frame.src = '/';
      document.body.append(frame);
    });
    const own = /** @type {any} */ (frame.contentWindow);
    const script = own.document.createElement('script');
    script.type = 'module';
    script.textContent =
      "import { createSharedEngine } from '/js/remote/tabs/index.js'; globalThis.there(createSharedEngine);";
    const there = new Promise((resolve) => (own.there = resolve));
    own.document.head.append(script);
    const engine = await (await there)({ threads: 1, cache: 'auto' });
    const model = await engine.load(url, { prefillBatch: 8 });
    all.frames_.push({ frame, engine, model, chat: await model.createChat() });
  }
  return all.frames_.map((/** @type {any} */ tab) => tab.engine.info);
}

/** A reply in the second frame, amid which the first goes. */
async function replyAmid() {
  const [first, second, third] = /** @type {any} */ (globalThis).frames_;
  const options = { temperature: 0.8, seed: 5, maxTokens: 40 };
  const { chat } = second;
  const before = await chat.send('hello', options).result;
  const session = await second.model.createSession();
  await session.append('some text');
  const tokens = await session.tokens();
  await session.close();
  let text = '';
  let parts = 0;
  for await (const part of chat.send('more', options)) {
    text += part.text;
    if (++parts === 3) first.frame.remove();
  }
  const { messages } = chat;
  // As it is without any trouble.
  await third.chat.send('hello', options).result;
  const same = await third.chat.send('more', options).result;
  return {
    before: before.text,
    text,
    same: same.text,
    messages,
    tokens: tokens.length,
    leads: [second.engine.info.leads, third.engine.info.leads],
  };
}

/** What the second frame loads in the first, each from another kind of source. @param {{ url: string, handles: boolean }} how */
async function sourcesOfAnother({ url, handles }) {
  const { engine, frame } = /** @type {any} */ (globalThis).frames_[1];
  const own = frame.contentWindow;
  const blob = await (await own.fetch(url)).blob();
  const large = new own.Uint8Array(blob.size + (8 << 20));
  large.set(new own.Uint8Array(await blob.arrayBuffer()));
  const sources = [url, blob, large.subarray(0, blob.size)];
  if (handles) {
    const root = await own.navigator.storage.getDirectory();
    const handle = await root.getFileHandle('shared-test.bq4', { create: true });
    const writable = await handle.createWritable();
    await writable.write(blob);
    await writable.close();
    sources.push({ kind: 'handle', handle });
  }
  const all = [];
  for (const source of sources) {
    const model = await engine.load(source, { sessions: 2 });
    const [one, two] = [await model.createSession(), await model.createSession()];
    await one.append('what there is to be said, and more than that');
    await two.restore(await one.save());
    all.push((await two.continue({ temperature: 0, maxTokens: 10 }).result).tokens);
    await model.close();
  }
  return all;
}

await chromiumFirst((name) => {
  const here = oneSite(name);
  test('Blobs, megabytes of bytes, files of the browser and saved sessions are passed between frames', async (t) => {
    const server = await faultServer(bytes);
    t.after(server.close);
    const page = await here.open();
    await page.evaluate(openFrames, { url: server.url, count: 2 });
    const all = await page.evaluate(sourcesOfAnother, { url: server.url, handles: BROWSERS[name].opfs });
    assert.equal(all.length, BROWSERS[name].opfs ? 4 : 3);
    for (const ids of all) assert.deepEqual(ids, all[0]);
    await page.close();
  });

  test('frames share one engine and one download; when the leader is removed during a reply, the reply continues', async (t) => {
    const server = await faultServer(bytes);
    t.after(server.close);
    const page = await here.open();
    const infos = await page.evaluate(openFrames, { url: server.url, count: 3 });
    assert.deepEqual(
      infos.map((/** @type {any} */ info) => [info.shared, info.leads, info.sharedReason]),
      [true, false, false].map((leads) => [true, leads, '']),
    );
    const sent = server.requests.length;
    const message = await page.evaluate(replyAmid);
    assert.equal(message.text, message.same);
    assert.ok(message.text.length > 3);
    assert.deepEqual(message.leads, [true, false], 'who has waited longest');
    assert.deepEqual(
      message.messages.map(({ content }) => content),
      ['hello', message.before, 'more', message.text],
    );
    // WebKit under test is a private window, whose caches are gone with the worker that made them.
    if (BROWSERS[name].opfs) assert.equal(server.requests.length, sent, 'the cache has it all');
    await page.close();
  });
});

const reason = missing();
if (reason) test('pages', { skip: reason });
else
  for (const [kind, headers] of Object.entries({ 'as any host serves them': {}, isolated: ISOLATED }))
    describe(`pages of one Chromium, ${kind}`, () => {
      /** @type {import('playwright-core').Browser} */
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

      /** Pages of one profile, each with a model of the shared engine. @param {import('node:test').TestContext} t @param {number} count @param {number} [leaderTimeout] */
      async function open(t, count, leaderTimeout) {
        const server = await faultServer(bytes, { headers: { 'cross-origin-resource-policy': 'cross-origin' } });
        t.after(server.close);
        const first = await newPage(browser);
        const context = first.context();
        t.after(() => context.close());
        const pages = [first];
        while (pages.length < count) pages.push(Object.assign(await context.newPage(), { trouble: [] }));
        for (const page of pages) {
          await page.goto(site.url);
          await page.evaluate(async ([url, leaderTimeoutMs]) => {
            const { createSharedEngine } = await import(/** @type {string} */ ('/js/remote/tabs/index.js'));
            const all = /** @type {any} */ (globalThis);
            all.engine = await createSharedEngine({ threads: 1, cache: 'auto', leaderTimeout: leaderTimeoutMs });
            all.model = await all.engine.load(url, { prefillBatch: 8 });
            all.chat = await all.model.createChat();
            await all.chat.send('hello', { temperature: 0.8, seed: 5, maxTokens: 20 }).result;
          }, /** @type {[string, number | undefined]} */ ([server.url, leaderTimeout]));
        }
        return { pages, context, server };
      }

      /** A reply that is read as far as this, and then at leisure. @param {import('playwright-core').Page} page */
      async function begin(page) {
        await page.evaluate(async () => {
          const all = /** @type {any} */ (globalThis);
          all.text = '';
          all.run = all.chat.send('more', { temperature: 0.8, seed: 5, maxTokens: 60 });
          all.parts = all.run[Symbol.asyncIterator]();
          for (let i = 0; i < 3; i++) all.text += (await all.parts.next()).value.text;
        });
        return () =>
          page.evaluate(async () => {
            const all = /** @type {any} */ (globalThis);
            for (let step; !(step = await all.parts.next()).done;) all.text += step.value.text;
            const { messages } = all.chat;
            // As it is without any trouble.
            const chat = await all.model.createChat();
            await chat.send('hello', { temperature: 0.8, seed: 5, maxTokens: 20 }).result;
            const same = await chat.send('more', { temperature: 0.8, seed: 5, maxTokens: 60 }).result;
            return { text: all.text, same: same.text, last: messages.at(-1).content, leads: all.engine.info.leads };
          });
      }

      for (const [how, end] of Object.entries({
        closed: (/** @type {import('playwright-core').Page} */ page) => page.close(),
        'left for another page': async (/** @type {import('playwright-core').Page} */ page) =>
          void (await page.goto(`${site.url}tests/browser/blank.html`)),
        crashed: async (/** @type {import('playwright-core').Page} */ page) => {
          const isGone = page.waitForEvent('crash');
          const devtools = await page.context().newCDPSession(page);
          devtools.send('Page.crash').catch(() => {}); // nobody answers
          await isGone;
        },
      }))
        test(`the leader is ${how} during a reply: the reply continues in another frame, and nothing is fetched`, async (t) => {
          const { pages, server } = await open(t, 3);
          const rest = await begin(pages[1]);
          const sent = server.requests.length;
          await end(pages[0]);
          const message = await inTime('the reply', rest());
          assert.deepEqual([message.text, message.last, message.leads], [message.same, message.same, true]);
          assert.equal(server.requests.length, sent);
          // And once more.
          const last = await begin(pages[2]);
          await end(pages[1]);
          const again = await inTime('the reply', last());
          assert.deepEqual([again.text, again.last, again.leads], [again.same, again.same, true]);
          assert.equal(server.requests.length, sent);
        });

      test('if the leader hangs, another frame takes over, and the old leader follows it afterwards', async (t) => {
        const { pages } = await open(t, 2, 1000);
        let wake = () => {};
        const asked = new Promise((resolve) => (wake = () => resolve(undefined)));
        const slow = await faultServer(new Uint8Array(10));
        slow.faults = [{ stall: 5, until: asked }];
        t.after(slow.close);
        const rest = await begin(pages[1]);
        // A request that blocks the page until it is answered.
        const hung = pages[0].evaluate((url) => {
          const request = new XMLHttpRequest();
          request.open('GET', url, false);
          request.send();
        }, slow.url);
        const message = await inTime('the reply', rest());
        assert.deepEqual([message.text, message.last, message.leads], [message.same, message.same, true]);
        wake();
        await hung;
        const after_ = await pages[0].evaluate(async () => {
          const all = /** @type {any} */ (globalThis);
          const { tokens: ids } = await all.chat.send('and you?', { temperature: 0.8, seed: 5, maxTokens: 5 }).result;
          return [ids.length > 0, all.chat.messages.length, all.engine.info.leads];
        });
        assert.deepEqual(after_, [true, 4, false]);
      });

      test('the sessions of a page are freed when it crashes', async (t) => {
        const { pages } = await open(t, 2);
        await pages[1].evaluate(async () => {
          const all = /** @type {any} */ (globalThis);
          all.session = await all.model.createSession();
        });
        const refused = await pages[0].evaluate(() =>
          /** @type {any} */ (globalThis).model.createSession().catch((/** @type {any} */ error) => error.code),
        );
        assert.equal(refused, 'NO_SESSION');
        const devtools = await pages[1].context().newCDPSession(pages[1]);
        devtools.send('Page.crash').catch(() => {});
        await pages[0].waitForFunction(() =>
          /** @type {any} */ (globalThis).model.createSession().then(
            () => true,
            () => false,
          ),
        );
      });
    });
