// `bq4/react` in a real page with React's development build, within StrictMode, which mounts every component twice.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { rolldown } from 'rolldown';
import { chromiumFirst, oneSite } from './every.mjs';
import { ROOT } from './site.mjs';

const ENTRY = `export * as React from 'react'; export * as dom from 'react-dom/client';
export * from ${JSON.stringify(join(ROOT, 'js/api/adapters/react.js'))};`;
let code = '';
before(async () => {
  const product = await rolldown({
    input: 'entry',
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id === 'entry' ? join(ROOT, 'entry.js') : null),
        load: (id) => (id.endsWith('entry.js') ? ENTRY : null),
      },
    ],
    transform: { define: { 'process.env.NODE_ENV': '"development"' } },
    platform: 'browser',
  });
  const { output } = await product.generate({ format: 'iife', name: 'lib' });
  ({ code } = output[0]);
  await product.close();
});

await chromiumFirst((name) => {
  const here = oneSite(name);
  /** Opens a page with React and `until` in `globalThis.lib`. */
  const openPage = async () => {
    const page = await here.open();
    await page.evaluate(async (/** @type {string} */ script) => {
      const tag = document.createElement('script');
      tag.textContent = `${script};globalThis.lib = lib;`;
      document.head.append(tag);
      const waiting = '/tests/waiting.mjs';
      const { until } = await import(waiting);
      const { lib } = /** @type {any} */ (globalThis);
      Object.assign(globalThis, { lib: { ...lib, until } });
    }, code);
    return page;
  };

  test('a model is loaded once; a conversation continues, stops, and ends with its component', async () => {
    const page = await openPage();
    const result = await page.evaluate(async () => {
      const { React, dom, useModel, useChat, until } = /** @type {any} */ (globalThis).lib;
      const { createWorkerEngine } = await import(new URL('/js/index.js', location.href).href);
      const engine = await createWorkerEngine({ threads: 1 });
      /** What happened, in order. @type {string[]} */
      const events = [];
      const load = async (/** @type {any} */ options) => {
        events.push('load');
        const model = await engine.load('/models/chat.bq4', { contextTokens: 256, ...options });
        const { close } = model;
        model.close = () => (events.push('close'), close());
        return model;
      };
      /** What the component saw last. @type {any} */
      let now;
      let progressed = false;
      function Talk() {
        const { model, progress, error } = useModel(load);
        const chat = useChat(model, { generate: { temperature: 0 } });
        progressed ||= progress !== null;
        now = { model, failed: error, ...chat };
        return chat.messages.map((/** @type {any} */ { role, content }, /** @type {number} */ i) =>
          React.createElement('p', { key: i }, `${role}: ${content}`),
        );
      }
      const box = document.body.appendChild(document.createElement('div'));
      const root = dom.createRoot(box);
      root.render(React.createElement(React.StrictMode, null, React.createElement(Talk)));
      await until('a model that is ready', () => now?.status === 'ready');
      const started = [...events];
      const { send } = now;
      const first = now.send('Hello!');
      void now.send('Not now.'); // while one is under way
      // A short reply may be over before anything is drawn.
      await until('two messages', () => now.messages.length === 2);
      await first;
      await until('the end of the reply', () => now.status === 'ready');
      const [{ text }, shown] = [
        await now.model.generate([{ role: 'user', content: 'Hello!' }], { temperature: 0 }).result,
        [...box.querySelectorAll('p')].map((p) => p.textContent),
      ];
      const second = now.send('Tell me a story.');
      await until('words of the second reply', () => now.messages.length === 4 && now.messages[3].content);
      now.stop();
      await second;
      await until('the end of the reply', () => now.status === 'ready');
      const stopped = { error: now.error, messages: now.messages.length, same: now.send === send };
      await now.send(/** @type {any} */ (5));
      await until('an error', () => now.error);
      const { code } = now.error;
      const before = now.messages.length;
      void now.send('Hello again!');
      await until('another message', () => now.messages.length > before);
      root.unmount();
      await until('the end of the model', () => events.length === 2);
      const { model } = now;
      const closed = await model.countTokens([]).catch((/** @type {any} */ error) => error.code);
      await engine.close();
      return { started, events, progressed, shown, text, stopped, code, closed };
    });
    assert.deepEqual(result.started, ['load'], 'StrictMode begins one load');
    assert.deepEqual(result.events, ['load', 'close']);
    assert.ok(result.progressed);
    assert.deepEqual(result.shown, ['user: Hello!', `assistant: ${result.text}`]);
    assert.deepEqual(result.stopped, { error: null, messages: 4, same: true });
    assert.equal(result.code, 'ARGUMENT');
    assert.equal(result.closed, 'CLOSED');
  });

  test('invalid and unknown options are reported as the error of the conversation', async () => {
    const page = await openPage();
    const messages = await page.evaluate(async () => {
      const { React, dom, useChat, until } = /** @type {any} */ (globalThis).lib;
      const { createWorkerEngine } = await import(new URL('/js/index.js', location.href).href);
      const engine = await createWorkerEngine({ threads: 1 });
      const model = await engine.load('/models/chat.bq4', { contextTokens: 256 });
      const reports = [];
      for (const options of [{ generate: 5 }, { generate: [] }, { sytem: 'x' }]) {
        /** @type {any} */
        let now;
        function Talk() {
          now = useChat(model, options);
          return null;
        }
        const root = dom.createRoot(document.body.appendChild(document.createElement('div')));
        root.render(React.createElement(Talk));
        await until('an error', () => now?.error);
        reports.push(`${now.error.code}: ${now.error.message}`);
        root.unmount();
      }
      await engine.close();
      return reports;
    });
    assert.deepEqual(messages, [
      'ARGUMENT: generate: expected an options object, found 5',
      'ARGUMENT: generate: expected an options object, found []',
      'ARGUMENT: createChat: unknown option "sytem"; did you mean "system"?',
    ]);
  });

  test('a message is shown before its reply begins, and the caller’s own signal ends a reply', async () => {
    const page = await openPage();
    const result = await page.evaluate(async () => {
      const { React, dom, useChat, until } = /** @type {any} */ (globalThis).lib;
      const { createWorkerEngine } = await import(new URL('/js/index.js', location.href).href);
      const engine = await createWorkerEngine({ threads: 1 });
      const model = await engine.load('/models/chat.bq4', { contextTokens: 256 });
      /** @type {any} */
      let now;
      const caller = new AbortController();
      let isCallerUsed = false;
      /** Messages and states that were drawn. @type {string[]} */
      const drawn = [];
      function Talk() {
        now = useChat(model, {
          generate: { temperature: 0, maxTokens: 5, ...(isCallerUsed && { signal: caller.signal }) },
        });
        drawn.push(`${now.status}: ${now.messages.map((/** @type {any} */ { content }) => content).join(' / ')}`);
        return null;
      }
      const root = dom.createRoot(document.body.appendChild(document.createElement('div')));
      const draw = async () => {
        const before = drawn.length;
        root.render(React.createElement(Talk));
        await until('a drawing', () => drawn.length > before);
      };
      const ready = () => until('a ready chat', () => now?.status === 'ready');
      await draw();
      await ready();
      await engine.pause(); // an engine that has paused computes no token; one that is about to pause may have ended the reply
      const first = now.send('Hello!');
      await until('the message', () => drawn.includes('replying: Hello!'));
      engine.resume();
      await first;
      await ready();
      await engine.pause();
      const again = now.regenerate();
      const count = drawn.length;
      await until('the message alone', () => drawn.slice(count).includes('replying: Hello!'));
      now.stop();
      engine.resume();
      await again;
      await ready();
      const kept = now.messages.length;

      isCallerUsed = true;
      await draw();
      await engine.pause();
      const second = now.send('Tell me a story.');
      await until('the second message', () => now.messages.length === 3);
      caller.abort();
      engine.resume();
      await second;
      await ready();
      const aborted = { messages: now.messages.length, error: now.error };
      isCallerUsed = false;
      await draw();
      await now.send(null); // no message: it doesn't generate another reply to the last one
      await until('an error', () => now.error);
      const { code } = now.error;
      await engine.close();
      root.unmount();
      return { kept, aborted, code };
    });
    assert.deepEqual(result, { kept: 2, aborted: { messages: 2, error: null }, code: 'ARGUMENT' });
  });

  test('values that are no models, and loads that return none, are reported with what is expected', async () => {
    const page = await openPage();
    const reports = await page.evaluate(async () => {
      const { React, dom, useChat, useModel, until } = /** @type {any} */ (globalThis).lib;
      /** @type {string[]} */
      const unhandled = [];
      addEventListener('unhandledrejection', ({ reason }) => unhandled.push(String(reason)));
      /** @type {string[]} */
      const reports = [];
      const loads = [() => {}, () => ({ load: () => null, close: () => null })];
      for (const load of loads) {
        /** @type {any} */
        let now;
        function Loads() {
          now = useModel(load);
          return null;
        }
        const root = dom.createRoot(document.body.appendChild(document.createElement('div')));
        root.render(React.createElement(Loads));
        await until('an error', () => now?.error);
        reports.push(`${now.error.code}: ${now.error.message}`);
        root.unmount();
      }
      let drawn = false;
      /** @type {any} */
      let state;
      function Waits() {
        state = useModel(() => null); // no file was chosen yet
        React.useEffect(() => () => (drawn = true), []);
        return null;
      }
      const waits = dom.createRoot(document.body.appendChild(document.createElement('div')));
      waits.render(React.createElement(React.StrictMode, null, React.createElement(Waits)));
      await until('an effect', () => drawn);
      waits.unmount();
      reports.push(`${state.model} ${state.error}`);
      const promise = Promise.resolve();
      for (const use of [() => useModel(promise), () => useChat(promise), () => useChat({ chat: {} })]) {
        /** @type {any} */
        let thrown;
        function Uses() {
          use();
          return null;
        }
        const root = dom.createRoot(document.body.appendChild(document.createElement('div')), {
          onUncaughtError: (/** @type {any} */ error) => (thrown = error),
        });
        root.render(React.createElement(Uses));
        await until('an error', () => thrown);
        reports.push(`${thrown.code}: ${thrown.message}`);
        root.unmount();
      }
      return [...reports, ...unhandled];
    });
    assert.deepEqual(reports, [
      'ARGUMENT: the result of `load`: expected a model or null, found undefined',
      'ARGUMENT: the result of `load`: expected a model or null, found {}',
      'null null',
      'ARGUMENT: the first argument of useModel: expected a function that loads a model, found [object Promise]',
      'ARGUMENT: the first argument of useChat: expected a model or null, found [object Promise]',
      'ARGUMENT: the first argument of useChat: expected a model or null, found {"chat":{}}',
    ]);
  });

  test('a failed load is reported, and a load whose component is removed is aborted', async () => {
    const page = await openPage();
    const reports = await page.evaluate(async () => {
      const { React, dom, useModel, until } = /** @type {any} */ (globalThis).lib;
      /** @type {any} */
      let now;
      /** @type {AbortSignal[]} */
      const signals = [];
      function Loads(/** @type {{ url: string }} */ { url }) {
        now = useModel(
          ({ signal }) => {
            signals.push(signal);
            return url === 'bad' ? Promise.reject(new Error('bad')) : new Promise(() => {});
          },
          [url],
        );
        return null;
      }
      const root = dom.createRoot(document.body.appendChild(document.createElement('div')));
      const show = (/** @type {string} */ url) => root.render(React.createElement(Loads, { url }));
      show('slow');
      await until('a load', () => signals.length === 1);
      show('bad');
      await until('an error', () => now.error);
      const failed = now.error.message;
      root.unmount();
      return { failed, aborted: signals.map((signal) => signal.aborted) };
    });
    assert.deepEqual(reports, { failed: 'bad', aborted: [true, true] });
  });
});
