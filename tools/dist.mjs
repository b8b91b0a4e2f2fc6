#!/usr/bin/env node
// Makes dist/, the modules as the package ships them: js/ without comments and spaces, one file for one file.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minify } from 'terser';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
const emitted = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.dist.json'], { cwd: ROOT, stdio: 'inherit' });
if (emitted.status !== 0) process.exit(1);
for (const name of readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.js')) continue;
  const path = join(ROOT, 'dist', name);
  // As `new URL('…', import.meta.url)` and literal imports are what bundlers look for, nothing is moved or inlined across them.
  const { code } = await minify(readFileSync(path, 'utf8'), { module: true, ecma: 2022, compress: { passes: 2, unsafe: false }, mangle: { module: true } });
  writeFileSync(path, `${code}\n`);
}
