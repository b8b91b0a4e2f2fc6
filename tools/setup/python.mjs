// Python environments with the packages of a requirements file, shared by all clones.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot, withLock, writeWhole } from './cache.mjs';
import { probe, run, step } from './shell.mjs';

/**
 * @param {string} root of the checkout
 * @param {string} python
 * @param {string} [list] the requirements file, from the root; default: the tests'
 * @returns {Promise<string>} the environment's own python
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
    // A venv can't be moved, so it is made in place and marked when it is whole.
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
    writeWhole(join(folder, 'ready'), readdirSync(folder).join('\n'));
  });
  return program;
}
