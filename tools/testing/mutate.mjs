#!/usr/bin/env node
// Mutation testing: counts the deliberate faults that the tests catch. Each mutation of tests/mutations/list.mjs is applied,
// alone, to a copy of the repository. The tests listed with it run there until one fails. A failure counts only if the same
// test passes without the mutation.
//
//     node tools/testing/mutate.mjs                 runs all mutations (one to two hours)
//     node tools/testing/mutate.mjs log-sum fork    runs mutations whose id starts with one of these
//     node tools/testing/mutate.mjs --survivors     runs mutations that no test has caught so far
//     node tools/testing/mutate.mjs --check         only checks that the list matches the source files
//     node tools/testing/mutate.mjs --table         only rewrites the table in docs/RELIABILITY.md
//
// Results are in build/reports/mutations.json; results of mutations that are not run again stay there. The environment
// variable `BQ4_MUTANTS` is a folder for the copy, which is then kept, so that later runs compile only changed files.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { FILES, MUTATIONS } from '../../tests/mutations/list.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { SetupError } from '../setup/shell.mjs';
import { runProgram } from './program.mjs';
import { machine, replaceTable, tableOf } from './figures.mjs';

/** @typedef {import('../../tests/mutations/list.mjs').Mutation} Mutation */
/** @typedef {'caught' | 'survived' | 'invalid'} Verdict  `invalid`: it does not compile */
/** @typedef {{ id: string, room: string, breaks: string, digest: string, verdict: Verdict, by: string, seconds: number, date: string, machine: string }} Outcome */

const REPORT = join(ROOT, 'build', 'reports', 'mutations.json');
const DOCUMENT = join(ROOT, 'docs', 'RELIABILITY.md');
/** Time limits for a test program and for its build. A test that exceeds its limit has failed. */
const [PROGRAM_TIMEOUT_SECONDS, BUILD_TIMEOUT_SECONDS] = [300, 900];
/** Time limit for a single test of a test file. */
const TEST_TIMEOUT_SECONDS = 90;
/** Paths that are not copied. The rest of `build` is copied, since it contains compiled files. */
const EXCLUDED_PATHS = ['.git', 'node_modules', join('build', 'reports')];

/** Whether the mutated file must be compiled: it is C, not JavaScript. @param {Mutation} mutation */
const isCompiled = ({ file }) => !FILES[file].startsWith('js/');

/** @param {Mutation} mutation */
const roomOf = ({ file }) =>
  FILES[file]
    .split('/')
    .slice(0, FILES[file].startsWith('web/') ? 1 : 2)
    .join('/');

/** Returns a key of a mutation's content; a recorded result is valid while it is unchanged. @param {Mutation} mutation */
const digestOf = ({ file, from, to }) => JSON.stringify([FILES[file], from, to]);

/**
 * Returns a file's text with one mutation applied. Throws SetupError if `from` doesn't occur exactly once.
 * @param {Mutation} mutation @param {string} text
 */
function applyMutation({ id, file, from, to }, text) {
  const occurrences = text.split(from).length - 1;
  if (occurrences !== 1)
    throw new SetupError(
      `mutation ${id}: expected its text once in ${FILES[file]}, found it ${occurrences} times: ${JSON.stringify(from)}`,
    );
  return text.replace(from, () => to);
}

/** Returns the path of a test's source file. @param {string} test  `c:name`, `js:name` or a path */
const pathOf = (test) =>
  test.startsWith('c:')
    ? `tests/c/${test.slice(2)}.c`
    : test.startsWith('js:')
      ? `tests/js/${test.slice(3)}.test.mjs`
      : test;

/** Returns messages for all faults in the list of mutations. @returns {string[]} */
function findListFaults() {
  const faults = [];
  const ids = new Set();
  for (const mutation of MUTATIONS) {
    try {
      applyMutation(mutation, readFileSync(join(ROOT, FILES[mutation.file]), 'utf8'));
    } catch (error) {
      faults.push(/** @type {Error} */ (error).message);
    }
    for (const test of mutation.tests)
      if (!existsSync(join(ROOT, pathOf(test))))
        faults.push(`mutation ${mutation.id}: expected a test file ${pathOf(test)}, found none`);
    if (ids.has(mutation.id)) faults.push(`mutation ${mutation.id}: expected it once in the list, found it twice`);
    ids.add(mutation.id);
  }
  return faults;
}

/** A copy of the repository in which mutations are applied. */
class Copy {
  /** Id of the mutation with which the modules were last compiled; '' for none, null if unknown. @type {string | null} */
  #compiledMutation = null;
  /** Id of the mutation in effect; '' for none. */
  #currentMutation = '';
  /** Whether the data files of the C tests have been generated. */
  #hasTestData = false;
  /** Whether each test passes without a mutation, by test. @type {Map<string, boolean>} */
  #passesUnchanged = new Map();

  /** @param {import('../setup/setup.mjs').Tools} tools */
  constructor(tools) {
    this.tools = tools;
    const keptFolder = process.env.BQ4_MUTANTS;
    this.root = keptFolder ?? mkdtempSync(join(tmpdir(), 'bq4-mutants-'));
    if (!keptFolder) process.on('exit', () => rmSync(this.root, { recursive: true, force: true }));
    // A run that was killed may have left a mutation in the kept copy, and files compiled from it.
    const isChanged = (/** @type {string} */ path) =>
      existsSync(join(this.root, path)) && !readFileSync(join(this.root, path)).equals(readFileSync(join(ROOT, path)));
    const changedPaths = Object.values(FILES).filter(isChanged);
    cpSync(ROOT, this.root, {
      recursive: true,
      preserveTimestamps: true,
      // The compiled files of a kept copy are newer than those of this checkout.
      filter: (path) => {
        const name = relative(ROOT, path);
        return !EXCLUDED_PATHS.includes(name) && !(name === 'build' && keptFolder && existsSync(join(this.root, name)));
      },
    });
    const now = new Date();
    for (const path of changedPaths) utimesSync(join(this.root, path), now, now);
    // The copied modules were compiled from unchanged sources.
    if (!changedPaths.length && existsSync(join(this.root, 'build', 'wasm'))) this.#compiledMutation = '';
    if (!existsSync(join(this.root, 'node_modules')))
      symlinkSync(join(ROOT, 'node_modules'), join(this.root, 'node_modules'));
  }

  /** Undoes the mutation in effect and applies another. @param {Mutation | null} mutation  null for none */
  setMutation(mutation) {
    const previous = MUTATIONS.find(({ id }) => id === this.#currentMutation);
    if (previous) writeFileSync(join(this.root, FILES[previous.file]), readFileSync(join(ROOT, FILES[previous.file])));
    this.#currentMutation = mutation?.id ?? '';
    if (!mutation) return;
    const path = FILES[mutation.file];
    writeFileSync(join(this.root, path), applyMutation(mutation, readFileSync(join(ROOT, path), 'utf8')));
  }

  /** @param {readonly string[]} line @param {number} seconds */
  #run(line, seconds) {
    const env = { ...this.tools.env, CHROME_PATH: this.tools.chromium, BQ4_PYTHON: this.tools.testPython };
    return runProgram(line, { cwd: this.root, env, seconds });
  }

  /** Compiles the files that a test needs. @param {string} test @returns {Promise<boolean>}  whether it succeeded */
  async #build(test) {
    const isC = test.startsWith('c:');
    if (isC && !this.#hasTestData) {
      this.#hasTestData = true;
      for (const script of ['make_tokn', 'make_golden'])
        await this.#run([/** @type {string} */ (this.tools.node), `tests/tools/${script}.mjs`], BUILD_TIMEOUT_SECONDS);
    }
    const mutation = MUTATIONS.find(({ id }) => id === this.#currentMutation);
    const requiredMutation = mutation && isCompiled(mutation) ? mutation.id : '';
    if (!isC && this.#compiledMutation === requiredMutation) return true;
    const targets = isC ? [`build/test-gcc/${test.slice(2)}`] : ['wasm'];
    const line = [this.tools.make, '-f', 'emscripten.mk', '-s', '-j2', ...targets];
    const { status, output } = await this.#run(line, BUILD_TIMEOUT_SECONDS);
    if (status !== 0) console.log(output.trimEnd());
    if (!isC) this.#compiledMutation = status === 0 ? requiredMutation : null;
    return status === 0;
  }

  /** @param {string} test @returns {Promise<'passed' | 'failed' | 'not built'>} */
  async test(test) {
    if (!(await this.#build(test))) return 'not built';
    const node = /** @type {string} */ (this.tools.node);
    const line = test.startsWith('c:')
      ? [`build/test-gcc/${test.slice(2)}`]
      : [node, `--test-timeout=${1000 * TEST_TIMEOUT_SECONDS}`, '--test-force-exit', '--test', pathOf(test)];
    return (await this.#run(line, PROGRAM_TIMEOUT_SECONDS)).status === 0 ? 'passed' : 'failed';
  }

  /** Whether a test passes without any mutation. @param {string} test */
  async passes(test) {
    const knownResult = this.#passesUnchanged.get(test);
    if (knownResult !== undefined) return knownResult;
    const current = MUTATIONS.find(({ id }) => id === this.#currentMutation);
    this.setMutation(null);
    const isPassed = (await this.test(test)) === 'passed';
    if (!isPassed) console.log(`  ${test} fails without a mutation: it does not count`);
    this.#passesUnchanged.set(test, isPassed);
    this.setMutation(current ?? null);
    return isPassed;
  }
}

/** Runs the tests of a mutation until one fails. @param {Copy} copy @param {Mutation} mutation @returns {Promise<{ verdict: Verdict, by: string }>} */
async function tryMutation(copy, mutation) {
  copy.setMutation(mutation);
  try {
    for (const test of mutation.tests) {
      const outcome = await copy.test(test);
      if (outcome === 'not built') return { verdict: 'invalid', by: '' };
      if (outcome === 'failed' && (await copy.passes(test))) return { verdict: 'caught', by: pathOf(test) };
    }
    return { verdict: 'survived', by: '' };
  } finally {
    copy.setMutation(null);
  }
}

/** Reads the recorded results of mutations that have not changed since. @returns {Outcome[]} */
function readResults() {
  if (!existsSync(REPORT)) return [];
  const current = new Set(MUTATIONS.map(digestOf));
  return JSON.parse(readFileSync(REPORT, 'utf8')).filter((/** @type {Outcome} */ { digest }) => current.has(digest));
}

/** Writes the table of docs/RELIABILITY.md. @param {Outcome[]} results */
function writeTable(results) {
  const rooms = [...new Set(MUTATIONS.map(roomOf))];
  const withVerdict = (/** @type {Outcome[]} */ outcomes, /** @type {Verdict} */ verdict) =>
    outcomes.filter((outcome) => outcome.verdict === verdict);
  const rowOf = (/** @type {string} */ name, /** @type {Outcome[]} */ outcomes) => [
    name,
    outcomes.length,
    withVerdict(outcomes, 'caught').length,
    withVerdict(outcomes, 'survived')
      .map(({ breaks }) => breaks)
      .join('; '),
  ];
  const rows = rooms.map((room) =>
    rowOf(
      `\`${room}/\``,
      results.filter((outcome) => outcome.room === room),
    ),
  );
  const totals = rowOf('together', results).with(3, '');
  const dates = results.map(({ date }) => date).sort();
  const note = `Run ${dates[0]?.slice(0, 10) ?? 'never'}, on ${[...new Set(results.map((outcome) => outcome.machine))].join('; ')}.`;
  const table = tableOf(['where', 'mutations', 'caught', 'not caught'], [...rows, totals]);
  replaceTable(DOCUMENT, 'mutations', `${table}\n\n${note}`);
}

await command(async () => {
  const args = process.argv.slice(2);
  const faults = findListFaults();
  if (faults.length) throw new SetupError(faults.join('\n'));
  if (args.includes('--check')) return console.log(`${MUTATIONS.length} mutations match the source files`);
  if (args.includes('--table')) return writeTable(readResults());
  const caughtIds = new Set(readResults().flatMap(({ id, verdict }) => (verdict === 'caught' ? [id] : [])));
  const ids = args.filter((arg) => !arg.startsWith('--'));
  const selectedMutations = MUTATIONS.filter(
    ({ id }) =>
      (!ids.length || ids.some((prefix) => id.startsWith(prefix))) &&
      (!args.includes('--survivors') || !caughtIds.has(id)),
  );
  // Mutations of JavaScript run first, then those with C tests, last those that need new modules.
  const effortOf = (/** @type {Mutation} */ mutation) =>
    isCompiled(mutation) ? (mutation.tests[0].startsWith('c:') ? 1 : 2) : 0;
  selectedMutations.sort((a, b) => effortOf(a) - effortOf(b));
  const copy = new Copy(await setUp({ tests: true }));
  for (const [i, mutation] of selectedMutations.entries()) {
    const startTime = Date.now();
    const { verdict, by } = await tryMutation(copy, mutation);
    const seconds = Math.round((Date.now() - startTime) / 1000);
    const { id, breaks } = mutation;
    console.log(`${i + 1}/${selectedMutations.length}  ${verdict.padEnd(8)}  ${id}  ${by}  ${seconds} s`);
    /** @type {Outcome} */
    const outcome = {
      id,
      room: roomOf(mutation),
      breaks,
      digest: digestOf(mutation),
      verdict,
      by,
      seconds,
      date: new Date().toISOString(),
      machine: machine(),
    };
    mkdirSync(dirname(REPORT), { recursive: true });
    const results = [...readResults().filter((result) => result.id !== id), outcome];
    writeFileSync(REPORT, `${JSON.stringify(results, null, 1)}\n`);
  }
  const results = readResults();
  const caught = results.filter(({ verdict }) => verdict === 'caught').length;
  console.log(`${caught} of ${results.length} caught, ${MUTATIONS.length - results.length} not run`);
  writeTable(results);
});
