#!/usr/bin/env node
// `npm run site`: sets up, builds outdated modules, and generates build/site/ for any static host. Its index.html is
// generated from README.md.
import { relative } from 'node:path';
import { buildWasm } from './build.mjs';
import { provideNodeModules } from './setup/npm.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';
import { say } from './setup/shell.mjs';

await command(async () => {
  await buildWasm(await setUp());
  await provideNodeModules(ROOT);
  // Imported here because these modules need the npm packages installed above.
  const [{ writeDocs: makeDocs }, { SITE }] = await Promise.all([import('./docs/make.mjs'), import('./site.mjs')]);
  await makeDocs();
  say(`wrote ${relative(ROOT, SITE)}`);
});
