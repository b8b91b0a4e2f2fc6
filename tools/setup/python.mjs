// A Python environment with the packages of tools/requirements-test.txt, shared by all clones.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot, withLock, writeWhole } from './cache.mjs';
import { probe, run, step } from './shell.mjs';

/**
 * @param {string} root of the checkout
 * @param {string} python
 * @returns {Promise<string>} the environment's own python
 */
export async function providePython(root, python) {
  const requirements = join(root, 'tools', 'requirements-test.txt');
  const key = createHash('sha256').update(readFileSync(requirements)).update(python)
    .update(probe(python, ['--version']) ?? '').digest('hex').slice(0, 12);
  const folder = join(cacheRoot(), 'python', key);
  const program = join(folder, 'bin', 'python');
  const ready = () => existsSync(join(folder, 'ready')) && existsSync(program);
  if (ready()) return program;
  await withLock('python', async () => {
    if (ready()) return;
    // A venv can't be moved, so it is made in place and marked when it is whole.
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    await step("installing the tests' Python packages", async () => {
      await run(python, ['-m', 'venv', folder]);
      await run(program, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--only-binary', ':all:', '-r', requirements]);
    });
    writeWhole(join(folder, 'ready'), readdirSync(folder).join('\n'));
  });
  return program;
}
