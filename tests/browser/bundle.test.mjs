// Tests of single-file pages (`bq4 bundle`), opened from a disk in every browser: they reply and send no requests.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { makeDist } from '../../tools/payload.mjs';
import { chromiumFirst, start } from './every.mjs';
import { ROOT } from './site.mjs';

// Not by `after`: node:test takes a pause between groups for the end of the file.
const folder = mkdtempSync(join(tmpdir(), 'bq4-bundle-'));
process.on('exit', () => rmSync(folder, { recursive: true }));
const PAGE = join(folder, 'stories.html');
/** @param {...string} args */
const bundle = (...args) =>
  spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), 'bundle', ...args], { encoding: 'utf8' });

assert.equal(makeDist(), '');
// By the command of examples/single.
const readme = readFileSync(join(ROOT, 'examples/single/README.md'), 'utf8');
const [, words] = /^npx bq4 bundle chat\.bq4 stories\.html (--title ".+")$/m.exec(readme) ?? [];
const [option, title] = [words.slice(0, 7), JSON.parse(words.slice(8))];
const output = bundle(join(ROOT, 'models/chat.bq4'), PAGE, option, title);
assert.equal(output.status, 0, output.stderr);

test('the single-file page names no other file, and its policy forbids loading any', () => {
  const page = readFileSync(PAGE, 'utf8');
  const html = page.replace(/<script[^]*?<\/script>/g, '');
  assert.match(html, /<title>Cats &amp; dogs &lt;3<\/title>/);
  assert.deepEqual(
    [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, url]) => url),
    ['data:,'],
  );
  assert.match(html, /default-src 'none'; script-src 'sha256-[^ ]+' 'wasm-unsafe-eval'; style-src 'sha256-/);
});

test('an invalid model gives no single-file page', () => {
  const text = join(folder, 'text.bq4');
  writeFileSync(text, 'no model');
  const { status, stderr } = bundle(text, join(folder, 'none.html'));
  assert.equal(status, 1);
  assert.match(stderr, /NOT_A_MODEL/);
  assert.throws(() => readFileSync(join(folder, 'none.html')), { code: 'ENOENT' });
});

await chromiumFirst((name) => {
  /** @type {import('./every.mjs').Browser} */
  let browser;
  before(async () => (browser = await start(name)));
  after(() => browser.close());

  test('the single-file page replies when it is opened from a disk', async () => {
    const page = await browser.open(pathToFileURL(PAGE).href);
    await page.until(() => /** @type {HTMLButtonElement} */ (document.querySelector('#send'))?.disabled === false);
    await page.type('#message', 'Hello!');
    await page.click('#send');
    await page.until(() => /^\d+ tokens$/.test(document.querySelector('#status')?.textContent ?? ''));
    const messages = await page.evaluate(() =>
      [...document.querySelectorAll('#log article')].map((article) => [article.className, article.textContent]),
    );
    assert.equal(messages.length, 2);
    assert.deepEqual(messages[0], ['user', 'Hello!']);
    assert.match(String(messages[1][1]), /\w/);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });
});
