// Tests of the demo as an installed app: Chromium's criteria for installation, and links that other apps share with it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntilOffline, newPage, oneHost, openDemo, ready, texts, ui } from './site.mjs';

const here = oneHost();

test('the demo can be installed: manifest, icons and a start without a network', async () => {
  const page = await newPage(here.browser, { serviceWorkers: 'allow' });
  await openDemo(page, here.site.url);
  await waitUntilOffline(page);
  const session = await page.context().newCDPSession(page);
  const { errors, data } = await session.send('Page.getAppManifest');
  assert.deepEqual(errors, []);
  const { installabilityErrors } = await session.send('Page.getInstallabilityErrors');
  // A context of a test is a private window, which Chromium installs nothing from.
  assert.deepEqual(
    installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== 'in-incognito'),
    [],
  );
  const { icons, share_target: share, start_url: start } = JSON.parse(String(data));
  for (const { src, sizes, type } of icons) {
    const size = await page.evaluate(async (src) => {
      const image = new Image();
      image.src = src;
      await image.decode();
      return `${image.naturalWidth}x${image.naturalHeight}`;
    }, src);
    if (type === 'image/png') assert.equal(size, sizes, src);
  }
  await page.context().setOffline(true);
  await page.goto(new URL(start, page.url()).href);
  await ready(page);

  // Shared without a network, as the system would.
  const shared = new URL(share.action, page.url());
  shared.searchParams.set(share.params.text, 'Tell me a joke');
  await page.goto(shared.href);
  await ready(page);
  assert.equal(await ui(page).message.inputValue(), 'Tell me a joke');
  assert.deepEqual(await texts(page), [], 'the person sends it');
  assert.equal(new URL(page.url()).search, '');
  await page.context().close();
});

test('a shared link to a model is inserted in the field for checking, and nothing is downloaded', async () => {
  const page = await newPage(here.browser, { serviceWorkers: 'allow' });
  /** @type {string[]} */
  const asked = [];
  page.context().on('request', (request) => asked.push(request.url()));
  const link = 'https://elsewhere.invalid/some/model.gguf?download=true';
  await openDemo(page, `${here.site.url}demo/?text=${encodeURIComponent(link)}`);
  const field = page.locator('#link');
  assert.equal(await field.inputValue(), link);
  assert.ok(await field.isVisible());
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'link');
  assert.equal(await ui(page).message.inputValue(), '');
  assert.ok(!asked.some((url) => url.startsWith('https:')), `${asked}`);
  await page.reload();
  await ready(page);
  assert.equal(await field.inputValue(), '');
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});
