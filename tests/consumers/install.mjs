// Frameworks and runtimes of tests with the packed package. package.json in this folder fixes their versions. They have a size of 1 GB and
// are needed by long tests only, so they are installed when a test needs them, in the cache folder, once for all checkouts.
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot, withLock, writeAtomically } from '../../tools/setup/cache.mjs';
import { npmCi } from '../../tools/setup/npm.mjs';
import { step } from '../../tools/setup/shell.mjs';
import { installPacked } from '../browser/packed.mjs';

const HERE = import.meta.dirname;

/** Installs the frameworks, unless they are installed. @returns {Promise<string>} the folder that has them in its node_modules */
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
      writeAtomically(join(folder, 'ready'), '');
    });
  return folder;
}

/**
 * A new folder for an app. Its node_modules has the packed package; the frameworks are in the node_modules of the folder above.
 * @param {string} parent  the folder of `consumers`
 */
export function appFolder(parent) {
  const folder = mkdtempSync(join(parent, 'app-'));
  writeFileSync(join(folder, 'package.json'), '{ "name": "app", "private": true }\n');
  installPacked(folder);
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Paths of the programs. @param {string} folder  of `consumers` */
export const programs = (folder) => ({
  bun: join(folder, 'node_modules/bun/bin/bun.exe'),
  deno: join(folder, 'node_modules/deno/deno'),
  next: join(folder, 'node_modules/next/dist/bin/next'),
  node20: join(folder, 'node_modules/node20/bin/node'),
  node22: join(folder, 'node_modules/node22/bin/node'),
  parcel: join(folder, 'node_modules/parcel/lib/bin.js'),
});
