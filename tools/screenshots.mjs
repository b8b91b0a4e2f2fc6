#!/usr/bin/env node
// Pictures of the demo for the documentation: docs/screenshots/*.png, of the real page, engine and model.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { buildWasm } from './build.mjs';
import { serve } from './serve.mjs';
import { say as log } from './setup/shell.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

const DESK = { viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1 };
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

/** @type {Record<string, import('playwright-core').BrowserContextOptions>} */
const PICTURES = {
  light: { ...DESK, colorScheme: 'light' },
  dark: { ...DESK, colorScheme: 'dark' },
  phone: { ...PHONE, colorScheme: 'light' },
};

await command(async () => {
  await buildWasm(await setUp({ tests: true }));
  // Only now is Playwright there for certain.
  const { launch } = await import('../tests/browser/launch.mjs');
  const { newPage, openDemo, say, sample, ui } = await import('../tests/browser/site.mjs');
  const folder = join(ROOT, 'docs', 'screenshots');
  mkdirSync(folder, { recursive: true });
  const site = await serve({ root: ROOT });
  const browser = await launch();
  try {
    for (const [name, options] of Object.entries(PICTURES)) {
      const page = await newPage(browser, options);
      const take = async (/** @type {string} */ file) => {
        await page.mouse.move(0, 0);
        await page.evaluate(() => document.querySelector('#details')?.scrollTo(0, 0));
        await page.screenshot({ path: join(folder, file) });
        log(`docs/screenshots/${file}`);
      };
      await openDemo(page, site.url);
      await page.locator('[data-stat="offline"]', { hasText: /^yes/ }).waitFor({ state: 'attached' });
      await take(`${name}-first.png`);
      if (await ui(page).details.getAttribute('aria-expanded') === 'false') await ui(page).details.click();
      await sample(page, { seed: '4' });
      if (options.isMobile) await ui(page).details.click();
      await say(page, 'Hello!');
      await say(page, 'Tell me a story about a dog.');
      await take(`${name}.png`);
      if (options.isMobile) {
        await ui(page).details.click();
        await take(`${name}-details.png`);
      }
      await page.context().close();
    }
  } finally {
    await browser.close();
    await site.close();
  }
});
