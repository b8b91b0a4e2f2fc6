// What is installed for building and testing may be used and, where it is bundled, shipped.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** @param {string} path */
const json = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'));

/** Permissive, or (MPL-2.0, CC-BY-4.0) of packages that only tests and builds run and nothing of which is shipped. */
const ALLOWED = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0', 'ISC', 'MIT'];
const TOOLS_ONLY = ['MPL-2.0', 'CC-BY-4.0'];

test('every installed package has an accepted licence', () => {
  /** @type {string[]} */
  const wrong = [];
  let found = 0;
  for (const [path, { license: listed }] of Object.entries(json('package-lock.json').packages)) {
    if (!path) continue;
    const file = join(path, 'package.json');
    // Packages of other systems are listed, and not installed.
    const licence = existsSync(join(root, file)) ? json(file).license : listed;
    const names = String(licence).replace(/[()]/g, '').split(' OR ');
    if (!names.some((name) => [...ALLOWED, ...TOOLS_ONLY].includes(name))) wrong.push(`${path}: ${licence}`);
    found++;
  }
  assert.ok(found > 100, `${found} packages`);
  assert.deepEqual(wrong, []);
});

test('the package has no dependencies and names its licence', () => {
  const { dependencies = {}, license } = json('package.json');
  assert.deepEqual(dependencies, {});
  assert.equal(license, 'MIT');
  assert.match(readFileSync(join(root, 'LICENSE'), 'utf8'), /^MIT License/);
});
