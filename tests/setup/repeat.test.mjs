// Tests of repeated test runs: parsing of a run's output, stored results, and the table.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { readRun, table } from '../../tools/testing/repeat.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';

const OUTPUT = `ok     tests/js/a.test.mjs: 3 passed, 0 failed, 0 skipped, 1.0 s
FAILED tests/js/b.test.mjs, will run again, alone

failed:
  tests/js/c.test.mjs: ended with 1
    it holds (c.test.mjs:3)
      2 !== 3
  wasm: did not build

not run: npm test -- peers (runs only if it is named)

FLAKY tests/js/b.test.mjs: failed, and passed alone
    a wait (b.test.mjs:9)

41 passed, 2 failed, 1 skipped
`;

test('readRun returns counts, failed jobs and FLAKY jobs', () => {
  assert.deepEqual(readRun(OUTPUT, 1), {
    passed: 41,
    failed: 2,
    failures: ['tests/js/c.test.mjs: ended with 1', 'wasm: did not build'],
    flaky: ['tests/js/b.test.mjs'],
  });
  assert.deepEqual(readRun('7 passed, 0 failed, 0 skipped\n', 0), { passed: 7, failed: 0, failures: [], flaky: [] });
});

test('readRun counts a run without its last line as failed', () => {
  const killed = readRun('ok     tests/js/a.test.mjs: 3 passed, 0 failed, 0 skipped, 1.0 s\n', 'a kill after 9 s');
  assert.deepEqual(killed, { passed: 0, failed: 1, failures: ['ended with a kill after 9 s'], flaky: [] });
});

test('repeat.mjs adds runs with and without load to the results and writes a table to the document', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-repeat-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [figures, document, count] = ['runs.json', 'document.md', 'count'].map((name) => join(folder, name));
  writeFileSync(document, 'before\n<!-- test-runs -->\nold\n<!-- /test-runs -->\nbehind\n');
  // The third run has a FLAKY test.
  const fake = join(folder, 'fake.mjs');
  writeFileSync(
    fake,
    `import { existsSync, readFileSync, writeFileSync } from 'node:fs';
    const n = existsSync(${JSON.stringify(count)}) ? Number(readFileSync(${JSON.stringify(count)}, 'utf8')) : 0;
    writeFileSync(${JSON.stringify(count)}, String(n + 1));
    if (n === 2) console.log('FLAKY one: failed, and passed alone');
    console.log('\\n5 passed, 0 failed, 0 skipped');`,
  );
  const repeat = (/** @type {string[]} */ ...args) =>
    spawnSync(
      process.execPath,
      [
        join(ROOT, 'tools/testing/repeat.mjs'),
        ...args,
        '--figures',
        figures,
        '--document',
        document,
        '--',
        process.execPath,
        fake,
      ],
      { encoding: 'utf8' },
    );
  const first = repeat('2');
  assert.equal(first.status, 0, first.stderr);
  assert.equal(repeat('1', '--load').status, 1, 'a FLAKY test counts as a fault');
  const runs = JSON.parse(readFileSync(figures, 'utf8'));
  assert.deepEqual(
    runs.map(({ load, passed, failed, flaky }) => ({ load, passed, failed, flaky })),
    [false, false, true].map((load) => ({ load, passed: 5, failed: 0, flaky: load ? ['one'] : [] })),
  );
  for (const run of runs) {
    assert.match(run.date, /^\d{4}-\d\d-\d\dT/);
    assert.match(run.machine, /^\d+ × /);
    assert.ok(run.seconds >= 0 && run.cpu >= 0);
  }
  const text = readFileSync(document, 'utf8');
  assert.ok(text.startsWith('before\n') && text.endsWith('behind\n') && !text.includes('old'));
  assert.ok(text.includes(table(runs)));
  assert.equal(table(runs).split('\n').length, 4, 'a row for each machine, idle and busy');
});
