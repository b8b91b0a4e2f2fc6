// The examples of docs/reference and docs/guides that need a page, as they stand there.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { rolldown } from 'rolldown';
import { trainClassifier } from '../../js/api/classifiers/index.js';
import { createWorkerEngine, fromFile } from '../../js/index.js';
import { bodyOf, namedExamples, examplesRunIn, sourceOf } from '../js/api-doc.mjs';
import { chromiumFirst, oneSite } from './every.mjs';
import { ROOT } from './site.mjs';

/** @param {string} name */
const codeOf = (name) => /** @type {import('../js/api-doc.mjs').Block} */ (namedExamples.get(name)).code;

/** What the component of an example becomes in a page: a script that shows it and gives `root` to end it. */
async function component() {
  const [name, source] = ['React 0', codeOf('React 0')];
  const entry = `${source}
import { createRoot } from 'react-dom/client';
export const show = (engine, box) => {
  const root = createRoot(box);
  root.render(<Talk engine={engine} />);
  return root;
};`;
  const product = await rolldown({
    input: name,
    plugins: [
      {
        name: 'example',
        resolveId: (id) =>
          id === name ? join(ROOT, 'example.jsx') : sourceOf(id) ? join(ROOT, `${sourceOf(id)}`) : null,
        load: (id) => (id.endsWith('example.jsx') ? entry : null),
      },
    ],
    transform: { define: { 'process.env.NODE_ENV': '"development"' } },
    platform: 'browser',
  });
  const { output } = await product.generate({ format: 'iife', name: 'example' });
  await product.close();
  return `${output[0].code};globalThis.example = example;`;
}

await chromiumFirst((name) => {
  const here = oneSite(name);

  /** Runs an example in a new page; gives what the page says then, also what is logged. @param {string} example @param {string[]} [gives] @param {string} [before]  code */
  async function run(example, gives = [], before = '') {
    const page = await here.open();
    const body = bodyOf(before + codeOf(example), (from) => `/${sourceOf(from)}`, gives);
    const message = await page.evaluate(async (/** @type {string} */ code) => {
      const { createWorkerEngine } = await import(new URL('/js/index.js', location.href).href);
      const engine = await createWorkerEngine({ threads: 1 });
      delete (/** @type {any} */ (globalThis).LanguageModel); // Chromium's own, without a model
      const AsyncFunction = /** @type {any} */ (async () => {}).constructor;
      const log = (/** @type {any[]} */ ...all) => document.body.append(all.join(' '));
      const { engine: own } = await AsyncFunction('engine', 'console', code)(engine, { log });
      await own?.close();
      await engine.close();
      return document.body.innerText;
    }, body);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
    return message;
  }

  for (const example of [
    'The JavaScript interface 0',
    'One engine for all tabs 0',
    'Prompt API 0',
    'A streaming reply 0',
  ])
    test(`${example}: a reply is in the page`, async () => {
      assert.match(await run(example, example.startsWith('One') ? ['engine'] : []), /\S{2}/);
    });

  test('Cache 0: a model is stored and deleted', async () => {
    const message = await run('Cache 0');
    assert.match(message, /(opfs|cache|indexeddb)\S* .* true \d{7}/i);
  });

  test('The model 0: a model is pinned', async () => {
    const load = "await (await engine.load('models/chat.bq4')).close();\n";
    assert.match(await run('The model 0', [], load), /true/);
  });

  test('Training 0: a classifier trained in the page equals that of Node', async (t) => {
    const lines = ['at six', 'at noon', 'early', 'in an hour', 'on Monday', 'again'].flatMap((when) => [
      `wake me ${when}\talarm`,
      `play some jazz ${when}\tmusic`,
    ]);
    const code = codeOf('Training 0').replace('requests.tsv', `data:,${encodeURIComponent(lines.join('\n'))}`);
    const page = await here.open();
    const body = bodyOf(code, (from) => `/${sourceOf(from)}`, ['file', 'report']);
    const output = await page.evaluate(async (/** @type {string} */ code) => {
      const { createWorkerEngine } = await import(new URL('/js/index.js', location.href).href);
      const engine = await createWorkerEngine({ threads: 1 });
      const model = await engine.load('/models/chat.bq4', { contextTokens: 128 });
      const AsyncFunction = /** @type {any} */ (async () => {}).constructor;
      const { file, report } = await AsyncFunction('model', code)(model);
      const [{ label, score }] = await model.classify('play the blues', { classifier: file });
      await engine.close();
      return { file, report, label, score };
    }, body);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
    const engine = await createWorkerEngine({ threads: 1 });
    t.after(() => engine.close());
    const model = await engine.load(fromFile(join(ROOT, 'models/chat.bq4')), { contextTokens: 128 });
    const examples = lines.map((line) => line.split('\t')).map(([text, label]) => ({ text, label }));
    const own = await trainClassifier(model, examples);
    const [{ label, score }] = await model.classify('play the blues', { classifier: own.file });
    assert.deepEqual(output, { ...own, label, score });
    assert.deepEqual([own.report.train, own.report.test], [10, 2]);
  });

  test('React 0: a component loads a model and chats', async () => {
    const page = await here.open();
    const reports = await page.evaluate(
      async (/** @type {string} */ script) => {
        const tag = document.createElement('script');
        tag.textContent = script;
        document.head.append(tag);
        const { createWorkerEngine } = await import(new URL('/js/index.js', location.href).href);
        const engine = await createWorkerEngine({ threads: 1 });
        const box = document.body.appendChild(document.createElement('div'));
        const root = /** @type {any} */ (globalThis).example.show(engine, box);
        const waiting = '/tests/waiting.mjs';
        const { until } = await import(waiting);
        const button = () => box.querySelector('button');
        await until('a model that is ready', () => button()?.textContent === 'ready');
        button()?.click();
        await until('two messages', () => box.querySelectorAll('p').length === 2);
        await until('a model that is ready', () => button()?.textContent === 'ready');
        const texts = [...box.querySelectorAll('p')].map((p) => [p.className, p.textContent]);
        root.unmount();
        await engine.close();
        return texts;
      },
      await component(),
    );
    assert.deepEqual(reports[0], ['user', 'Hello!']);
    assert.deepEqual([reports[1][0], Number(reports[1][1]?.length) > 0], ['assistant', true]);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });
});

test('each has a test here', () =>
  assert.deepEqual(examplesRunIn('page').sort(), [
    'A streaming reply 0',
    'Cache 0',
    'One engine for all tabs 0',
    'Prompt API 0',
    'React 0',
    'The JavaScript interface 0',
    'The model 0',
  ]));
