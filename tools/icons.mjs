#!/usr/bin/env node
// Makes the PNG icons of the installed demo out of demo/icon.svg, in Chromium. Run by hand when that changes.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { command, ROOT } from './setup/setup.mjs';

/** Name, pixels, and the part of it that the icon fills: systems cut off the rim of a maskable one. @type {[string, number, number][]} */
const ICONS = [
  ['icon-192.png', 192, 1],
  ['icon-512.png', 512, 1],
  ['icon-maskable.png', 512, 0.72],
];

/** Behind a maskable icon: the page's own paper. */
const PAPER = '#f4f6f1';

await command(async () => {
  const { launch } = await import('../tests/browser/launch.mjs');
  const browser = await launch();
  try {
    const svg = readFileSync(join(ROOT, 'demo/icon.svg')).toString('base64');
    for (const [name, size, part] of ICONS) {
      const page = await browser.newPage({ viewport: { width: size, height: size } });
      await page.setContent(`<style>body { margin: 0; display: grid; place-items: center; height: 100vh; ${part < 1 ? `background: ${PAPER}` : ''} }</style>
        <img width="${size * part}" src="data:image/svg+xml;base64,${svg}">`);
      await page.locator('img').evaluate((/** @type {HTMLImageElement} */ image) => image.decode());
      await page.screenshot({ path: join(ROOT, 'demo', name), omitBackground: part === 1 });
      await page.close();
    }
  } finally {
    await browser.close();
  }
});
