// Shows all pictures of a folder in one picture.
import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launch } from '../../tests/browser/launch.mjs';

/** Writes FOLDER.png next to the folder. @param {string} folder @param {string[]} files  PNGs in it @returns {Promise<string>}  path of the picture */
export async function writeSheet(folder, files) {
  const pagePath = join(folder, 'index.html');
  const figures = files.map(
    (file) => `<figure><img src="${basename(file)}" alt=""><figcaption>${basename(file, '.png')}</figcaption></figure>`,
  );
  const style =
    'body { display: flex; flex-wrap: wrap; gap: 12px; margin: 12px; font: 14px sans-serif } figure { margin: 0 } img { height: 360px; max-width: 640px; object-fit: contain; border: 1px solid #999 }';
  writeFileSync(
    pagePath,
    `<!doctype html><meta charset="utf-8"><title>${basename(folder)}</title><style>${style}</style>${figures.join('\n')}\n`,
  );
  const browser = await launch({ full: true });
  try {
    const page = await browser.newPage({ viewport: { width: 2000, height: 1000 } });
    await page.goto(pathToFileURL(pagePath).href);
    await page.screenshot({ path: `${folder}.png`, fullPage: true });
  } finally {
    await browser.close();
  }
  return `${folder}.png`;
}
