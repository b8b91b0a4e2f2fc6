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
/** Time limits in seconds for a test program and for its build. A test that exceeds its limit has failed. */
const [TEST, BUILD] = [300, 900];
/** Time limit in seconds for a single test of a test file. */
const ONE_TEST = 90;
/** Paths that are not copied. The rest of `build` is copied, since it contains compiled files. */
const LEFT_OUT = ['.git', 'node_modules', join('build', 'reports')];

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
function mutated({ id, file, from, to }, text) {
  const found = text.split(from).length - 1;
  if (found !== 1)
    throw new SetupError(
      `mutation ${id}: ${FILES[file]} has its text ${found} times, not once: ${JSON.stringify(from)}`,
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
function problems() {
  const wrong = [];
  const ids = new Set();
  for (const mutation of MUTATIONS) {
    try {
      mutated(mutation, readFileSync(join(ROOT, FILES[mutation.file]), 'utf8'));
    } catch (error) {
      wrong.push(/** @type {Error} */ (error).message);
    }
    for (const test of mutation.tests)
      if (!existsSync(join(ROOT, pathOf(test)))) wrong.push(`mutation ${mutation.id}: there is no ${pathOf(test)}`);
    if (ids.has(mutation.id)) wrong.push(`mutation ${mutation.id} is listed twice`);
    ids.add(mutation.id);
  }
  return wrong;
}

/** A copy of the repository in which mutations are applied. */
class Copy {
  /** Id of the mutation with which the modules were last compiled; '' for none, null if unknown. @type {string | null} */
  #compiled = null;
  #present = '';
  /** Whether the data files of the C tests have been generated. */
  #data = false;
  /** Whether each test passes without a mutation, by test. @type {Map<string, boolean>} */
  #good = new Map();

  /** @param {import('../setup/setup.mjs').Tools} tools */
  constructor(tools) {
    this.tools = tools;
    const kept = process.env.BQ4_MUTANTS;
    this.root = kept ?? mkdtempSync(join(tmpdir(), 'bq4-mutants-'));
    if (!kept) process.on('exit', () => rmSync(this.root, { recursive: true, force: true }));
    // A run that was killed may have left a mutation in the kept copy, and files compiled from it.
    const differs = (/** @type {string} */ path) =>
      existsSync(join(this.root, path)) && !readFileSync(join(this.root, path)).equals(readFileSync(join(ROOT, path)));
    const stale = Object.values(FILES).filter(differs);
    cpSync(ROOT, this.root, {
      recursive: true,
      preserveTimestamps: true,
      // The compiled files of a kept copy are newer than those of this checkout.
      filter: (path) => {
        const name = relative(ROOT, path);
        return !LEFT_OUT.includes(name) && !(name === 'build' && kept && existsSync(join(this.root, name)));
      },
    });
    const now = new Date();
    for (const path of stale) utimesSync(join(this.root, path), now, now);
    // The copied modules were compiled from unchanged sources.
    if (!stale.length && existsSync(join(this.root, 'build', 'wasm'))) this.#compiled = '';
    if (!existsSync(join(this.root, 'node_modules')))
      symlinkSync(join(ROOT, 'node_modules'), join(this.root, 'node_modules'));
  }

  /** Undoes the mutation in effect and applies another. @param {Mutation | null} mutation  null for none */
  put(mutation) {
    const before = MUTATIONS.find(({ id }) => id === this.#present);
    if (before) writeFileSync(join(this.root, FILES[before.file]), readFileSync(join(ROOT, FILES[before.file])));
    this.#present = mutation?.id ?? '';
    if (!mutation) return;
    const path = FILES[mutation.file];
    writeFileSync(join(this.root, path), mutated(mutation, readFileSync(join(ROOT, path), 'utf8')));
  }

  /** @param {readonly string[]} line @param {number} seconds */
  #run(line, seconds) {
    const env = { ...this.tools.env, CHROME_PATH: this.tools.chromium, BQ4_PYTHON: this.tools.testPython };
    return runProgram(line, { cwd: this.root, env, seconds });
  }

  /** Compiles the files that a test needs. @param {string} test @returns {Promise<boolean>}  whether it succeeded */
  async #build(test) {
    const isC = test.startsWith('c:');
    if (isC && !this.#data) {
      this.#data = true;
      for (const script of ['make_tokn', 'make_golden'])
        await this.#run([/** @type {string} */ (this.tools.node), `tests/tools/${script}.mjs`], BUILD);
    }
    const mutation = MUTATIONS.find(({ id }) => id === this.#present);
    const state = mutation && isCompiled(mutation) ? mutation.id : '';
    if (!isC && this.#compiled === state) return true;
    const targets = isC ? [`build/test-gcc/${test.slice(2)}`] : ['wasm'];
    const line = [this.tools.make, '-f', 'emscripten.mk', '-s', '-j2', ...targets];
    const { status, output } = await this.#run(line, BUILD);
    if (status !== 0) console.log(output.trimEnd());
    if (!isC) this.#compiled = status === 0 ? state : null;
    return status === 0;
  }

  /** @param {string} test @returns {Promise<'passed' | 'failed' | 'not built'>} */
  async test(test) {
    if (!(await this.#build(test))) return 'not built';
    const node = /** @type {string} */ (this.tools.node);
    const line = test.startsWith('c:')
      ? [`build/test-gcc/${test.slice(2)}`]
      : [node, `--test-timeout=${1000 * ONE_TEST}`, '--test-force-exit', '--test', pathOf(test)];
    return (await this.#run(line, TEST)).status === 0 ? 'passed' : 'failed';
  }

  /** Whether a test passes without any mutation. @param {string} test */
  async passes(test) {
    const known = this.#good.get(test);
    if (known !== undefined) return known;
    const present = MUTATIONS.find(({ id }) => id === this.#present);
    this.put(null);
    const good = (await this.test(test)) === 'passed';
    if (!good) console.log(`  ${test} fails without a mutation: it does not count`);
    this.#good.set(test, good);
    this.put(present ?? null);
    return good;
  }
}

/** @param {Copy} copy @param {Mutation} mutation @returns {Promise<{ verdict: Verdict, by: string }>} */
async function tried(copy, mutation) {
  copy.put(mutation);
  try {
    for (const test of mutation.tests) {
      const outcome = await copy.test(test);
      if (outcome === 'not built') return { verdict: 'invalid', by: '' };
      if (outcome === 'failed' && (await copy.passes(test))) return { verdict: 'caught', by: pathOf(test) };
    }
    return { verdict: 'survived', by: '' };
  } finally {
    copy.put(null);
  }
}

/** Reads the recorded results of mutations that have not changed since. @returns {Outcome[]} */
function known() {
  if (!existsSync(REPORT)) return [];
  const current = new Set(MUTATIONS.map(digestOf));
  return JSON.parse(readFileSync(REPORT, 'utf8')).filter((/** @type {Outcome} */ { digest }) => current.has(digest));
}

/** @param {Outcome[]} results */
function writeTable(results) {
  const rooms = [...new Set(MUTATIONS.map(roomOf))];
  const count = (/** @type {Outcome[]} */ of, /** @type {Verdict} */ verdict) =>
    of.filter((one) => one.verdict === verdict);
  const row = (/** @type {string} */ name, /** @type {Outcome[]} */ of) => [
    name,
    of.length,
    count(of, 'caught').length,
    count(of, 'survived')
      .map(({ breaks }) => breaks)
      .join('; '),
  ];
  const rows = rooms.map((room) =>
    row(
      `\`${room}/\``,
      results.filter((one) => one.room === room),
    ),
  );
  const all = row('together', results).with(3, '');
  const dates = results.map(({ date }) => date).sort();
  const note = `Run ${dates[0]?.slice(0, 10) ?? 'never'}, on ${[...new Set(results.map((one) => one.machine))].join('; ')}.`;
  const table = tableOf(['where', 'mutations', 'caught', 'what no test notices'], [...rows, all]);
  replaceTable(DOCUMENT, 'mutations', `${table}\n\n${note}`);
}

await command(async () => {
  const words = process.argv.slice(2);
  const wrong = problems();
  if (wrong.length) throw new SetupError(wrong.join('\n'));
  if (words.includes('--check')) return console.log(`${MUTATIONS.length} mutations match the source files`);
  if (words.includes('--table')) return writeTable(known());
  const caughtOnes = new Set(known().flatMap(({ id, verdict }) => (verdict === 'caught' ? [id] : [])));
  const ids = words.filter((word) => !word.startsWith('--'));
  const wanted = MUTATIONS.filter(
    ({ id }) =>
      (!ids.length || ids.some((begin) => id.startsWith(begin))) &&
      (!words.includes('--survivors') || !caughtOnes.has(id)),
  );
  // Mutations of JavaScript run first, then those with C tests, last those that need new modules.
  const effort = (/** @type {Mutation} */ one) => (isCompiled(one) ? (one.tests[0].startsWith('c:') ? 1 : 2) : 0);
  wanted.sort((a, b) => effort(a) - effort(b));
  const copy = new Copy(await setUp({ tests: true }));
  for (const [i, mutation] of wanted.entries()) {
    const startTime = Date.now();
    const { verdict, by } = await tried(copy, mutation);
    const seconds = Math.round((Date.now() - startTime) / 1000);
    const { id, breaks } = mutation;
    console.log(`${i + 1}/${wanted.length}  ${verdict.padEnd(8)}  ${id}  ${by}  ${seconds} s`);
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
    const results = [...known().filter((one) => one.id !== id), outcome];
    writeFileSync(REPORT, `${JSON.stringify(results, null, 1)}\n`);
  }
  const results = known();
  const caught = results.filter(({ verdict }) => verdict === 'caught').length;
  console.log(`${caught} of ${results.length} caught, ${MUTATIONS.length - results.length} not run`);
  writeTable(results);
});
