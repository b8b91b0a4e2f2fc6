// Tests of tests/mutations/list.mjs: the text of each fault occurs once in its file, and the listed tests exist.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { FILES, MUTATIONS } from '../mutations/list.mjs';

const root = new URL('../../', import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(new URL(path, root), 'utf8');

test('the text of each mutation occurs once in its file', () => {
  const wrong = MUTATIONS.filter(({ file, from }) => read(FILES[file]).split(from).length !== 2);
  assert.deepEqual(
    wrong.map(({ id, file }) => `${id}: ${FILES[file]}`),
    [],
  );
});

test('the tests of each mutation exist', () => {
  const pathOf = (/** @type {string} */ name) =>
    name.startsWith('c:')
      ? `tests/c/${name.slice(2)}.c`
      : name.startsWith('js:')
        ? `tests/js/${name.slice(3)}.test.mjs`
        : name;
  const paths = MUTATIONS.flatMap(({ tests }) => tests.map(pathOf));
  assert.deepEqual(
    paths.filter((path) => !existsSync(new URL(path, root))),
    [],
  );
});
