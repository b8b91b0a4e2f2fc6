#!/usr/bin/env node
// Renders demo/icon.svg to the PNG icons of the installed demo, in Chromium. Run it by hand after changes of the SVG file.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { command, ROOT } from './setup/setup.mjs';

/**
 * File name, size in pixels, and the fraction of the size that the drawing fills. Systems crop the border of a maskable icon.
 * @type {[string, number, number][]}
 */
const ICONS = [
  ['icon-192.png', 192, 1],
  ['icon-512.png', 512, 1],
  ['icon-maskable.png', 512, 0.72],
];

/** Background color of a maskable icon: the background color of the page. */
const BACKGROUND = '#f4f6f1';

await command(async () => {
  const { launch } = await import('../tests/browser/launch.mjs');
  const browser = await launch();
  try {
    const svg = readFileSync(join(ROOT, 'demo/icon.svg')).toString('base64');
    for (const [name, size, fraction] of ICONS) {
      const page = await browser.newPage({ viewport: { width: size, height: size } });
      await page.setContent(`<style>body { margin: 0; display: grid; place-items: center; height: 100vh; ${fraction < 1 ? `background: ${BACKGROUND}` : ''} }</style>
        <img width="${size * fraction}" src="data:image/svg+xml;base64,${svg}">`);
      await page.locator('img').evaluate((/** @type {HTMLImageElement} */ image) => image.decode());
      await page.screenshot({ path: join(ROOT, 'demo', name), omitBackground: fraction === 1 });
      await page.close();
    }
  } finally {
    await browser.close();
  }
});
