// Tests of perplexity in the demo: the same figures as `bq4 perplexity`, and code that is loaded on demand only.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { newPage, oneHost, openDemo, ready, ROOT, say, ui } from './site.mjs';

const here = oneHost();
const MODEL = join(ROOT, 'models/chat.bq4');
const TEXT =
  'Tom had a red ball. He liked to play with it in the park. One day the ball rolled into the river, and Tom was sad.';

/** What the command says of a text, with these options. @param {string} text @param {string[]} options */
function byCommand(text, options) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-demo-perplexity-'));
  const path = join(folder, 'text.txt');
  writeFileSync(path, text);
  const args = [join(ROOT, 'bin/bq4.js'), 'perplexity', MODEL, path, '--threads', '1', '--json', ...options];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  rmSync(folder, { recursive: true });
  assert.ok(stdout, stderr);
  return JSON.parse(stdout);
}

/** The share of a text's tokens that the model would have written itself. @param {string} text */
async function shareWritten(text) {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile(MODEL));
  const ids = await model.tokenize(text);
  let same = 0;
  for (let n = 1; n < ids.length; n++) {
    const { tokens: written } = await model.generate(ids.slice(0, n), { temperature: 0, maxTokens: 1 }).result;
    same += Number(written[0] === ids[n]);
  }
  await engine.close();
  return same / (ids.length - 1);
}

test('the demo measures perplexity like the command; a text that is too long or sent during a reply is refused; it can be stopped', async () => {
  const page = await newPage(here.browser);
  /** @type {string[]} */
  const asked = [];
  page.context().on('request', (request) => request.serviceWorker() || asked.push(new URL(request.url()).pathname));
  await openDemo(page, here.site.url);
  assert.ok(!asked.some((path) => path.endsWith('/perplexity.js')));
  await ui(page).details.click();
  const part = page.locator('#perplexity');
  await part.locator('summary').click();
  const text = part.getByRole('textbox', { name: 'Text' });
  const button = part.getByRole('button');
  const figures = () =>
    part
      .locator('.figures div')
      .evaluateAll((rows) =>
        Object.fromEntries(
          rows.map((row) => [row.querySelector('dt')?.textContent, row.querySelector('dd')?.textContent]),
        ),
      );
  assert.ok((await text.inputValue()).length > 100, 'a text to begin with');

  await text.fill(TEXT);
  await button.click();
  await part.locator('dt', { hasText: 'Perplexity' }).waitFor();
  const hint = (await part.locator('.hint').textContent()) ?? '';
  const [, context, kv, activations] = /context (\d+), kv (\w+) and activations (\w+)/.exec(hint) ?? [];
  const options = ['--context', context, '--kv', kv, '--activations', activations];
  const { perplexity, predicted } = byCommand(TEXT, options);
  const found = await figures();
  assert.ok(Math.abs(Number(found.Perplexity) / perplexity - 1) < 1e-5, `${found.Perplexity}, not ${perplexity}`);
  assert.equal(found['Tokens predicted'], String(predicted));
  assert.equal(found['Top guess correct'], `${(100 * (await shareWritten(TEXT))).toFixed(1)} %`);

  await text.fill('Tom had a red ball. '.repeat(250));
  await button.click();
  await ui(page).alert.waitFor();
  const [, limit] =
    /The text has [\d,]+ tokens, and ([\d,]+) fit\..*CONTEXT_FULL/s.exec((await ui(page).alert.textContent()) ?? '') ??
    [];
  assert.equal(limit?.replace(',', ''), context);

  // In the page itself, amid the work: a click from here may come when all is measured.
  await text.fill('Tom had a red ball. '.repeat(50));
  const sendVisible = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const root = /** @type {HTMLElement} */ (document.querySelector('#perplexity'));
        const measure = /** @type {HTMLButtonElement} */ (root.querySelector('button'));
        const observer = new MutationObserver(() => {
          if (![...root.querySelectorAll('dd')].some((figure) => / of /.test(figure.textContent ?? ''))) return;
          observer.disconnect();
          resolve(/** @type {HTMLElement} */ (document.querySelector('#send')).checkVisibility());
          measure.click();
        });
        observer.observe(root, { subtree: true, childList: true, characterData: true });
        measure.click();
      }),
  );
  assert.equal(sendVisible, false, 'the model is at work');
  await ui(page).status.filter({ hasText: 'Stopped.' }).waitFor();
  await ready(page);

  await ui(page).message.fill('Tell me a story');
  await page.evaluate(
    () =>
      new Promise((resolve) => {
        const stop = /** @type {HTMLElement} */ (document.querySelector('#stop'));
        const observer = new MutationObserver(() => {
          if (stop.hidden) return;
          observer.disconnect();
          /** @type {HTMLElement} */ (document.querySelector('#perplexity button')).click();
          resolve(null);
        });
        observer.observe(stop, { attributes: true });
        /** @type {HTMLElement} */ (document.querySelector('#send')).click();
      }),
  );
  await page.getByText('Nothing can be measured while a reply is written').waitFor();
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});
