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

/** @param {string} root @param {string} [command]  `install`: takes a lock file that names packages of this system only */
export async function npmCi(root, command = 'ci') {
  const args = [command, '--no-audit', '--no-fund'];
  const npm = process.env.npm_execpath;
  if (npm && /\bnpm\b/.test(npm)) return run(process.execPath, [npm, ...args], { cwd: root });
  const path = findOnPath(['npm']);
  if (!path) throw new SetupError('npm is not on PATH (it comes with Node)');
  return run(path, args, { cwd: root });
}

/**
 * The Node that runs the JavaScript tests: one version for everybody, with relaxed SIMD.
 * @param {string} root
 */
export function testNode(root) {
  return join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
}
