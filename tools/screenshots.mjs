#!/usr/bin/env node
// Takes screenshots of the demo in all its states (tools/screenshots/states.mjs), with the real page, engine and models. Uses
// each available browser, or those listed in BQ4_BROWSERS.
//
//   docs/screenshots/*.png, layout.json   main states in Chromium, compared by tests/browser/pictures.long.mjs; also a state with
//                                         a real model, if `npm run models` has downloaded it
//   build/screenshots/BROWSER/*.png       all states; BROWSER.png shows all of them side by side
//
//   BQ4_BROWSERS=chromium node tools/screenshots.mjs [STATE... | main]  only these states, or only the main ones
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { buildWasm } from './build.mjs';
import { say as log } from './setup/shell.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

const DOCS_FOLDER = join(ROOT, 'docs', 'screenshots');

await command(async () => {
  await buildWasm(await setUp({ tests: true }));
  // Imported here because these modules need the browser drivers installed above.
  const { NAMES, skip } = await import('../tests/browser/browsers.mjs');
  const { STATES } = await import('./screenshots/states.mjs');
  const { visitStates: walk } = await import('./screenshots/walk.mjs');
  const { writeSheet: sheet } = await import('./screenshots/sheet.mjs');
  const stateNames = process.argv.slice(2);
  const states = STATES.filter(
    ({ name, main, real }) =>
      !stateNames.length || stateNames.includes(name) || ((main || real) && stateNames.includes('main')),
  );
  const browserNames = /** @type {typeof NAMES} */ (process.env.BQ4_BROWSERS?.split(',') ?? NAMES);
  for (const browser of browserNames) {
    const reason = await skip(browser);
    if (reason) {
      log(reason);
      continue;
    }
    const folder = join(ROOT, 'build', 'screenshots', browser);
    for (const output of [folder, DOCS_FOLDER]) mkdirSync(output, { recursive: true });
    /** @type {string[]} */
    const files = [];
    /** @type {Record<string, import('./screenshots/compare.mjs').StoredLook>} */
    const looks = {};
    const version = await walk(browser, states, ({ name, main, real }, { picture, ...look }) => {
      files.push(join(folder, `${name}.png`));
      writeFileSync(join(folder, `${name}.png`), picture);
      log(`${browser}: ${name}`);
      if (!(main || real) || browser !== 'chromium') return;
      writeFileSync(join(DOCS_FOLDER, `${name}.png`), picture);
      if (main) looks[name] = look;
    });
    if (Object.keys(looks).length === STATES.filter(({ main }) => main).length)
      writeFileSync(join(DOCS_FOLDER, 'layout.json'), `${JSON.stringify({ version, states: looks })}\n`);
    const sheetPath = await sheet(folder, files);
    log(`${version}: ${files.length} states, all of them in ${join('build', 'screenshots', basename(sheetPath))}`);
  }
});
