// Installs the packages of package-lock.json in node_modules if they are missing or don't match it.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findOnPath, run, SetupError, step } from './shell.mjs';

/** Installs the npm packages if necessary. @param {string} root  path of the checkout */
export async function provideNodeModules(root) {
  const lockHash = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  // `npm ci` empties node_modules first, so this file never remains after an interrupted installation.
  const stamp = join(root, 'node_modules', '.bq4-lock');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lockHash) return;
  await step('installing the npm packages of package-lock.json', () => npmCi(root));
  if (!existsSync(testNode(root))) {
    throw new SetupError(
      `expected the program ${testNode(root)} in npm's package "node", found none.\n` +
        'Its install script must be allowed to run: npm config delete ignore-scripts',
    );
  }
  writeFileSync(stamp, lockHash);
}

/** Runs npm: the one that started this process, otherwise that on PATH. @param {string[]} args @param {string} cwd */
async function npm(args, cwd) {
  const startedBy = process.env.npm_execpath;
  if (startedBy && /\bnpm\b/.test(startedBy)) return run(process.execPath, [startedBy, ...args], { cwd });
  const path = findOnPath(['npm']);
  if (!path) throw new SetupError('expected npm on PATH, found none: it is part of Node');
  return run(path, args, { cwd });
}

/**
 * Installs the packages of a folder's lock file.
 * @param {string} root @param {string} [command]  `install` also accepts a lock file with packages of this system only
 */
export const npmCi = (root, command = 'ci') => npm([command, '--no-audit', '--no-fund'], root);

/**
 * Downloads a package without installing it, and returns the path of its .tgz file. Throws SetupError if the registry is not
 * reachable or the file has a wrong hash.
 * @param {string} name  name@version
 * @param {string} sha512  expected hash, in base64
 * @param {string} folder  path of the folder for the file
 */
export async function npmPack(name, sha512, folder) {
  const file = (await npm(['pack', name, '--silent', '--fetch-retries=1'], folder)).trim();
  const actualHash = createHash('sha512')
    .update(readFileSync(join(folder, file)))
    .digest('base64');
  if (actualHash !== sha512) throw new SetupError(`${file}: expected the SHA-512 ${sha512}, found ${actualHash}`);
  return join(folder, file);
}

/**
 * Returns the path of the Node that runs the JavaScript tests: the same version on all machines, with relaxed SIMD.
 * @param {string} root
 */
export function testNode(root) {
  return join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
}
