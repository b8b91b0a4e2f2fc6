#!/usr/bin/env node
// `npm install git+…`: npm clones into its cache, installs what package.json names, runs `prepare` (twice) and packs. Only in such
// a clone this makes what is packed: a checkout's own `npm ci` and `npm install`, which run `prepare` too, are left alone.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildWasm } from './build.mjs';
import { run, SetupError } from './setup/shell.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

/** Whether npm cloned it to pack it. @param {string} root */
export const cloned = (root) => /[\\/]_cacache[\\/]tmp[\\/]git-clone/.test(root);

if (cloned(ROOT) && !existsSync(join(ROOT, 'build', 'types', 'js', 'index.d.ts')))
  await command(async () => {
    try {
      await buildWasm(await setUp());
      await run(process.execPath, [join(ROOT, 'tools', 'dist.mjs')], { cwd: ROOT });
      await run(process.execPath, [join(ROOT, 'node_modules', '.bin', 'tsc'), '-p', 'tsconfig.types.json'], {
        cwd: ROOT,
      });
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      throw new SetupError(
        `${error.message}\n\nInstalling bq4 from git builds it, which failed for the reason above; a packed bq4 (npm pack) builds nothing.`,
      );
    }
  });
