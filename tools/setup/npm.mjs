// The packages of package-lock.json in node_modules, installed when they are missing or other ones.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findOnPath, run, SetupError, step } from './shell.mjs';

/** @param {string} root of the checkout */
export async function provideNodeModules(root) {
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  // `npm ci` empties node_modules first, so a stamp in there can't outlive an interrupted install.
  const stamp = join(root, 'node_modules', '.bq4-lock');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  await step('installing the npm packages of package-lock.json', () => npmCi(root));
  if (!existsSync(testNode(root))) {
    throw new SetupError(
      `npm installed its "node" package without the program ${testNode(root)}.\n` +
        'Its install script must be allowed to run: npm config delete ignore-scripts',
    );
  }
  writeFileSync(stamp, lock);
}

/** @param {string[]} args @param {string} cwd */
async function npm(args, cwd) {
  const own = process.env.npm_execpath;
  if (own && /\bnpm\b/.test(own)) return run(process.execPath, [own, ...args], { cwd });
  const path = findOnPath(['npm']);
  if (!path) throw new SetupError('npm is not on PATH (it comes with Node)');
  return run(path, args, { cwd });
}

/** @param {string} root @param {string} [command]  `install`: takes a lock file that names packages of this system only */
export const npmCi = (root, command = 'ci') => npm([command, '--no-audit', '--no-fund'], root);

/**
 * A package as it is packed, nothing of it installed: the path of its .tgz. SetupError: without the registry, or when it gives other bytes.
 * @param {string} name  with its version
 * @param {string} sha512  in base64
 * @param {string} folder  where to put it
 */
export async function npmPack(name, sha512, folder) {
  const file = (await npm(['pack', name, '--silent', '--fetch-retries=1'], folder)).trim();
  const found = createHash('sha512')
    .update(readFileSync(join(folder, file)))
    .digest('base64');
  if (found !== sha512) throw new SetupError(`${file} has another content than expected: sha512 ${found}`);
  return join(folder, file);
}

/**
 * The Node that runs the JavaScript tests: one version for everybody, with relaxed SIMD.
 * @param {string} root
 */
export function testNode(root) {
  return join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
}
