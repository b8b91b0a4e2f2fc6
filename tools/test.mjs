#!/usr/bin/env node
// `npm test`: sets up and runs what a change can break. `npm run test:long`: the rest, which takes longer than it often
// tells. `npm test -- c js` runs some suites, of both kinds. The last line of output counts passed, failed and skipped tests.
//
// A file NAME.test.mjs is run by `npm test`, a file NAME.long.mjs by `npm run test:long`; the table SUITES says the rest.
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { buildWasm, make } from './build.mjs';
import { makeDist } from './payload.mjs';
import { failuresIn, Report } from './testing/report.mjs';
import { runProgram } from './testing/program.mjs';
import { say, SetupError } from './setup/shell.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

/** @typedef {import('./setup/setup.mjs').Tools} Tools */
/** @typedef {(report: Report, tools: Tools) => Promise<void>} Run */
/** @typedef {{ long?: boolean, named?: boolean, run: Run }} Suite  `long`: not part of `npm test`; `named`: of nothing, it runs when it is named */

/** Longest that one program of a suite may run, in seconds: a hang must not hang everything. */
const PATIENCE = 900;
/** Longest that one test in JavaScript may take, in seconds, unless it says otherwise: of files for `npm test`, and of long ones. */
const [TEST, LONG_TEST] = [150, 300];
/** Seconds of all fuzzers together, in `npm test` and in the long run. */
const [FUZZ, LONG_FUZZ] = [20, 300];

/** `--all` begins no long suite after so many minutes: a slow machine says what it left out, rather than be stopped and say nothing. */
const MINUTES = 50;

/** Quick enough to be run with the type checker: which file may use which. */
const LAYERS = ['tests/js/layers.test.mjs'];

/**
 * Files of a folder under tests/ whose names match, with forward slashes, from the root.
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

/** Work on each name, as many at once as the machine has cores. @param {readonly string[]} names @param {(name: string) => Promise<void>} work */
async function inParallel(names, work) {
  const left = [...names];
  const one = async () => {
    for (let name = left.shift(); name; name = left.shift()) await work(name);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, one));
}

/**
 * The C tests of one build.
 * @param {Report} report
 * @param {Tools} tools
 * @param {string} config of emscripten.mk
 * @param {boolean} [wasm]
 */
async function cTests(report, tools, config, wasm = false) {
  const names = testFiles('c', /^test_.*\.c$/).map((path) => path.slice('tests/c/'.length, -'.c'.length));
  if (!names.length) return report.fail(config, 'no tests found in tests/c');
  // With -k, make goes on after an error: what could be built runs, the rest has failed.
  const built = await make(tools, [config]);
  if (!built) report.fail(config, 'did not build');
  const env = {
    ...process.env,
    ASAN_OPTIONS: 'detect_leaks=1:detect_stack_use_after_return=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
  };
  await inParallel(names, async (name) => {
    const program = join(ROOT, 'build', config, wasm ? `${name}.js` : name);
    if (!built && !existsSync(program)) return;
    const line = wasm ? [/** @type {string} */ (tools.node), program] : [program];
    const result = await runProgram(line, { cwd: ROOT, env, seconds: PATIENCE });
    const summary = /^(\d+) passed, (\d+) failed, (\d+) skipped$/.exec(
      result.output.trimEnd().split('\n').at(-1) ?? '',
    );
    const [passed, failed, skipped] = (summary ?? [0, 0, 0, 0]).slice(1).map(Number);
    const died = result.status !== 0 && failed === 0;
    report.add(
      `${config}/${name}`,
      { passed, failed: failed + (died || !summary ? 1 : 0), skipped },
      {
        output: result.output,
        failures: result.output.split('\n').filter((text) => /: FAILED$|: failed at|runtime error:|ERROR: /.test(text)),
        note: died ? `ended with ${result.status}` : summary ? '' : 'printed no summary',
      },
    );
  });
}

/**
 * Makes dist/ once for all files of a suite: two that made it at the same time would read what is half there.
 * @param {Report} report @param {Tools} tools @returns {Tools} with which tests know that it is there
 */
function withDist(report, tools) {
  const wrong = makeDist();
  if (wrong) report.one('dist', false, { output: wrong });
  return wrong ? tools : { ...tools, env: { ...tools.env, BQ4_DIST: 'made' } };
}

/** Makes what the C tests read from files: build/tokenizers, build/golden. @type {Run} */
async function cTestData(report, tools) {
  await buildWasm(tools); // weights are encoded by a module
  for (const script of ['make_tokn', 'make_golden']) {
    const line = [/** @type {string} */ (tools.node), `tests/tools/${script}.mjs`];
    const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: PATIENCE });
    if (status !== 0) report.one(`data for the C tests: ${script}`, false, { output, note: `ended with ${status}` });
  }
}

/**
 * Tests written for node --test.
 * @param {Report} report
 * @param {Tools} tools
 * @param {string} name
 * @param {string[]} files
 * @param {{ together?: boolean, atOnce?: number, browsers?: string }} [options]  `together`: in one process, where they share
 *   browsers; else `atOnce`: so many files, each in a process; `browsers`: in these, whatever a file says
 */
async function nodeTests(report, tools, name, files, { together = false, atOnce = 1, browsers } = {}) {
  if (!files.length) return report.fail(name, 'no tests found');
  const tap = join(ROOT, 'build', 'reports', `${name}.tap`);
  mkdirSync(join(ROOT, 'build', 'reports'), { recursive: true });
  const seconds = files.every((path) => path.endsWith('.long.mjs')) ? LONG_TEST : TEST;
  const line = [
    /** @type {string} */ (tools.node),
    '--test',
    `--test-timeout=${1000 * seconds}`,
    // Not for files with processes of their own: those would end before all that they reported has been read.
    ...(together ? ['--test-isolation=none', '--test-force-exit'] : [`--test-concurrency=${atOnce}`]),
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=tap',
    `--test-reporter-destination=${tap}`,
    ...files,
  ];
  const env = {
    ...tools.env,
    CHROME_PATH: tools.chromium,
    BQ4_PYTHON: tools.testPython,
    ...(browsers && { BQ4_BROWSERS: browsers }),
  };
  // A file whose test has failed may never end, since nobody closes what that test has opened.
  const silence = seconds === LONG_TEST ? 4 * seconds : 2 * seconds;
  const result = await runProgram(line, { cwd: ROOT, env, seconds: 3 * PATIENCE, silence, show: true });
  const text = existsSync(tap) ? readFileSync(tap, 'utf8') : '';
  const count = (/** @type {string} */ what) => Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  const failed = count('fail') + count('cancelled') + count('todo');
  const died = (result.status !== 0 || !/^# tests \d+$/m.test(text)) && failed === 0;
  report.add(
    name,
    { passed: count('pass'), failed: failed + (died ? 1 : 0), skipped: count('skipped') },
    { note: died ? `node --test ended with ${result.status}` : '', failures: failuresIn(text) },
  );
}

/** @type {Run} */
async function pythonTests(report, tools) {
  if (!testFiles('py', /^test_.*\.py$/).length) return report.fail('py', 'no tests found in tests/py');
  const line = [
    /** @type {string} */ (tools.testPython),
    '-B',
    '-m',
    'unittest',
    'discover',
    '-v',
    '-s',
    'tests/py',
    '-t',
    'tests/py',
    '-p',
    'test_*.py',
  ];
  const result = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: PATIENCE, show: true });
  const ran = Number(/^Ran (\d+) tests?/m.exec(result.output)?.[1] ?? 0);
  const verdict = result.output.trimEnd().split('\n').at(-1) ?? '';
  const count = (/** @type {string} */ what) => Number(new RegExp(`\\b${what}=(\\d+)`).exec(verdict)?.[1] ?? 0);
  const failed = count('failures') + count('errors') + count('unexpected successes');
  const died = (result.status !== 0 || !/^OK\b/.test(verdict)) && failed === 0;
  const skipped = count('skipped');
  report.add(
    'py',
    { passed: Math.max(0, ran - failed - skipped), failed: failed + (died ? 1 : 0), skipped },
    { note: died ? `unittest ended with ${result.status}` : '' },
  );
}

/** @type {Run} */
async function checks(report, tools) {
  const tsc = join(ROOT, 'node_modules', '.bin', 'tsc');
  const lint = join(ROOT, 'node_modules', '.bin', 'oxlint');
  for (const [name, line] of /** @type {[string, string[]][]} */ ([
    ['types of js, bin, tools and demo', [tsc, '-p', 'tsconfig.json']],
    ['types of the tests', [tsc, '-p', 'tsconfig.tests.json']],
    ['type declarations', [tsc, '-p', 'tsconfig.types.json']],
    [
      'formatter (npm run format mends)',
      [join(ROOT, 'node_modules', '.bin', 'prettier'), '--log-level', 'warn', '--check', '.'],
    ],
    ['linter', [lint, '--type-aware', '--deny-warnings', 'js', 'bin', 'demo', 'tools', 'tests']],
  ])) {
    const result = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: PATIENCE });
    report.one(name, result.status === 0, { output: result.output });
  }
  await nodeTests(report, tools, 'layers', LAYERS);
}

/**
 * Every fuzzer runs for its share of the seconds: guided by clang's libFuzzer, and as wasm, where sizes have 32 bits.
 * @param {Report} report @param {Tools} tools @param {number} all
 */
async function fuzz(report, tools, all) {
  const names = testFiles('fuzz', /^fuzz_.*\.c$/).map((path) => path.slice('tests/fuzz/fuzz_'.length, -'.c'.length));
  if (!names.length) return report.fail('fuzz', 'no fuzzers found in tests/fuzz');
  if (!(await make(tools, ['fuzz']))) return report.fail('fuzz', 'did not build');
  const seconds = Math.max(1, Math.round(Number(process.env.BQ4_FUZZ_SECONDS ?? all) / names.length / 2));
  for (const name of names) {
    const found = `build/fuzz/corpus/${name}`;
    mkdirSync(join(ROOT, found), { recursive: true });
    const [seeds, dictionary] = [`tests/fuzz/corpus/${name}`, `tests/fuzz/${name}.dict`];
    say(`fuzzing ${name} for ${seconds} s`);
    const result = await runProgram(
      [
        `build/fuzz/fuzz_${name}`,
        `-max_total_time=${seconds}`,
        '-timeout=20',
        '-rss_limit_mb=2048',
        '-print_final_stats=1',
        `-artifact_prefix=build/fuzz/${name}-`,
        ...(existsSync(join(ROOT, dictionary)) ? [`-dict=${dictionary}`] : []),
        found,
        ...(existsSync(join(ROOT, seeds)) ? [seeds] : []),
      ],
      { cwd: ROOT, env: process.env, seconds: seconds + PATIENCE },
    );
    const runs = /number_of_executed_units:\s*(\d+)/.exec(result.output)?.[1];
    report.one(`fuzz/${name}`, result.status === 0 && Number(runs) > 0, {
      output: result.output,
      note: runs ? `${runs} inputs` : `ended with ${result.status}`,
    });
  }
  if (!(await make(tools, ['fuzz-wasm']))) return report.fail('fuzz-wasm', 'did not build');
  for (const name of names) await fuzzWasm(report, tools, name, seconds);
}

/**
 * The same inputs every time, as far as the seconds last.
 * @param {Report} report @param {Tools} tools @param {string} name @param {number} seconds
 */
async function fuzzWasm(report, tools, name, seconds) {
  const seeds = testFiles(`fuzz/corpus/${name}`, /./);
  say(`fuzzing ${name} as wasm for ${seconds} s`);
  const line = [/** @type {string} */ (tools.node), `build/fuzz-wasm/fuzz_${name}.js`, '1', String(seconds), ...seeds];
  const result = await runProgram(line, { cwd: ROOT, env: process.env, seconds: seconds + PATIENCE });
  const inputs = /^(\d+ inputs from .*, sizes of 32 bits)$/m.exec(result.output)?.[1];
  report.one(`fuzz-wasm/${name}`, result.status === 0 && !!inputs && !inputs.startsWith('0 '), {
    output: result.output,
    note: inputs ?? `ended with ${result.status}`,
  });
}

/** What docs/MODELS.md says is what the tests have measured, where all of those have run: in c, js and js-long. @type {Run} */
async function modelsDocument(report, tools) {
  const line = [/** @type {string} */ (tools.node), 'tools/models-doc.mjs', '--check'];
  const { status, output } = await runProgram(line, { cwd: ROOT, env: tools.env, seconds: PATIENCE });
  if (status === 2) console.log(`docs/MODELS.md IS NOT COMPARED: ${output.trimEnd()}`);
  else report.one('docs/MODELS.md', status === 0, { output });
}

/** Of a suite in JavaScript. @param {RegExp} names @param {...string} folders */
const filesOf = (names, ...folders) =>
  folders.flatMap((folder) => testFiles(folder, names)).filter((path) => !LAYERS.includes(path));

/** Tests in every browser, which share one of each kind. @param {string} path */
const sharesBrowsers = (path) => readFileSync(join(ROOT, path), 'utf8').includes("from './every.mjs'");

/** Those of them that `npm test` runs in Chromium alone. @param {string} path */
const chromiumFirst = (path) => readFileSync(join(ROOT, path), 'utf8').includes('await chromiumFirst(');

/**
 * Those with a browser of their own beside those that share some: tests of pages wait for much that takes no core.
 * @param {Report} report @param {Tools} tools @param {RegExp} names @param {[string, string]} halves  what they are called
 */
async function browserTests(report, tools, names, [own, shared]) {
  await buildWasm(tools);
  const made = withDist(report, tools);
  const files = filesOf(names, 'browser');
  await Promise.all([
    nodeTests(
      report,
      made,
      own,
      files.filter((path) => !sharesBrowsers(path)),
    ),
    nodeTests(report, made, shared, files.filter(sharesBrowsers), { together: true }),
  ]);
}

/** In this order. @type {Record<string, Suite>} */
const SUITES = {
  check: { run: checks },
  c: {
    async run(report, tools) {
      await cTestData(report, tools);
      await cTests(report, tools, 'test-gcc');
    },
  },
  wasm: {
    async run(report, tools) {
      await cTestData(report, tools);
      await cTests(report, tools, 'test-wasm-simd128', true);
      await cTests(report, tools, 'test-wasm-relaxed', true);
    },
  },
  gates: {
    async run(report, tools) {
      if (!(await make(tools, ['wasm', 'native']))) return report.fail('gates', 'did not build');
      await nodeTests(report, tools, 'gates', testFiles('gates', /\.test\.mjs$/));
    },
  },
  js: {
    async run(report, tools) {
      await buildWasm(tools);
      await nodeTests(report, tools, 'js', filesOf(/\.test\.mjs$/, 'setup', 'server', 'js'), {
        atOnce: availableParallelism(),
      });
    },
  },
  py: {
    async run(report, tools) {
      if (!(await make(tools, ['native']))) return report.fail('py', 'did not build');
      await pythonTests(report, tools);
    },
  },
  browser: { run: (report, tools) => browserTests(report, tools, /\.test\.mjs$/, ['browser', 'every-browser']) },
  fuzz: { run: (report, tools) => fuzz(report, tools, FUZZ) },
  'js-long': {
    long: true,
    async run(report, tools) {
      await buildWasm(tools);
      await nodeTests(report, tools, 'js-long', filesOf(/\.long\.mjs$/, 'js'));
      await modelsDocument(report, tools);
    },
  },
  // Every bundler, a model of the 135M shape, twenty loads, restarts; what a person does on the demo, in every browser.
  'browser-long': {
    long: true,
    run: (report, tools) => browserTests(report, tools, /\.long\.mjs$/, ['browser-long', 'every-browser-long']),
  },
  // What `npm test` runs in Chromium alone.
  'other-browsers': {
    long: true,
    async run(report, tools) {
      await buildWasm(tools);
      const others = filesOf(/\.test\.mjs$/, 'browser').filter(chromiumFirst);
      await nodeTests(report, withDist(report, tools), 'other-browsers', others, {
        together: true,
        browsers: 'firefox,webkit',
      });
    },
  },
  // The same C tests by another compiler, with other sanitizers.
  'c-clang': {
    long: true,
    async run(report, tools) {
      await cTestData(report, tools);
      await cTests(report, tools, 'test-clang');
    },
  },
  // Programs that others made, built for some minutes: by its name alone, never part of the others.
  peers: {
    named: true,
    async run(report, tools) {
      await buildWasm(tools);
      await (await import('./bench/install.mjs')).provideLlamaServer();
      await nodeTests(report, tools, 'peers', testFiles('peers', /\.test\.mjs$/));
    },
  },
  'fuzz-long': { long: true, run: (report, tools) => fuzz(report, tools, LONG_FUZZ) },
};

/** Both tiers, or the long one; `npm test` itself is the other. */
const TIERS = ['--all', '--long'];

await command(async () => {
  const words = process.argv.slice(2);
  const named = words.filter((word) => !TIERS.includes(word));
  /** @param {string} name @param {Suite} suite */
  const wanted = (name, { long = false, named: asked = false }) =>
    named.length ? named.includes(name) : !asked && (words.includes('--all') || long === words.includes('--long'));
  const unknown = named.filter((name) => !(name in SUITES));
  if (unknown.length)
    throw new SetupError(`no suite ${unknown.join(', ')}; there are: ${Object.keys(SUITES).join(' ')}`);
  const report = new Report();
  const begun = Date.now();
  /** @type {Tools | undefined} */
  let tools;
  try {
    tools = await setUp({ tests: true });
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    console.log(error.message);
    report.fail('set-up', 'see above');
  }
  for (const [name, suite] of Object.entries(SUITES)) {
    if (suite.named && !named.length) report.leftOut(name, 'by its name alone');
    if (!tools || !wanted(name, suite)) continue;
    report.heading(name);
    if (suite.long && words.includes('--all') && Date.now() - begun > MINUTES * 60_000) {
      report.leftOut(name, `after ${MINUTES} minutes no long suite begins`);
      console.log(`left out: ${MINUTES} minutes have passed`);
      continue;
    }
    const start = Date.now();
    try {
      await suite.run(report, tools);
    } catch (error) {
      report.fail(name, error instanceof SetupError ? error.message : String(/** @type {Error} */ (error).stack));
    }
    console.log(`    ${name} took ${((Date.now() - start) / 1000).toFixed(0)} s`);
  }
  return report.finish(existsSync(join(process.env.BQ4_SHARED ?? join(ROOT, '..', 'shared'), 'data')));
});
