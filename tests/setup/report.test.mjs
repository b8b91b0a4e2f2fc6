// What a run of the tests says at its end.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { failuresIn } from '../../tools/testing/report.mjs';

const FAILING = `
import test from 'node:test';
test('a group', async (t) => {
  await t.test('of two', () => { throw new Error('one is\\nnot two'); });
  await t.test('passes', () => {});
});
test('throws', () => { throw new Error('that'); });
`;

test('failed tests are named at the end, with place and message, groups left out', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-report-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'failing.mjs');
  writeFileSync(file, FAILING);
  // Without what tells this process that it is a test's, as whose child it would report to it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = spawnSync(process.execPath, ['--test-reporter=tap', file], { encoding: 'utf8', env });
  assert.deepEqual(failuresIn(stdout), [
    'of two (failing.mjs:4:11)\none is\nnot two',
    "throws (failing.mjs:7:1)\n'that'",
  ]);
  assert.deepEqual(failuresIn('TAP version 13\n# tests 0\n'), []);
});
