// The store in Node: a directory, and memory. In browsers: tests/browser/store.test.mjs.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openStore } from '../../js/store/index.js';
import { record, replay } from '../../js/store/layout.js';
import { cases, run } from './store-suite.mjs';

const path = mkdtempSync(join(tmpdir(), 'bq4-store-'));
after(() => rmSync(path, { recursive: true }));

for (const options of [{ backend: 'memory' }, { backend: 'file', path }]) {
  for (const name of Object.keys(cases)) test(`${options.backend}: ${name}`, () => run(name, options));
}

test('nothing is left behind', () => {
  for (const name of readdirSync(path)) assert.deepEqual(readdirSync(join(path, name)), [], name);
});
