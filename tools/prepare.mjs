#!/usr/bin/env node
// Builds the package for `npm install git+…`. npm clones the repository into its cache, installs the dependencies, runs
// `prepare` (twice) and packs the folder. `npm ci` and `npm install` in a checkout run `prepare` too: there this program does nothing.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildWasm } from './build.mjs';
import { run, SetupError } from './setup/shell.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

/** Whether the folder is a clone that npm created in order to pack it. @param {string} root */
const isNpmClone = (root) => /[\\/]_cacache[\\/]tmp[\\/]git-clone/.test(root);

if (isNpmClone(ROOT) && !existsSync(join(ROOT, 'build', 'types', 'js', 'index.d.ts')))
  await command(async () => {
    try {
      await buildWasm(await setUp());
      await run(process.execPath, [join(ROOT, 'tools', 'dist.mjs')], { cwd: ROOT });
      await run(process.execPath, [join(ROOT, 'tools', 'types.mjs')], { cwd: ROOT });
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      throw new SetupError(
        `${error.message}\n\nThe installation of bq4 from git builds the package. The build failed for the reason above. To install without a build, use a packed package (npm pack).`,
      );
    }
  });
