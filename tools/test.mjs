#!/usr/bin/env node
// `npm test` installs what is missing and runs the tests that a change can break. `npm run test:long` runs the others, which
// take longer and fail rarely. `npm test -- c js` runs the named suites of both kinds. The last line of output is the number of
// passed, failed and skipped tests.
//
// `npm test` runs files named NAME.test.mjs, `npm run test:long` files named NAME.long.mjs; the table SUITES lists the others.
// Each file, each C test program and each check is a job. The jobs of a tier share the cores of the machine, the longest first.
// A job that fails runs again, alone. If it passes then it is FLAKY, and the last lines name it; the second time within a week
// it counts as a failure. build/reports contains the duration of each job and the output of failed ones.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { buildWasm, make } from './build.mjs';
import { digestOf, Product } from './digest.mjs';
import { makeDist } from './payload.mjs';
import { noteFlaky } from './testing/flaky.mjs';
import { Durations, runJobs } from './testing/jobs.mjs';
import { failuresIn, Report } from './testing/report.mjs';
import { runProgram } from './testing/program.mjs';
import { Passed } from './testing/unchanged.mjs';
import { cacheRoot } from './setup/cache.mjs';
import { SetupError } from './setup/shell.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

/** @typedef {import('./setup/setup.mjs').Tools} Tools */
/** @typedef {import('./testing/jobs.mjs').Job} Job */
/** @typedef {import('./testing/jobs.mjs').JobResult} JobResult */
/** @typedef {keyof typeof BUILDS} Build */
/**
 * @typedef {object} Suite
 * @property {boolean} [long]    not part of `npm test`
 * @property {boolean} [named]   runs only if it is named on the command line
 * @property {readonly Build[]} [needs]  builds that its jobs require
 * @property {(tools: Tools) => Job[]} [jobs]
 * @property {(report: Report, tools: Tools) => Promise<void>} [run]  work that cannot be a job; runs after all jobs of its tier
 */

/** Time limit of one program of a suite, in seconds: a program that hangs must not block the run. */
const TIMEOUT_MS = 900;
/** Time limit of one JavaScript test, in seconds, unless the test sets its own: in files for `npm test`, and in long ones. */
const [TEST, LONG_TEST] = [150, 300];
/** Limit of CPU seconds per file in the long tier: for files of `npm test`, and for long ones. */
const [BUDGET, LONG_BUDGET] = [150, 900];
/** Total seconds of all fuzzers in the long run. `npm test` runs only their corpus. */
const LONG_FUZZ = 300;

/** Minutes after which `--all` starts no long job. A slow machine then reports the jobs it did not run, instead of being stopped without a report. */
const MINUTES = 50;
/** Minutes after which no failed job runs again: its failure counts. */
const RETRY_MINUTES = 56;

/** Checks of the imports between rooms; quick enough to run with the type checker. */
const LAYERS = ['tests/js/layers.test.mjs'];

/** Files that measure or use all cores: no other job runs at the same time. */
const ALONE = ['tests/js/threads.test.mjs', 'tests/js/builds.test.mjs'];

/** Seconds of the longest files, for a machine that has not run them yet. The longest start first. */
const ESTIMATES = {
  'tests/js/git-install.long.mjs': 240,
  'tests/js/cache-model.long.mjs': 200,
  'tests/js/templates-python.long.mjs': 200,
  'tests/js/quantize-resume.test.mjs': 90,
  'tests/js/golden.test.mjs': 50,
  'tests/js/quantize.test.mjs': 50,
  'tests/browser/suite.test.mjs': 220,
  'tests/browser/suite.test.mjs (firefox,webkit)': 300,
  ...Object.fromEntries(
    ['attachments', 'chat', 'chat-tools', 'looks', 'store', 'visits'].map((name) => [
      `tests/browser/${name}.test.mjs`,
      120,
    ]),
  ),
  ...Object.fromEntries(
    ['docs', 'frameworks', 'honest', 'offers', 'person', 'talk'].map((name) => [`tests/browser/${name}.long.mjs`, 150]),
  ),
};

/** C tests of code that differs between the SIMD builds. All others run as WebAssembly in one build only. */
const KERNEL_TESTS = ['test_attend', 'test_golden', 'test_kernels', 'test_product'];

/**
 * Tests that depend only on a part of the project. `npm test` runs them if that part has changed since they last passed, the long run
 * always.
 * @type {readonly { what: string, tests: RegExp, paths: readonly string[] }[]}
 */
const PARTS = [
  {
    what: 'importers, converters and the quantizer',
    tests:
      /^tests\/js\/(bullet|companion|convert(-.*)?|drift|gguf-(cli|requantize|types|wild)|hf-hostile|make-random|qsf|quantize(-.*)?|reading|reserved|torch)\.test\.mjs$/,
    paths: [
      ...['c', 'web', 'bin', 'tools/bq4_export', 'tools/export_bq4.py', 'tools/make_random.mjs', 'package-lock.json'],
      ...['convert', 'engine', 'format', 'quantize', 'shared', 'storage', 'text', 'wasm'].map((room) => `js/${room}`),
      ...['golden', 'js', 'tools', 'waiting.mjs'].map((name) => `tests/${name}`),
    ],
  },
  {
    what: 'the renderer of chat templates',
    tests: /^tests\/js\/templates(-python)?\.test\.mjs$/,
    paths: ['js/api', 'js/shared', 'js/text', 'tests/js', 'tests/templates', 'tools/requirements-test.txt'],
  },
  {
    what: 'the engine in C',
    tests: /^(test-gcc|test-wasm-\w+|fuzz|fuzz-wasm)\//,
    // cTestData creates the data of these tests before they run.
    paths: [
      'c',
      'tests/c',
      'tests/fuzz',
      'tests/golden',
      'emscripten.mk',
      'tools/setup',
      'build/golden',
      'build/tokenizers',
    ],
  },
];

/** Results and durations, kept from one run to the next. */
const REPORTS = join(ROOT, 'build', 'reports');

/**
 * Returns the paths of files in a folder under tests/ whose names match, relative to the root and with forward slashes.
 * @param {string} folder
 * @param {RegExp} names
 */
function testFiles(folder, names) {
  const path = join(ROOT, 'tests', folder);
  if (!existsSync(path)) return [];
  return readdirSync(path)
    .filter((name) => names.test(name))
    .sort()
    .map((name) => `tests/${folder}/${name}`);
}

/** Returns the matching files of several folders. @param {RegExp} names @param {...string} folders */
const filesOf = (names, ...folders) =>
  folders.flatMap((folder) => testFiles(folder, names)).filter((path) => !LAYERS.includes(path));

/** Returns the names of C programs with a prefix. @param {string} folder @param {string} prefix */
const programsIn = (folder, prefix) =>
  testFiles(folder, new RegExp(`^${prefix}.*\\.c$`)).map((path) => path.slice(`tests/${folder}/`.length, -'.c'.length));

/** @param {number} passed @param {number} failed @param {number} [skipped] */
const counts = (passed, failed, skipped = 0) => ({ passed, failed, skipped });

/** Returns the result of a program that passes if its exit status is 0. @param {import('./testing/program.mjs').Outcome} outcome @returns {JobResult} */
const verdict = ({ status, output, wall, cpu }) => ({
  counts: counts(Number(status === 0), Number(status !== 0)),
  output,
  note: status === 0 ? '' : `ended with ${status}`,
  wall,
  cpu,
});

/** Stores the output of a failed job in build/reports/failed. @param {string} name @param {JobResult} result */
function keepOutput(name, result) {
  if (!result.counts.failed) return result;
  const folder = join(REPORTS, 'failed');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name.replaceAll('/', '-')}.txt`), result.output);
  return result;
}

/**
 * Returns the jobs of the C tests of one build.
 * @param {Tools} tools
 * @param {string} config of emscripten.mk
 * @param {{ wasm?: boolean, only?: readonly string[] }} [options]
 * @returns {Job[]}
 */
function cTests(tools, config, { wasm = false, only } = {}) {
  const env = {
    ...process.env,
    ASAN_OPTIONS: 'detect_leaks=1:detect_stack_use_after_return=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
  };
  const names = programsIn('c', 'test_').filter((name) => !only || only.includes(name));
  return names.map((name) => ({
    suite: config,
    name: `${config}/${name}`,
    steady: true,
    async run() {
      const program = join(ROOT, 'build', config, wasm ? `${name}.js` : name);
      if (!existsSync(program)) return { counts: counts(0, 1), output: '', note: 'was not built' };
      const line = wasm ? [/** @type {string} */ (tools.node), program] : [program];
      const { status, output, wall, cpu } = await runProgram(line, { cwd: ROOT, env, seconds: TIMEOUT_MS });
      const summary = /^(\d+) passed, (\d+) failed, (\d+) skipped$/.exec(output.trimEnd().split('\n').at(-1) ?? '');
      const [passed, failed, skipped] = (summary ?? [0, 0, 0, 0]).slice(1).map(Number);
      const died = (status !== 0 && failed === 0) || !summary;
      return keepOutput(`${config}/${name}`, {
        counts: counts(passed, failed + Number(died), skipped),
        output,
        failures: output.split('\n').filter((text) => /: FAILED$|: failed at|runtime error:|ERROR: /.test(text)),
        note: died ? `ended with ${status}${summary ? '' : ', without a summary'}` : '',
        wall,
        cpu,
      });
    },
  }));
}

/** Creates the files that C tests read: build/tokenizers, build/golden. @param {Report} report @param {Tools} tools */
async function cTestData(report, tools) {
  for (const script of ['make_tokn', 'make_golden']) {
    const line = [/** @type {string} */ (tools.node), `tests/tools/${script}.mjs`];
    const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_MS });
    if (status !== 0) report.one(`data for the C tests: ${script}`, false, { output, note: `ended with ${status}` });
  }
}

/**
 * Builds targets. After a failure the others are still built, and their tests run.
 * @param {Report} report @param {Tools} tools @param {...string} targets  targets of emscripten.mk
 */
async function built(report, tools, ...targets) {
  if (!(await make(tools, targets))) report.fail(targets.join(' '), 'did not build');
}

/** Builds that suites require, in the order in which they are made, each once. */
const BUILDS = {
  wasm: (/** @type {Report} */ _, /** @type {Tools} */ tools) => buildWasm(tools),
  native: (/** @type {Report} */ report, /** @type {Tools} */ tools) => built(report, tools, 'native'),
  gcc: (/** @type {Report} */ report, /** @type {Tools} */ tools) => built(report, tools, 'test-gcc'),
  clang: (/** @type {Report} */ report, /** @type {Tools} */ tools) => built(report, tools, 'test-clang'),
  relaxed: (/** @type {Report} */ report, /** @type {Tools} */ tools) => built(report, tools, 'test-wasm-relaxed'),
  simd128: (/** @type {Report} */ report, /** @type {Tools} */ tools) =>
    built(
      report,
      tools,
      'build/test-wasm-simd128/package.json',
      ...KERNEL_TESTS.map((name) => `build/test-wasm-simd128/${name}.js`),
    ),
  cData: cTestData,
  fuzzers: (/** @type {Report} */ report, /** @type {Tools} */ tools) => built(report, tools, 'fuzz', 'fuzz-wasm'),
  types: async (/** @type {Report} */ report, /** @type {Tools} */ tools) => {
    const line = [join(ROOT, 'node_modules', '.bin', 'tsc'), '-p', 'tsconfig.types.json'];
    const product = new Product(ROOT, {
      folder: 'build/types',
      sources: ['js', 'package-lock.json', 'tsconfig.json', 'tsconfig.types.json'],
    });
    if (product.isCurrent()) return report.one('type declarations', true);
    const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_MS });
    report.one('type declarations', status === 0, { output });
    if (status === 0) product.noteMade();
  },
  // Made once for all test files: two that made it at the same time would read incomplete files. The same holds for the site.
  dist: async (/** @type {Report} */ report, /** @type {Tools} */ tools) => {
    const problem = makeDist();
    if (problem) report.one('dist', false, { output: problem });
    else tools.env.BQ4_DIST = 'made';
  },
  site: async (/** @type {Report} */ _, /** @type {Tools} */ tools) => {
    // Loaded here: its packages are installed by the set-up, after this module has been loaded.
    const { makeSite } = await import('./site.mjs');
    await makeSite();
    tools.env.BQ4_SITE = 'made';
  },
};

/**
 * Returns jobs for files of node:test, each in a process of its own.
 * @param {Tools} tools
 * @param {string} suite
 * @param {readonly string[]} files
 * @param {{ browsers?: string, budgets?: boolean }} [options]  `browsers`: browsers to use instead of those that a file
 *   names; `budgets`: whether their CPU time is limited
 * @returns {Job[]}
 */
function nodeTests(tools, suite, files, { browsers, budgets = false } = {}) {
  const env = {
    ...tools.env,
    BQ4_PYTHON: tools.testPython,
    ...(browsers && { BQ4_BROWSERS: browsers }),
  };
  return files.map((path) => {
    const name = browsers ? `${path} (${browsers})` : path;
    const long = path.endsWith('.long.mjs');
    return {
      suite,
      name,
      alone: ALONE.includes(path),
      budget: budgets ? (long ? LONG_BUDGET : BUDGET) : undefined,
      run: async () => {
        // Short tests run in the headless shell, long ones in the complete browser that users have.
        const own = long ? { ...env, CHROME_PATH: tools.chromium } : env;
        return keepOutput(name, await nodeTest(tools, path, name, own, long ? LONG_TEST : TEST));
      },
    };
  });
}

/** @param {Tools} tools @param {string} path @param {string} name @param {NodeJS.ProcessEnv} env @param {number} seconds  for one test @returns {Promise<JobResult>} */
async function nodeTest(tools, path, name, env, seconds) {
  const tap = join(REPORTS, 'tap', `${name.replaceAll('/', '-')}.tap`);
  mkdirSync(join(REPORTS, 'tap'), { recursive: true });
  const line = [
    /** @type {string} */ (tools.node),
    `--test-timeout=${1000 * seconds}`,
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=tap',
    `--test-reporter-destination=${tap}`,
    path,
  ];
  // After a failed test a file may never end, because servers and browsers of that test stay open.
  const silence = seconds === LONG_TEST ? 4 * seconds : 2 * seconds;
  const { status, output, wall, cpu } = await runProgram(line, { cwd: ROOT, env, seconds: 3 * TIMEOUT_MS, silence });
  const text = existsSync(tap) ? readFileSync(tap, 'utf8') : '';
  const count = (/** @type {string} */ what) => Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  const failed = count('fail') + count('cancelled') + count('todo');
  const died = (status !== 0 || !/^# tests \d+$/m.test(text)) && failed === 0;
  return {
    counts: counts(count('pass'), failed + Number(died), count('skipped')),
    output,
    note: died ? `ended with ${status}` : '',
    failures: failuresIn(text),
    wall,
    cpu,
  };
}

/** @param {Tools} tools @returns {Job[]} */
function pythonTests(tools) {
  const line = [
    /** @type {string} */ (tools.testPython),
    ...['-B', '-m', 'unittest', 'discover', '-v', '-s', 'tests/py', '-t', 'tests/py', '-p', 'test_*.py'],
  ];
  return [
    {
      suite: 'py',
      name: 'py',
      async run() {
        const { status, output, wall, cpu } = await runProgram(line, {
          cwd: ROOT,
          env: tools.env,
          seconds: TIMEOUT_MS,
        });
        const ran = Number(/^Ran (\d+) tests?/m.exec(output)?.[1] ?? 0);
        const last = output.trimEnd().split('\n').at(-1) ?? '';
        const count = (/** @type {string} */ what) => Number(new RegExp(`\\b${what}=(\\d+)`).exec(last)?.[1] ?? 0);
        const failed = count('failures') + count('errors') + count('unexpected successes');
        const died = (status !== 0 || !/^OK\b/.test(last) || !ran) && failed === 0;
        const skipped = count('skipped');
        return {
          counts: counts(Math.max(0, ran - failed - skipped), failed + Number(died), skipped),
          output,
          note: died ? `unittest ended with ${status}` : '',
          wall,
          cpu,
        };
      },
    },
  ];
}

/** @param {Tools} tools @returns {Job[]} */
function checks(tools) {
  const bin = (/** @type {string} */ name) => join(ROOT, 'node_modules', '.bin', name);
  /** @type {Record<string, string[]>} */
  const lines = {
    'types of js, bin, tools and demo': [bin('tsc'), '-p', 'tsconfig.json'],
    'types of the tests': [bin('tsc'), '-p', 'tsconfig.tests.json'],
    'formatter (npm run format mends)': [bin('prettier'), '--log-level', 'warn', '--check', '--cache', '.'],
    linter: [bin('oxlint'), '--type-aware', '--deny-warnings', 'js', 'bin', 'demo', 'tools', 'tests'],
  };
  return [
    ...Object.entries(lines).map(([name, line]) => ({
      suite: 'check',
      name,
      first: true,
      steady: true,
      run: async () => verdict(await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_MS })),
    })),
    ...nodeTests(tools, 'check', LAYERS).map((job) => ({ ...job, first: true })),
  ];
}

/** Returns the names of the fuzzers. */
const fuzzers = () => programsIn('fuzz', 'fuzz_').map((name) => name.slice('fuzz_'.length));

/** Returns the files of a fuzzer's corpus. @param {string} name */
const seedsOf = (name) => testFiles(`fuzz/corpus/${name}`, /./);

/**
 * Returns the jobs of all fuzzers: with clang's libFuzzer, and as WebAssembly, where sizes have 32 bits.
 * @param {Tools} tools @param {number} all  total seconds, divided evenly among the fuzzers; 0 runs only their corpus
 * @returns {Job[]}
 */
function fuzz(tools, all) {
  const names = fuzzers();
  const seconds = all && Math.max(1, Math.round(Number(process.env.BQ4_FUZZ_SECONDS ?? all) / names.length / 2));
  const suite = all ? 'fuzz-long' : 'fuzz';
  return names.flatMap((name) => [
    {
      suite,
      name: `${suite}/${name}`,
      steady: true,
      run: () => fuzzNative(name, seconds),
    },
    {
      suite,
      name: `${suite}-wasm/${name}`,
      steady: true,
      run: () => fuzzWasm(tools, name, seconds),
    },
  ]);
}

/** @param {string} name @param {number} seconds @returns {Promise<JobResult>} */
async function fuzzNative(name, seconds) {
  const found = `build/fuzz/corpus/${name}`;
  mkdirSync(join(ROOT, found), { recursive: true });
  const [seeds, dictionary] = [`tests/fuzz/corpus/${name}`, `tests/fuzz/${name}.dict`];
  const line = [
    `build/fuzz/fuzz_${name}`,
    seconds ? `-max_total_time=${seconds}` : '-runs=1000',
    '-timeout=20',
    '-rss_limit_mb=2048',
    '-print_final_stats=1',
    `-artifact_prefix=build/fuzz/${name}-`,
    ...(existsSync(join(ROOT, dictionary)) ? [`-dict=${dictionary}`] : []),
    found,
    ...(existsSync(join(ROOT, seeds)) ? [seeds] : []),
  ];
  const outcome = await runProgram(line, { cwd: ROOT, env: process.env, seconds: seconds + TIMEOUT_MS });
  const runs = Number(/number_of_executed_units:\s*(\d+)/.exec(outcome.output)?.[1] ?? 0);
  const good = outcome.status === 0 && runs > 0;
  return { ...verdict({ ...outcome, status: good ? 0 : outcome.status || 'no input' }), note: `${runs} inputs` };
}

/**
 * Runs a fuzzer as WebAssembly: the same inputs in each run, until the seconds are over.
 * @param {Tools} tools @param {string} name @param {number} seconds @returns {Promise<JobResult>}
 */
async function fuzzWasm(tools, name, seconds) {
  const line = [
    /** @type {string} */ (tools.node),
    `build/fuzz-wasm/fuzz_${name}.js`,
    '1',
    String(seconds || 1),
    ...seedsOf(name),
  ];
  const outcome = await runProgram(line, { cwd: ROOT, env: process.env, seconds: seconds + TIMEOUT_MS });
  const inputs = /^(\d+ inputs from .*, sizes of 32 bits)$/m.exec(outcome.output)?.[1] ?? '0 inputs';
  const good = outcome.status === 0 && !inputs.startsWith('0 ');
  return { ...verdict({ ...outcome, status: good ? 0 : outcome.status || 'no input' }), note: inputs };
}

/** Checks docs/MODELS.md against the measurements of the tests, if all suites with such tests have run: c, js and js-long. @param {Report} report @param {Tools} tools */
async function modelsDocument(report, tools) {
  const line = [/** @type {string} */ (tools.node), 'tools/models-doc.mjs', '--check'];
  const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_MS });
  if (status === 2) console.log(`docs/MODELS.md IS NOT COMPARED: ${output.trimEnd()}`);
  else report.one('docs/MODELS.md', status === 0, { output });
}

/** Whether `npm test` runs a test file in Chromium only. @param {string} path */
const chromiumFirst = (path) => readFileSync(join(ROOT, path), 'utf8').includes('await chromiumFirst(');

const words = process.argv.slice(2);
/** Flags for both tiers and for the long one. Without a flag the other tier runs. */
const TIERS = ['--all', '--long'];
/** Flag that also runs tests of parts that have not changed since they passed. */
const EVERY = '--every';
const named = words.filter((word) => !TIERS.includes(word) && word !== EVERY);
/** Whether all tests of a tier run, also those of unchanged parts. */
const thorough = words.some((word) => TIERS.includes(word));

/** @type {Record<string, Suite>} */
const SUITES = {
  check: { needs: ['types'], jobs: checks },
  c: { needs: ['wasm', 'cData', 'gcc'], jobs: (tools) => cTests(tools, 'test-gcc') },
  wasm: {
    needs: ['wasm', 'cData', 'relaxed', 'simd128'],
    jobs: (tools) => [
      ...cTests(tools, 'test-wasm-relaxed', { wasm: true }),
      ...cTests(tools, 'test-wasm-simd128', { wasm: true, only: KERNEL_TESTS }),
    ],
  },
  gates: {
    needs: ['wasm', 'native', 'dist'],
    jobs: (tools) => nodeTests(tools, 'gates', testFiles('gates', /\.test\.mjs$/)),
  },
  js: {
    needs: ['wasm', 'dist', 'types'],
    jobs: (tools) => nodeTests(tools, 'js', filesOf(/\.test\.mjs$/, 'setup', 'server', 'js'), { budgets: thorough }),
  },
  py: { needs: ['native'], jobs: pythonTests },
  browser: {
    needs: ['wasm', 'dist', 'site', 'types'],
    jobs: (tools) => nodeTests(tools, 'browser', filesOf(/\.test\.mjs$/, 'browser'), { budgets: thorough }),
  },
  fuzz: { needs: ['fuzzers'], jobs: (tools) => fuzz(tools, 0) },
  'js-long': {
    long: true,
    needs: ['wasm', 'dist', 'types'],
    jobs: (tools) => nodeTests(tools, 'js-long', filesOf(/\.long\.mjs$/, 'js'), { budgets: true }),
    run: modelsDocument,
  },
  // Every bundler, a model of the 135M shape, twenty loads, restarts; what a person does on the demo, in every browser.
  'browser-long': {
    long: true,
    needs: ['wasm', 'dist', 'types'],
    jobs: (tools) => nodeTests(tools, 'browser-long', filesOf(/\.long\.mjs$/, 'browser'), { budgets: true }),
  },
  // What `npm test` runs in Chromium alone.
  'other-browsers': {
    long: true,
    needs: ['wasm', 'dist', 'site', 'types'],
    jobs: (tools) =>
      nodeTests(tools, 'other-browsers', filesOf(/\.test\.mjs$/, 'browser').filter(chromiumFirst), {
        browsers: 'firefox,webkit',
      }),
  },
  // The same C tests by another compiler, with other sanitizers.
  'c-clang': { long: true, needs: ['wasm', 'cData', 'clang'], jobs: (tools) => cTests(tools, 'test-clang') },
  // Programs that others made, built for some minutes: by its name alone, never part of the others.
  peers: {
    named: true,
    needs: ['wasm'],
    async run(report, tools) {
      await (await import('./bench/install.mjs')).provideLlamaServer();
      const durations = new Durations(join(REPORTS, 'durations.json'));
      await runJobs(nodeTests(tools, 'peers', testFiles('peers', /\.test\.mjs$/)), { slots: 1, durations, report });
    },
  },
  'fuzz-long': { long: true, needs: ['fuzzers'], jobs: (tools) => fuzz(tools, LONG_FUZZ) },
};

/**
 * Removes the jobs of unchanged parts that have passed, and records those that pass.
 * @param {Job[]} jobs @param {Passed} passed
 */
function unlessUnchanged(jobs, passed) {
  const kept = new Set(jobs);
  for (const { what, tests, paths } of PARTS) {
    const ours = jobs.filter(({ name }) => tests.test(name));
    if (!ours.length) continue;
    const digest = digestOf(ROOT, paths);
    const spared =
      thorough || named.length || words.includes(EVERY) ? [] : ours.filter(({ name }) => passed.has(name, digest));
    for (const job of spared) kept.delete(job);
    for (const job of ours) {
      const { run } = job;
      job.run = async () => {
        const result = await run();
        if (!result.counts.failed) passed.add(job.name, digest);
        return result;
      };
    }
    if (spared.length)
      console.log(`unchanged since they passed: ${spared.length} tests of ${what} (npm test -- --every runs them)`);
  }
  return [...kept];
}

await command(async () => {
  /** @param {string} name @param {Suite} suite @param {boolean} tier  the long one */
  const wanted = (name, { long = false, named: asked = false }, tier) =>
    long === tier &&
    (named.length ? named.includes(name) : !asked && (words.includes('--all') || long === words.includes('--long')));
  const unknown = named.filter((name) => !(name in SUITES));
  if (unknown.length)
    throw new SetupError(`no suite ${unknown.join(', ')}; there are: ${Object.keys(SUITES).join(' ')}`);
  const report = new Report((name) => noteFlaky(join(cacheRoot(), 'flaky.json'), name));
  const startTime = Date.now();
  /** @type {Tools | undefined} */
  let tools;
  try {
    tools = await setUp({ tests: true, long: thorough || named.some((name) => SUITES[name].long) });
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    console.log(error.message);
    report.fail('set-up', 'see above');
  }
  for (const old of ['failed', 'tap']) rmSync(join(REPORTS, old), { recursive: true, force: true });
  const durations = new Durations(join(REPORTS, 'durations.json'), ESTIMATES);
  const passed = new Passed(join(REPORTS, 'passed.json'));
  const took = (/** @type {string} */ what, /** @type {number} */ since) =>
    console.log(`    ${what} took ${((Date.now() - since) / 1000).toFixed(0)} s`);
  if (!named.length) report.leftOut('npm test -- peers', 'by its name alone');
  /** @type {Set<string>} */
  const done = new Set();
  for (const tier of [false, true]) {
    const suites = Object.entries(SUITES).filter(([name, suite]) => wanted(name, suite, tier));
    if (!tools || !suites.length) continue;
    report.heading(suites.map(([name]) => name).join(', '));
    let since = Date.now();
    for (const [name, build] of Object.entries(BUILDS)) {
      if (done.has(name) || !suites.some(([, { needs = [] }]) => needs.includes(/** @type {Build} */ (name)))) continue;
      done.add(name);
      try {
        await build(report, tools);
      } catch (error) {
        report.fail(name, error instanceof SetupError ? error.message : String(/** @type {Error} */ (error).stack));
      }
    }
    took('building', since);
    since = Date.now();
    const jobs = suites.flatMap(([name, { jobs }]) => {
      const listed = jobs?.(/** @type {Tools} */ (tools)) ?? [];
      if (jobs && !listed.length) report.fail(name, 'no tests found');
      return listed;
    });
    const within = (/** @type {number} */ minutes) =>
      !tier || !words.includes('--all') || Date.now() - startTime < minutes * 60_000;
    const mayBegin = () => within(MINUTES);
    const slots = availableParallelism();
    const mayRetry = () => within(RETRY_MINUTES);
    await runJobs(unlessUnchanged(jobs, passed), { slots, durations, report, mayBegin, mayRetry });
    for (const [name, { run }] of suites) {
      try {
        if (mayBegin()) await run?.(report, tools);
      } catch (error) {
        report.fail(name, error instanceof SetupError ? error.message : String(/** @type {Error} */ (error).stack));
      }
    }
    took('testing', since);
    durations.save();
  }
  console.log(`\nthe slowest:\n${durations.slowest(10).join('\n')}`);
  return report.finish(existsSync(join(process.env.BQ4_SHARED ?? join(ROOT, '..', 'shared'), 'data')));
});
