// Tests of the detection of page errors: a test file is run whose pages throw, reject or violate their policy.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { chromiumFirst } from './every.mjs';
import { ROOT } from './site.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-console-'));
after(() => rmSync(folder, { recursive: true }));

/** The tests that are run; each name says what should come of it. */
const TESTS = `
  import { test } from 'node:test';
  import { everyBrowser, oneSite } from ${JSON.stringify(join(ROOT, 'tests/browser/every.mjs'))};
  import { expectFaults } from ${JSON.stringify(join(ROOT, 'tests/browser/console.mjs'))};
  await everyBrowser((name) => {
    const here = oneSite(name, { 'content-security-policy': "img-src 'self' data:" });
    const broken = (page) => page.evaluate(() => new Promise((resolve) => {
      const picture = new Image();
      picture.onerror = () => setTimeout(resolve);
      picture.src = 'http://127.0.0.1:9/x.png';
    }));
    const later = (page, work) => page.evaluate(work).then(() => page.evaluate(() => new Promise((resolve) => setTimeout(resolve))));
    test('passes: a page that warns', async () => {
      const page = await here.open();
      await page.evaluate(() => { console.warn('a warning'); console.error('an error that was handled'); });
      await page.close();
    });
    test('fails: an exception', async () => {
      const page = await here.open();
      await later(page, () => void setTimeout(() => { throw new Error('thrown'); }));
    });
    test('fails: a rejection', async () => {
      const page = await here.open();
      await later(page, () => void Promise.reject(new Error('rejected')));
    });
    test('fails: a policy', async () => broken(await here.open()));
    test('passes: a policy, as expected', async () => {
      expectFaults(/img-src/);
      await broken(await here.open());
    });
    test('passes: the page after them', async () => {
      await (await here.open()).evaluate(() => 1);
    });
    test('fails: by itself', async () => {
      const page = await here.open();
      await page.evaluate(() => console.warn('what the page said'));
      throw new Error('of its own');
    });
  });
`;

await chromiumFirst((name) => {
  test('errors, rejections and policy violations fail the test; other messages and a screenshot are kept', () => {
    const file = join(folder, `pages-of-${name}.mjs`);
    writeFileSync(file, TESTS);
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { stdout } = spawnSync(process.execPath, ['--test-reporter=tap', file], {
      encoding: 'utf8',
      env: { ...env, BQ4_BROWSERS: name },
    });
    const ends = [...stdout.matchAll(/^ *(not ok|ok) \d+ - (passes|fails): (.*)$/gm)];
    assert.equal(ends.length, 7, stdout);
    for (const [, end, wanted, what] of ends) assert.equal(end === 'ok', wanted === 'passes', `${what}\n${stdout}`);
    for (const part of [/thrown/, /rejected/, /img-src/]) assert.match(stdout, part);
    const last = stdout.slice(stdout.indexOf('a page of "fails: by itself"'));
    // WebKit's driver tells of no messages; errors are noted by shims/watch.js.
    if (name !== 'webkit') assert.match(last, /what the page said/);
    const picture = join(ROOT, /its picture: (\S+)/.exec(last)?.[1] ?? 'none');
    assert.ok(existsSync(picture), last);
    assert.deepEqual([...readFileSync(picture).subarray(1, 4)], [...Buffer.from('PNG')]);
    for (const [, path] of stdout.matchAll(/its picture: (\S+)/g)) rmSync(join(ROOT, path), { force: true });
  });
});
