#!/usr/bin/env node
// Runs all of `npm test` several times and records the results, in order to find tests that fail only sometimes.
//
//     npm run test:repeat -- 10            ten runs
//     npm run test:repeat -- 10 --load     ten runs, each with three other programs that keep a core busy
//     npm run test:repeat -- --table       only rewrites the table in docs/RELIABILITY.md
//
// Each run is added to docs/figures/test-runs.json. Arguments after another `--` are a command to run instead of `npm test`.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machine, replaceTable, tableOf } from './figures.mjs';
import { runProgram } from './program.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Number of programs that keep a core busy during a run with `--load`. */
const BUSY_PROGRAMS = 3;
/** Time limit of a run, in hours. */
const TIME_LIMIT_HOURS = 3;

/**
 * Result of one run.
 * @typedef {object} Run
 * @property {string} date      time of its start, ISO 8601
 * @property {string} machine
 * @property {boolean} load     whether other programs kept cores busy
 * @property {number} seconds
 * @property {number} cpu       CPU seconds of all cores
 * @property {number} passed
 * @property {number} failed    number of failed tests; 1 if the run ended without its last line
 * @property {string[]} failures  names of failed jobs
 * @property {string[]} flaky     names of jobs that failed, and passed when they ran again alone
 */

/** Reads the results of a run from its output. @param {string} output @param {number | string} status */
export function readRun(output, status) {
  const [, passed = 0, failed = 0] = (/^(\d+) passed, (\d+) failed, \d+ skipped\s*$/m.exec(lastLine(output)) ?? []).map(
    Number,
  );
  const flaky = [...output.matchAll(/^FLAKY (.*): failed, and passed alone$/gm)].map(([, name]) => name);
  const failures = [...(/^failed:\n((?: {2}.*\n)*)/m.exec(output)?.[1] ?? '').matchAll(/^ {2}(\S.*)$/gm)].map(
    ([, name]) => name,
  );
  const isCrash = status !== 0 && !failed;
  return {
    passed,
    failed: failed + Number(isCrash),
    failures: isCrash ? [...failures, `ended with ${status}`] : failures,
    flaky,
  };
}

/** Returns the last line. @param {string} output */
const lastLine = (output) => output.trimEnd().split('\n').at(-1) ?? '';

/** Starts programs that keep a core busy each. @param {number} count @returns {() => void}  stops them */
function startBusyPrograms(count) {
  const programs = Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  );
  const end = () => programs.forEach((program) => program.kill('SIGKILL'));
  process.once('exit', end);
  return () => {
    process.off('exit', end);
    end();
  };
}

/** Returns the median; the upper one of two. @param {number[]} values */
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/** Formats a duration in minutes. @param {number} seconds */
const formatMinutes = (seconds) => (seconds / 60).toFixed(1);

/** Returns a table with a row for each machine, separately for runs with and without load. @param {Run[]} runs */
export function table(runs) {
  /** Runs by machine and load. @type {Map<string, Run[]>} */
  const groups = new Map();
  for (const run of runs) {
    const title = `${run.machine}${run.load ? `, with ${BUSY_PROGRAMS} busy programs` : ''}`;
    groups.set(title, [...(groups.get(title) ?? []), run]);
  }
  const rows = [...groups].map(([title, groupRuns]) => {
    const seconds = groupRuns.map((run) => run.seconds);
    const names = [...new Set(groupRuns.flatMap(({ flaky, failures }) => [...flaky, ...failures]))];
    return [
      title,
      groupRuns.length,
      groupRuns.filter(({ failed }) => failed).length,
      groupRuns.filter(({ flaky }) => flaky.length).length,
      `${formatMinutes(Math.min(...seconds))}, ${formatMinutes(median(seconds))}, ${formatMinutes(Math.max(...seconds))}`,
      formatMinutes(median(groupRuns.map(({ cpu }) => cpu))),
      names.map((name) => `\`${name}\``).join(', '),
    ];
  });
  return tableOf(
    [
      'machine',
      'runs',
      'with a failure',
      'with a FLAKY test',
      'minutes: least, median, most',
      'minutes of CPU',
      'failed jobs',
    ],
    rows,
  );
}

/** Runs the tests once. @param {string[]} line  command @param {boolean} load @returns {Promise<Run>} */
async function runOnce(line, load) {
  const date = new Date().toISOString();
  const stopBusyPrograms = startBusyPrograms(load ? BUSY_PROGRAMS : 0);
  const { status, output, wall, cpu } = await runProgram(line, {
    cwd: ROOT,
    env: process.env,
    seconds: TIME_LIMIT_HOURS * 3600,
    show: true,
  }).finally(stopBusyPrograms);
  return {
    date,
    machine: machine(),
    load,
    seconds: Math.round(wall),
    cpu: Math.round(cpu),
    ...readRun(output, status),
  };
}

async function main() {
  const args = process.argv.slice(2);
  const separator = args.indexOf('--');
  const line =
    separator < 0 ? [process.execPath, join(ROOT, 'tools', 'test.mjs'), '--every'] : args.slice(separator + 1);
  const { values, positionals } = parseArgs({
    args: separator < 0 ? args : args.slice(0, separator),
    allowPositionals: true,
    options: {
      load: { type: 'boolean', default: false },
      table: { type: 'boolean', default: false },
      figures: { type: 'string', default: join(ROOT, 'docs', 'figures', 'test-runs.json') },
      document: { type: 'string', default: join(ROOT, 'docs', 'RELIABILITY.md') },
    },
  });
  const figures = resolve(values.figures);
  const readRuns = () => /** @type {Run[]} */ (existsSync(figures) ? JSON.parse(readFileSync(figures, 'utf8')) : []);
  const count = values.table ? 0 : Number(positionals[0] ?? 1);
  if (!Number.isInteger(count) || count < 0) throw new Error(`expected a number of runs, found "${positionals[0]}"`);
  let faultyRuns = 0;
  for (let i = 0; i < count; i++) {
    const run = await runOnce(line, values.load);
    faultyRuns += Number(run.failed > 0 || run.flaky.length > 0);
    // The file is written after each run, since the next one may be interrupted, and read again, since another series may write to it too.
    mkdirSync(dirname(figures), { recursive: true });
    writeFileSync(figures, `[\n${[...readRuns(), run].map((entry) => JSON.stringify(entry)).join(',\n')}\n]\n`);
    const result = `${run.passed} passed, ${run.failed} failed, ${run.flaky.length} FLAKY`;
    console.log(`\nrun ${i + 1} of ${count}: ${result}, ${run.seconds} s, ${run.cpu} s of CPU`);
  }
  replaceTable(values.document, 'test-runs', table(readRuns()));
  process.exitCode = faultyRuns ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
