// Frameworks and runtimes that the package is built with and run in, pinned in package.json here. They are a gigabyte that only long
// tests need: installed beside the set-up's other things, once for all checkouts.
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot, withLock, writeWhole } from '../../tools/setup/cache.mjs';
import { npmCi } from '../../tools/setup/npm.mjs';
import { step } from '../../tools/setup/shell.mjs';
import { installPacked } from '../browser/packed.mjs';

const HERE = import.meta.dirname;

/** @returns {Promise<string>} a folder with all of them in its node_modules */
export async function consumers() {
  const lock = readFileSync(join(HERE, 'package-lock.json'));
  const folder = join(cacheRoot(), 'consumers', createHash('sha256').update(lock).digest('hex').slice(0, 12));
  const ready = () => existsSync(join(folder, 'ready'));
  if (!ready())
    await withLock('consumers', async () => {
      if (ready()) return;
      mkdirSync(folder, { recursive: true });
      for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(HERE, name), join(folder, name));
      await step('installing the npm packages of tests/consumers', () => npmCi(folder, 'install'));
      writeWhole(join(folder, 'ready'), '');
    });
  return folder;
}

/**
 * An app of these tests: the package as it is packed, and the others in the node_modules above it.
 * @param {string} above  of `consumers`
 */
export function appFolder(above) {
  const folder = mkdtempSync(join(above, 'app-'));
  writeFileSync(join(folder, 'package.json'), '{ "name": "app", "private": true }\n');
  installPacked(folder);
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Programs in that folder. @param {string} above */
export const programs = (above) => ({
  bun: join(above, 'node_modules/bun/bin/bun.exe'),
  deno: join(above, 'node_modules/deno/deno'),
  next: join(above, 'node_modules/next/dist/bin/next'),
  node20: join(above, 'node_modules/node20/bin/node'),
  node22: join(above, 'node_modules/node22/bin/node'),
  parcel: join(above, 'node_modules/parcel/lib/bin.js'),
});
