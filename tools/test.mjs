#!/usr/bin/env node
// `npm test` installs missing tools and runs the tests that a change can affect. `npm run test:long` runs the other tests, which
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
import { buildWasm, runMake } from './build.mjs';
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
 * @property {boolean} [onlyByName]  runs only if the command line names it
 * @property {readonly Build[]} [needs]  builds that its jobs require
 * @property {(tools: Tools) => Job[]} [jobs]  returns its jobs
 * @property {(report: Report, tools: Tools) => Promise<void>} [run]  work that cannot be a job; runs after all jobs of its tier
 */

/** Time limit of one program of a suite: a program that hangs must not block the run. */
const TIMEOUT_SECONDS = 900;
/** Time limits of one JavaScript test in files of `npm test` and in long files, unless the test sets its own limit. */
const [TEST_TIMEOUT_SECONDS, LONG_TEST_TIMEOUT_SECONDS] = [150, 300];
/** Limits of CPU time per file in the long tier: for files of `npm test`, and for long files. */
const [CPU_LIMIT_SECONDS, LONG_CPU_LIMIT_SECONDS] = [150, 900];
/** Total seconds of all fuzzers in the long run. `npm test` runs only their corpus. */
const LONG_FUZZ_SECONDS = 300;

/** Minutes after which `--all` starts no long job. A slow machine then reports the jobs it did not run, instead of being stopped without a report. */
const START_LIMIT_MINUTES = 50;
/** Minutes after which no failed job runs again: its failure counts. */
const RETRY_LIMIT_MINUTES = 56;

/** Checks of the imports between rooms. They are quick enough to run with the type checker. */
const ROOM_CHECKS = ['tests/js/layers.test.mjs'];

/** Files that measure or use all cores: no other job runs at the same time. */
const EXCLUSIVE_FILES = ['tests/js/threads.test.mjs', 'tests/js/builds.test.mjs'];

/** Durations of the longest files, for a machine that has not run them yet. The longest start first. */
const ESTIMATED_SECONDS = {
  'tests/js/git-install.long.mjs': 240,
  'tests/js/cache-model.long.mjs': 200,
  'tests/js/templates-python.long.mjs': 200,
  'tests/js/quantize-resume.test.mjs': 90,
  ...Object.fromEntries(['cli', 'engine', 'golden', 'quantize'].map((name) => [`tests/js/${name}.test.mjs`, 60])),
  'tests/browser/suite.test.mjs': 220,
  'tests/browser/suite.test.mjs (firefox,webkit)': 300,
  ...Object.fromEntries(
    ['attachments', 'cached', 'chat', 'chat-tools', 'downloads', 'faults', 'looks', 'store', 'visits'].map((name) => [
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
 * @type {readonly { title: string, tests: RegExp, paths: readonly string[] }[]}
 */
const PARTS = [
  {
    title: 'importers, converters and the quantizer',
    tests:
      /^tests\/js\/(bullet|companion|convert(-.*)?|drift|gguf-(cli|requantize|types|wild)|hf-hostile|make-random|qsf|quantize(-.*)?|reading|reserved|torch)\.test\.mjs$/,
    paths: [
      ...['c', 'web', 'bin', 'tools/bq4_export', 'tools/export_bq4.py', 'tools/make_random.mjs', 'package-lock.json'],
      ...['convert', 'engine', 'format', 'quantize', 'shared', 'storage', 'text', 'wasm'].map((room) => `js/${room}`),
      ...['golden', 'js', 'tools', 'waiting.mjs'].map((name) => `tests/${name}`),
    ],
  },
  {
    title: 'the renderer of chat templates',
    tests: /^tests\/js\/templates(-python)?\.test\.mjs$/,
    paths: ['js/api', 'js/shared', 'js/text', 'tests/js', 'tests/templates', 'tools/requirements-test.txt'],
  },
  {
    title: 'the engine in C',
    tests: /^(test-gcc|test-wasm-\w+|fuzz|fuzz-wasm)\//,
    // makeCTestData creates the data of these tests before they run.
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
  folders.flatMap((folder) => testFiles(folder, names)).filter((path) => !ROOM_CHECKS.includes(path));

/** Returns the names of C programs with a prefix. @param {string} folder @param {string} prefix */
const programsIn = (folder, prefix) =>
  testFiles(folder, new RegExp(`^${prefix}.*\\.c$`)).map((path) => path.slice(`tests/${folder}/`.length, -'.c'.length));

/** @param {number} passed @param {number} failed @param {number} [skipped] */
const countsOf = (passed, failed, skipped = 0) => ({ passed, failed, skipped });

/** Returns the result of a program that passes if its exit status is 0. @param {import('./testing/program.mjs').Outcome} outcome @returns {JobResult} */
const resultOf = ({ status, output, wall, cpu }) => ({
  counts: countsOf(Number(status === 0), Number(status !== 0)),
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
      if (!existsSync(program))
        return { counts: countsOf(0, 1), output: '', note: 'the program does not exist: its build failed' };
      const line = wasm ? [/** @type {string} */ (tools.node), program] : [program];
      const { status, output, wall, cpu } = await runProgram(line, { cwd: ROOT, env, seconds: TIMEOUT_SECONDS });
      const summary = /^(\d+) passed, (\d+) failed, (\d+) skipped$/.exec(output.trimEnd().split('\n').at(-1) ?? '');
      const [passed, failed, skipped] = (summary ?? [0, 0, 0, 0]).slice(1).map(Number);
      const isCrash = (status !== 0 && failed === 0) || !summary;
      return keepOutput(`${config}/${name}`, {
        counts: countsOf(passed, failed + Number(isCrash), skipped),
        output,
        failures: output.split('\n').filter((text) => /: FAILED$|: failed at|runtime error:|ERROR: /.test(text)),
        note: isCrash ? `ended with ${status}${summary ? '' : ', without a summary'}` : '',
        wall,
        cpu,
      });
    },
  }));
}

/** Creates the files that C tests read: build/tokenizers, build/golden. @param {Report} report @param {Tools} tools */
async function makeCTestData(report, tools) {
  for (const script of ['make_tokn', 'make_golden']) {
    const line = [/** @type {string} */ (tools.node), `tests/tools/${script}.mjs`];
    const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_SECONDS });
    if (status !== 0) report.one(`data for the C tests: ${script}`, false, { output, note: `ended with ${status}` });
  }
}

/**
 * Builds targets. After a failure the others are still built, and their tests run.
 * @param {Report} report @param {Tools} tools @param {...string} targets  targets of emscripten.mk
 */
async function buildTargets(report, tools, ...targets) {
  if (!(await runMake(tools, targets))) report.fail(targets.join(' '), 'did not build');
}

/** Builds that suites require, in the order in which they run. Each runs once. */
const BUILDS = {
  wasm: (/** @type {Report} */ _, /** @type {Tools} */ tools) => buildWasm(tools),
  native: (/** @type {Report} */ report, /** @type {Tools} */ tools) => buildTargets(report, tools, 'native'),
  gcc: (/** @type {Report} */ report, /** @type {Tools} */ tools) => buildTargets(report, tools, 'test-gcc'),
  clang: (/** @type {Report} */ report, /** @type {Tools} */ tools) => buildTargets(report, tools, 'test-clang'),
  relaxed: (/** @type {Report} */ report, /** @type {Tools} */ tools) =>
    buildTargets(report, tools, 'test-wasm-relaxed'),
  simd128: (/** @type {Report} */ report, /** @type {Tools} */ tools) =>
    buildTargets(
      report,
      tools,
      'build/test-wasm-simd128/package.json',
      ...KERNEL_TESTS.map((name) => `build/test-wasm-simd128/${name}.js`),
    ),
  cData: makeCTestData,
  fuzzers: (/** @type {Report} */ report, /** @type {Tools} */ tools) =>
    buildTargets(report, tools, 'fuzz', 'fuzz-wasm'),
  types: async (/** @type {Report} */ report, /** @type {Tools} */ tools) => {
    const line = [process.execPath, join(ROOT, 'tools/types.mjs')];
    const product = new Product(ROOT, {
      folder: 'build/types',
      sources: ['js', 'package-lock.json', 'tsconfig.json', 'tsconfig.types.json', 'tools/types.mjs'],
    });
    if (product.isCurrent()) return report.one('type declarations', true);
    const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_SECONDS });
    report.one('type declarations', status === 0, { output });
    if (status === 0) product.recordDigest();
  },
  // Written once for all test files: if two of them wrote it at the same time, they would read incomplete files. The same holds for
  // the site.
  dist: async (/** @type {Report} */ report, /** @type {Tools} */ tools) => {
    const problem = makeDist();
    if (problem) report.one('dist', false, { output: problem });
    else tools.env.BQ4_DIST = 'current';
  },
  site: async (/** @type {Report} */ _, /** @type {Tools} */ tools) => {
    // Imported here because the set-up installs its packages after this module has been loaded.
    const { makeSite } = await import('./site.mjs');
    await makeSite();
    tools.env.BQ4_SITE = 'current';
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
      alone: EXCLUSIVE_FILES.includes(path),
      budget: budgets ? (long ? LONG_CPU_LIMIT_SECONDS : CPU_LIMIT_SECONDS) : undefined,
      run: async () => {
        // Short tests run in the headless shell, long ones in the complete browser that users have.
        const jobEnv = long ? { ...env, CHROME_PATH: tools.chromium } : env;
        return keepOutput(
          name,
          await nodeTest(tools, path, name, jobEnv, long ? LONG_TEST_TIMEOUT_SECONDS : TEST_TIMEOUT_SECONDS),
        );
      },
    };
  });
}

/** @param {Tools} tools @param {string} path @param {string} name @param {NodeJS.ProcessEnv} env @param {number} seconds  for one test @returns {Promise<JobResult>} */
async function nodeTest(tools, path, name, env, seconds) {
  const tapPath = join(REPORTS, 'tap', `${name.replaceAll('/', '-')}.tap`);
  mkdirSync(join(REPORTS, 'tap'), { recursive: true });
  const line = [
    /** @type {string} */ (tools.node),
    `--test-timeout=${1000 * seconds}`,
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=tap',
    `--test-reporter-destination=${tapPath}`,
    path,
  ];
  // After a failed test the process may never end, because servers and browsers of that test stay open.
  const silenceSeconds = seconds === LONG_TEST_TIMEOUT_SECONDS ? 4 * seconds : 2 * seconds;
  const { status, output, wall, cpu } = await runProgram(line, {
    cwd: ROOT,
    env,
    seconds: 3 * TIMEOUT_SECONDS,
    silence: silenceSeconds,
  });
  const text = existsSync(tapPath) ? readFileSync(tapPath, 'utf8') : '';
  const count = (/** @type {string} */ key) => Number(new RegExp(`^# ${key} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  const failed = count('fail') + count('cancelled') + count('todo');
  const isCrash = (status !== 0 || !/^# tests \d+$/m.test(text)) && failed === 0;
  return {
    counts: countsOf(count('pass'), failed + Number(isCrash), count('skipped')),
    output,
    note: isCrash ? `ended with ${status}` : '',
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
          seconds: TIMEOUT_SECONDS,
        });
        const testCount = Number(/^Ran (\d+) tests?/m.exec(output)?.[1] ?? 0);
        const lastLine = output.trimEnd().split('\n').at(-1) ?? '';
        const count = (/** @type {string} */ key) => Number(new RegExp(`\\b${key}=(\\d+)`).exec(lastLine)?.[1] ?? 0);
        const failed = count('failures') + count('errors') + count('unexpected successes');
        const isCrash = (status !== 0 || !/^OK\b/.test(lastLine) || !testCount) && failed === 0;
        const skipped = count('skipped');
        return {
          counts: countsOf(Math.max(0, testCount - failed - skipped), failed + Number(isCrash), skipped),
          output,
          note: isCrash ? `unittest ended with ${status}` : '',
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
      run: async () => resultOf(await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_SECONDS })),
    })),
    ...nodeTests(tools, 'check', ROOM_CHECKS).map((job) => ({ ...job, first: true })),
  ];
}

/** Returns the names of the fuzzers. @returns {string[]} */
const fuzzerNames = () => programsIn('fuzz', 'fuzz_').map((name) => name.slice('fuzz_'.length));

/** Returns the files of a fuzzer's corpus. @param {string} name */
const seedsOf = (name) => testFiles(`fuzz/corpus/${name}`, /./);

/**
 * Returns the jobs of all fuzzers: with clang's libFuzzer, and as WebAssembly, where sizes have 32 bits.
 * @param {Tools} tools @param {number} totalSeconds  divided evenly among the fuzzers; 0 runs only their corpus
 * @returns {Job[]}
 */
function fuzz(tools, totalSeconds) {
  const names = fuzzerNames();
  const seconds =
    totalSeconds && Math.max(1, Math.round(Number(process.env.BQ4_FUZZ_SECONDS ?? totalSeconds) / names.length / 2));
  const suite = totalSeconds ? 'fuzz-long' : 'fuzz';
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
  const corpusFolder = `build/fuzz/corpus/${name}`;
  mkdirSync(join(ROOT, corpusFolder), { recursive: true });
  const [seeds, dictionary] = [`tests/fuzz/corpus/${name}`, `tests/fuzz/${name}.dict`];
  const line = [
    `build/fuzz/fuzz_${name}`,
    seconds ? `-max_total_time=${seconds}` : '-runs=1000',
    '-timeout=20',
    '-rss_limit_mb=2048',
    '-print_final_stats=1',
    `-artifact_prefix=build/fuzz/${name}-`,
    ...(existsSync(join(ROOT, dictionary)) ? [`-dict=${dictionary}`] : []),
    corpusFolder,
    ...(existsSync(join(ROOT, seeds)) ? [seeds] : []),
  ];
  const outcome = await runProgram(line, { cwd: ROOT, env: process.env, seconds: seconds + TIMEOUT_SECONDS });
  const runs = Number(/number_of_executed_units:\s*(\d+)/.exec(outcome.output)?.[1] ?? 0);
  const isPass = outcome.status === 0 && runs > 0;
  return { ...resultOf({ ...outcome, status: isPass ? 0 : outcome.status || 'no input' }), note: `${runs} inputs` };
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
  const outcome = await runProgram(line, { cwd: ROOT, env: process.env, seconds: seconds + TIMEOUT_SECONDS });
  const inputs = /^(\d+ inputs from .*, sizes of 32 bits)$/m.exec(outcome.output)?.[1] ?? '0 inputs';
  const isPass = outcome.status === 0 && !inputs.startsWith('0 ');
  return { ...resultOf({ ...outcome, status: isPass ? 0 : outcome.status || 'no input' }), note: inputs };
}

/** Compares docs/MODELS.md with the measurements of the tests, if all suites with such tests have run: c, js and js-long. @param {Report} report @param {Tools} tools */
async function checkModelsDocument(report, tools) {
  const line = [/** @type {string} */ (tools.node), 'tools/models-doc.mjs', '--check'];
  const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: TIMEOUT_SECONDS });
  if (status === 2) console.log(`docs/MODELS.md is not compared: ${output.trimEnd()}`);
  else report.one('docs/MODELS.md', status === 0, { output });
}

/** Whether `npm test` runs a test file in Chromium only. @param {string} path */
const isChromiumFirst = (path) => readFileSync(join(ROOT, path), 'utf8').includes('await chromiumFirst(');

const args = process.argv.slice(2);
/** Flags: both tiers, the long tier. Without a flag the short tier runs. */
const TIER_FLAGS = ['--all', '--long'];
/** Flag: tests of unchanged parts run too. */
const EVERY_FLAG = '--every';
const suiteNames = args.filter((arg) => !TIER_FLAGS.includes(arg) && arg !== EVERY_FLAG);
/** Whether the tests of unchanged parts run because of the tier. */
const isCompleteTier = args.some((arg) => TIER_FLAGS.includes(arg));

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
    jobs: (tools) =>
      nodeTests(tools, 'js', filesOf(/\.test\.mjs$/, 'setup', 'server', 'js'), { budgets: isCompleteTier }),
  },
  py: { needs: ['native'], jobs: pythonTests },
  browser: {
    needs: ['wasm', 'dist', 'site', 'types'],
    jobs: (tools) => nodeTests(tools, 'browser', filesOf(/\.test\.mjs$/, 'browser'), { budgets: isCompleteTier }),
  },
  fuzz: { needs: ['fuzzers'], jobs: (tools) => fuzz(tools, 0) },
  'js-long': {
    long: true,
    needs: ['wasm', 'dist', 'types'],
    jobs: (tools) => nodeTests(tools, 'js-long', filesOf(/\.long\.mjs$/, 'js'), { budgets: true }),
    run: checkModelsDocument,
  },
  // Bundlers, a model of the 135M shape, twenty loads, restarts, and the use of the demo in all browsers.
  'browser-long': {
    long: true,
    needs: ['wasm', 'dist', 'types'],
    jobs: (tools) => nodeTests(tools, 'browser-long', filesOf(/\.long\.mjs$/, 'browser'), { budgets: true }),
  },
  // Tests that `npm test` runs in Chromium only.
  'other-browsers': {
    long: true,
    needs: ['wasm', 'dist', 'site', 'types'],
    jobs: (tools) =>
      nodeTests(tools, 'other-browsers', filesOf(/\.test\.mjs$/, 'browser').filter(isChromiumFirst), {
        browsers: 'firefox,webkit',
      }),
  },
  // The C tests, built by another compiler, with its checks of undefined behaviour.
  'c-clang': { long: true, needs: ['wasm', 'cData', 'clang'], jobs: (tools) => cTests(tools, 'test-clang') },
  // Tests with programs of other projects. It takes minutes to build them.
  peers: {
    onlyByName: true,
    needs: ['wasm'],
    async run(report, tools) {
      await (await import('./bench/install.mjs')).provideLlamaServer();
      const durations = new Durations(join(REPORTS, 'durations.json'));
      await runJobs(nodeTests(tools, 'peers', testFiles('peers', /\.test\.mjs$/)), { slots: 1, durations, report });
    },
  },
  'fuzz-long': { long: true, needs: ['fuzzers'], jobs: (tools) => fuzz(tools, LONG_FUZZ_SECONDS) },
};

/**
 * Returns the jobs without those that have passed since their part changed. Records the jobs that pass from now on.
 * @param {Job[]} jobs @param {Passed} passed
 */
function withoutUnchanged(jobs, passed) {
  const jobsToRun = new Set(jobs);
  for (const { title, tests, paths } of PARTS) {
    const partJobs = jobs.filter(({ name }) => tests.test(name));
    if (!partJobs.length) continue;
    const digest = digestOf(ROOT, paths);
    const omittedJobs =
      isCompleteTier || suiteNames.length || args.includes(EVERY_FLAG)
        ? []
        : partJobs.filter(({ name }) => passed.has(name, digest));
    for (const job of omittedJobs) jobsToRun.delete(job);
    for (const job of partJobs) {
      const { run } = job;
      job.run = async () => {
        const result = await run();
        if (!result.counts.failed) passed.add(job.name, digest);
        return result;
      };
    }
    if (omittedJobs.length)
      console.log(
        `unchanged since they passed: ${omittedJobs.length} tests of ${title} (npm test -- --every runs them)`,
      );
  }
  return [...jobsToRun];
}

await command(async () => {
  /** Whether a suite runs in a tier. @param {string} name @param {Suite} suite @param {boolean} isLongTier */
  const isSelected = (name, { long = false, onlyByName = false }, isLongTier) =>
    long === isLongTier &&
    (suiteNames.length
      ? suiteNames.includes(name)
      : !onlyByName && (args.includes('--all') || long === args.includes('--long')));
  const unknownNames = suiteNames.filter((name) => !(name in SUITES));
  if (unknownNames.length)
    throw new SetupError(`expected names of ${Object.keys(SUITES).join(', ')}; found ${unknownNames.join(', ')}`);
  const report = new Report((name) => noteFlaky(join(cacheRoot(), 'flaky.json'), name));
  const runStart = Date.now();
  /** @type {Tools | undefined} */
  let tools;
  try {
    tools = await setUp({ tests: true, long: isCompleteTier || suiteNames.some((name) => SUITES[name].long) });
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    console.log(error.message);
    report.fail('set-up', 'see above');
  }
  for (const folder of ['failed', 'tap']) rmSync(join(REPORTS, folder), { recursive: true, force: true });
  const durations = new Durations(join(REPORTS, 'durations.json'), ESTIMATED_SECONDS);
  const passed = new Passed(join(REPORTS, 'passed.json'));
  const printDuration = (/** @type {string} */ phase, /** @type {number} */ start) =>
    console.log(`    ${phase} took ${((Date.now() - start) / 1000).toFixed(0)} s`);
  if (!suiteNames.length) report.leftOut('npm test -- peers', 'runs only if it is named');
  /** @type {Set<string>} */
  const builtNames = new Set();
  for (const isLongTier of [false, true]) {
    const suites = Object.entries(SUITES).filter(([name, suite]) => isSelected(name, suite, isLongTier));
    if (!tools || !suites.length) continue;
    report.heading(suites.map(([name]) => name).join(', '));
    let phaseStart = Date.now();
    for (const [name, build] of Object.entries(BUILDS)) {
      if (builtNames.has(name) || !suites.some(([, { needs = [] }]) => needs.includes(/** @type {Build} */ (name))))
        continue;
      builtNames.add(name);
      try {
        await build(report, tools);
      } catch (error) {
        report.fail(name, error instanceof SetupError ? error.message : String(/** @type {Error} */ (error).stack));
      }
    }
    printDuration('building', phaseStart);
    phaseStart = Date.now();
    const jobs = suites.flatMap(([name, { jobs }]) => {
      const suiteJobs = jobs?.(/** @type {Tools} */ (tools)) ?? [];
      if (jobs && !suiteJobs.length) report.fail(name, 'no tests found');
      return suiteJobs;
    });
    const isWithin = (/** @type {number} */ minutes) =>
      !isLongTier || !args.includes('--all') || Date.now() - runStart < minutes * 60_000;
    const mayBegin = () => isWithin(START_LIMIT_MINUTES);
    const slots = availableParallelism();
    const mayRetry = () => isWithin(RETRY_LIMIT_MINUTES);
    await runJobs(withoutUnchanged(jobs, passed), { slots, durations, report, mayBegin, mayRetry });
    for (const [name, { run }] of suites) {
      try {
        if (mayBegin()) await run?.(report, tools);
      } catch (error) {
        report.fail(name, error instanceof SetupError ? error.message : String(/** @type {Error} */ (error).stack));
      }
    }
    printDuration('testing', phaseStart);
    durations.save();
  }
  console.log(`\nslowest jobs:\n${durations.slowest(10).join('\n')}`);
  return report.finish(existsSync(join(process.env.BQ4_SHARED ?? join(ROOT, '..', 'shared'), 'data')));
});
