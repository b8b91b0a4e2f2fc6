// Python virtual environments with the packages of a requirements file, in the cache folder.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot, withLock, writeAtomically } from './cache.mjs';
import { probe, run, step } from './shell.mjs';

/**
 * Returns a virtual environment with the packages of a requirements file. Creates it if necessary.
 * @param {string} root path of the checkout
 * @param {string} python path of the Python to create it with
 * @param {string} [list] path of the requirements file, relative to the root; default: that of the tests
 * @returns {Promise<string>} path of the environment's Python
 */
export async function providePython(root, python, list = 'tools/requirements-test.txt') {
  const requirements = join(root, list);
  const key = createHash('sha256')
    .update(readFileSync(requirements))
    .update(python)
    .update(probe(python, ['--version']) ?? '')
    .digest('hex')
    .slice(0, 12);
  const folder = join(cacheRoot(), 'python', key);
  const program = join(folder, 'bin', 'python');
  const ready = () => existsSync(join(folder, 'ready')) && existsSync(program);
  if (ready()) return program;
  await withLock('python', async () => {
    if (ready()) return;
    // A virtual environment can't be moved, so it is created in its final folder. The file `ready` marks it as complete.
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    await step(`installing the Python packages of ${list}`, async () => {
      await run(python, ['-m', 'venv', folder]);
      await run(program, [
        '-m',
        'pip',
        'install',
        '--quiet',
        '--disable-pip-version-check',
        '--only-binary',
        ':all:',
        '-r',
        requirements,
      ]);
    });
    writeAtomically(join(folder, 'ready'), readdirSync(folder).join('\n'));
  });
  return program;
}
