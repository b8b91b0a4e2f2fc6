// Tests of the test runner: how jobs run, and the summary of a run.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { noteFlaky } from '../../tools/testing/flaky.mjs';
import { Durations, runJobs } from '../../tools/testing/jobs.mjs';
import { runProgram } from '../../tools/testing/program.mjs';
import { failuresIn, Report } from '../../tools/testing/report.mjs';
import { digestOf, Product } from '../../tools/digest.mjs';
import { Passed } from '../../tools/testing/unchanged.mjs';
import { until } from '../waiting.mjs';

const FAILING = `
import test from 'node:test';
test('a group', async (t) => {
  await t.test('of two', () => { throw new Error('one is\\nnot two'); });
  await t.test('passes', () => {});
});
test('throws', () => { throw new Error('that'); });
`;

test('failuresIn returns name, location and message of each failed test, without groups', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-report-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'failing.mjs');
  writeFileSync(file, FAILING);
  // With this variable, the process would report its tests to the process of this test.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = spawnSync(process.execPath, ['--test-reporter=tap', file], { encoding: 'utf8', env });
  assert.deepEqual(failuresIn(stdout), [
    'of two (failing.mjs:4:11)\none is\nnot two',
    "throws (failing.mjs:7:1)\n'that'",
  ]);
  assert.deepEqual(failuresIn('TAP version 13\n# tests 0\n'), []);
});

const SILENT = { counts: { passed: 1, failed: 0, skipped: 0 }, output: '' };
const FAILED = {
  counts: { passed: 0, failed: 1, skipped: 0 },
  output: '',
  failures: ['a (b.mjs:1)\nexpected 1, found 2'],
};

/** Runs jobs and returns the output. @param {import("../../tools/testing/jobs.mjs").Job[]} jobs @param {(name: string) => boolean} [noteFlaky] @param {() => boolean} [mayRetry] */
async function runQuietly(t, jobs, noteFlaky, mayRetry) {
  const lines = [];
  t.mock.method(console, 'log', (/** @type {unknown} */ line) => lines.push(String(line)));
  const folder = mkdtempSync(join(tmpdir(), 'bq4-jobs-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const report = new Report(noteFlaky);
  const durations = new Durations(join(folder, 'durations.json'));
  await runJobs(jobs, { slots: 2, durations, report, mayRetry });
  const status = report.finish(false);
  t.mock.restoreAll();
  return { status, text: lines.join('\n'), last: lines.at(-1)?.trim() };
}

test('a failed job runs again after all others; if it passes then, it is FLAKY', async (t) => {
  /** @type {string[]} */
  const order = [];
  const job = (/** @type {string} */ name, /** @type {any[]} */ results, more = {}) => ({
    suite: 's',
    name,
    ...more,
    run: async () => (order.push(name), results.shift()),
  });
  const jobs = [job('luck', [FAILED, SILENT]), job('good', [SILENT]), job('loud', [SILENT], { alone: true })];
  const { status, text, last } = await runQuietly(t, jobs);
  assert.deepEqual([order.slice(2), last, status], [['loud', 'luck'], '3 passed, 0 failed, 0 skipped', 0]);
  assert.match(text, /FLAKY luck: failed, and passed alone\n {4}a \(b\.mjs:1\)\n {6}expected 1, found 2/);

  order.length = 0;
  const retried = await runQuietly(t, [job('luck', [FAILED, SILENT])], () => true);
  assert.deepEqual([retried.last, retried.status], ['1 passed, 1 failed, 0 skipped', 1]);
  assert.match(retried.text, /luck: FLAKY for the second time within a week/);

  order.length = 0;
  const faults = [job('fault', [FAILED, FAILED]), job('steady', [FAILED], { steady: true })];
  const failed = await runQuietly(t, faults);
  assert.deepEqual([order.sort(), failed.status], [['fault', 'fault', 'steady'], 1]);
  assert.equal(failed.last, '0 passed, 2 failed, 0 skipped');

  order.length = 0;
  const late = await runQuietly(t, [job('late', [FAILED, SILENT])], undefined, () => false);
  assert.deepEqual([order, late.status, late.last], [['late'], 1, '0 passed, 1 failed, 0 skipped']);
  assert.match(late.text, /failed:\n {2}late\n {4}a \(b\.mjs:1\)/);

  const dear = await runQuietly(t, [job('dear', [{ ...SILENT, cpu: 11 }], { budget: 10 })]);
  assert.match(dear.text, /expected at most 10 s of CPU time, found 11 s/);
  assert.equal(dear.status, 1);
});

test('noteFlaky returns whether a test was flaky within the last week', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-flaky-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'notes', 'flaky.json');
  const day = 24 * 3600 * 1000;
  assert.equal(noteFlaky(file, 'a', day), false);
  assert.equal(noteFlaky(file, 'b', 2 * day), false);
  assert.equal(noteFlaky(file, 'a', 6 * day), true);
  assert.equal(noteFlaky(file, 'b', 10 * day), false, 'eight days later');
  writeFileSync(file, '{"half');
  assert.equal(noteFlaky(file, 'a', 11 * day), false, 'an incomplete file');
});

test('the digest of a part of the project changes with each of its files; Passed stores digests', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-unchanged-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'js', 'node_modules'), { recursive: true });
  writeFileSync(join(folder, 'js', 'a.js'), '1');
  const digest = () => digestOf(folder, ['js', 'missing']);
  const before = digest();
  writeFileSync(join(folder, 'js', 'node_modules', 'x.js'), '1');
  assert.equal(digest(), before);
  const passed = new Passed(join(folder, 'passed.json'));
  assert.equal(passed.has('t', before), false);
  passed.add('t', before);
  assert.equal(new Passed(join(folder, 'passed.json')).has('t', before), true);
  for (const change of [
    () => writeFileSync(join(folder, 'js', 'a.js'), '2'),
    () => writeFileSync(join(folder, 'js', 'b.js'), '2'),
    () => rmSync(join(folder, 'js', 'b.js')),
    () => writeFileSync(join(folder, 'missing'), ''),
  ]) {
    const last = digest();
    change();
    assert.notEqual(digest(), last);
  }
});

test('a product is not current after a change of its sources or of its folder', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'bq4-digest-'));
  t.after(() => rmSync(root, { recursive: true }));
  for (const folder of ['src', 'out/build']) mkdirSync(join(root, folder), { recursive: true });
  const [source, inside] = [join(root, 'src', 'a'), join(root, 'out', 'build', 'a')];
  for (const file of [source, inside]) writeFileSync(file, '1');
  const product = () => new Product(root, { folder: 'out', sources: ['src'] });
  assert.equal(product().isCurrent(), false, 'it was never generated');
  product().recordDigest();
  for (const change of [() => writeFileSync(source, '2'), () => writeFileSync(inside, '2'), () => rmSync(inside)]) {
    change();
    assert.equal(product().isCurrent(), false);
    product().recordDigest();
    assert.equal(product().isCurrent(), true);
  }
});

test('runProgram ends all child processes and returns the CPU time of all of them', async () => {
  const outcome = await runProgram(['sh', '-c', 'sleep 60 & echo $!; exit 3'], {
    cwd: '/',
    env: process.env,
    seconds: 30,
  });
  assert.equal(outcome.status, 3);
  const pid = Number(outcome.output);
  await until('the child to end', () => {
    try {
      // A process that has ended and was not waited for is a zombie.
      return /\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    } catch {
      return true;
    }
  });
  const busy = await runProgram([process.execPath, '-e', 'let x = 0; for (let i = 0; i < 3e8; i++) x += i'], {
    cwd: '/',
    env: process.env,
    seconds: 60,
  });
  assert.equal(busy.status, 0);
  assert.ok(busy.cpu > 0, `${busy.cpu} s`);
});
