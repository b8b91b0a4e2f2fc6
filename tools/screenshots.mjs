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

/** A conversation with each kind of formatted text, as it is stored. */
const FORMATTED = [
  { id: 'a', parent: null, role: 'user', content: 'How do I boil an egg?' },
  {
    id: 'b',
    parent: 'a',
    role: 'assistant',
    note: '',
    content: [
      'Boil **water** first, then:',
      '1. Lower the egg in *gently*.\n2. Wait.\n3. Cool it.',
      '| Egg | Minutes |\n|---|--:|\n| soft | 5 |\n| hard | 10 |',
      '```js\nsetTimeout(() => eat(egg), 5 * 60_000);\n```',
    ].join('\n\n'),
  },
];

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
      if ((await ui(page).details.getAttribute('aria-expanded')) === 'false') await ui(page).details.click();
      await sample(page, { seed: '4' });
      if (options.isMobile) await ui(page).details.click();
      await say(page, 'Hello!');
      await say(page, 'Tell me a story about a dog.');
      await take(`${name}.png`);
      if (options.isMobile) {
        await ui(page).details.click();
        await take(`${name}-details.png`);
        await ui(page).details.click();
      }
      await page.evaluate(
        ([entries]) =>
          localStorage.setItem(
            'bq4.chat.plan',
            JSON.stringify({ version: 2, entries, leaf: 'b', at: Date.UTC(2026, 10, 20) }),
          ),
        [FORMATTED],
      );
      await page.locator('#chats').click();
      await take(`${name}-chats.png`);
      await page.locator('.chat-name').last().click();
      await page.locator('.formatted table').waitFor();
      await ui(page).log.evaluate((log) => log.scrollTo(0, 0));
      await take(`${name}-formatted.png`);
      await page.context().close();
    }
  } finally {
    await browser.close();
    await site.close();
  }
});
