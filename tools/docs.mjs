#!/usr/bin/env node
// `npm run site`: sets up, builds what is stale, and makes build/site/, which begins with README.md as index.html. Copy it to any
// static host.
import { relative } from 'node:path';
import { buildWasm } from './build.mjs';
import { provideNodeModules } from './setup/npm.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';
import { say } from './setup/shell.mjs';

await command(async () => {
  await buildWasm(await setUp());
  await provideNodeModules(ROOT);
  // Only now are the packages there for certain.
  const [{ makeDocs }, { SITE }] = await Promise.all([import('./docs/make.mjs'), import('./site.mjs')]);
  await makeDocs();
  say(`made ${relative(ROOT, SITE)}`);
});
