// The commands `npm run bench` and `npm run bench:peers`. The second command also measures other runtimes.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildWasm, runMake } from '../build.mjs';
import { ROOT, setUp } from '../setup/setup.mjs';
import { findFirefox } from '../setup/system.mjs';
import { run, say, SetupError } from '../setup/shell.mjs';
import { SHAPES } from '../make_random.mjs';
import { nameOf, visitsOf } from './cells.mjs';
import { Pages, visitLlamaWasm, visitNative, visitRead } from './drivers.mjs';
import { measureExtras } from './extras.mjs';
import { benchPython, peerPayloads, provideLlamaWasm, provideNative, providePeers, sizesOf } from './install.mjs';
import { readMachine } from './machine.mjs';
import { provideModel } from './models.mjs';
import { makeDist, PAGE_SCRIPTS, sizeOf } from '../payload.mjs';
import { figures } from './figures.mjs';
import { reportText, shortTable, targetsTable } from './report.mjs';
import { removeEntries, readEntries, runVisits } from './runner.mjs';
import { SCRIPTS } from './targets.mjs';

const RESULTS = join(ROOT, 'build', 'bench', 'results.jsonl');

/** Returns the help text of a command. @param {boolean} peers */
const helpText = (peers) => `npm run ${peers ? 'bench:peers' : 'bench'} -- [options]

${peers ? 'Times bq4, other runtimes for browsers and native llama.cpp' : 'Times bq4'} on models with random weights and writes
docs/log/benchmarks.md when everything is measured. Run no other programs on the machine meanwhile. Each result is appended to
build/bench/results.jsonl: if a run is interrupted, the same command continues it.

--shapes    shapes of tools/make_random.mjs; default 15m,135m,500m
--runs      number of rounds, in each of which every cell is measured once; default 5. Shapes other than 135m have at
            most 3 rounds; rounds after the third of measurements without a target are measured last
--only      measure only names that match this regular expression, for instance '^native', 'wllama 3', '135m.*1t'
--browser   additional browser for bq4 itself; default: firefox if it is installed
--extras    measure only low-bit types, simultaneous sessions and draft tokens, and write them to docs/benchmarks;
            without --only and --quick they are measured after everything else
--budget-s  stop after about this number of seconds
--quick     3 rounds of the 15m shape
--list      print the names of all measurements
--forget    delete the results whose names match this regular expression
--report    measure nothing; write the report from the present results
`;

/** Returns a hash of the files that bq4's results depend on: after a change these are measured again. */
function buildHash() {
  const hash = createHash('sha256');
  const files = (/** @type {string} */ folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .sort()
      .filter((name) => /\.(js|wasm)$/.test(name))
      .map((name) => join(ROOT, folder, name));
  for (const file of [...files('js'), ...files('build/wasm')]) hash.update(readFileSync(file));
  return hash.digest('hex').slice(0, 10);
}

/** Returns the sizes of bq4's JavaScript and wasm files that a page loads. */
function payload() {
  const problem = makeDist();
  if (problem) throw new SetupError(problem);
  const scripts = PAGE_SCRIPTS.map(sizeOf);
  const sum = (/** @type {'raw' | 'gzip'} */ what) => scripts.reduce((total, size) => total + size[what], 0);
  const wasm = readdirSync(join(ROOT, 'build/wasm')).filter((name) => name.endsWith('.wasm'));
  return {
    [SCRIPTS]: { raw: sum('raw'), gzip: sum('gzip') },
    ...Object.fromEntries(wasm.map((name) => [name, sizesOf([join(ROOT, 'build/wasm', name)])])),
  };
}

/** Runs the command. @param {{ peers: boolean }} options  `peers`: whether other runtimes are measured too */
export async function main({ peers }) {
  const { values } = parseArgs({
    options: {
      shapes: { type: 'string' },
      runs: { type: 'string' },
      only: { type: 'string' },
      browser: { type: 'string', multiple: true },
      'budget-s': { type: 'string' },
      quick: { type: 'boolean' },
      list: { type: 'boolean' },
      extras: { type: 'boolean' },
      forget: { type: 'string' },
      report: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return void process.stdout.write(helpText(peers));
  const shapes = values.quick ? ['15m'] : (values.shapes ?? '15m,135m,500m').split(',');
  for (const shape of shapes)
    if (!Object.hasOwn(SHAPES, shape))
      throw new SetupError(`expected --shapes of ${Object.keys(SHAPES).join(', ')}; found "${shape}"`);
  const rounds = Number(values.runs ?? (values.quick ? 3 : 5));
  const visits = visitsOf({
    shapes,
    peers,
    browsers: values.browser ?? (findFirefox() ? ['firefox'] : []),
    only: values.only,
  });
  if (values.list) return void console.log(visits.map(nameOf).join('\n'));
  if (values.forget)
    return removeEntries(RESULTS, ({ name }) => new RegExp(/** @type {string} */ (values.forget)).test(name));
  const start = performance.now();
  const tools = await setUp({ tests: true });
  const python = await benchPython(tools);
  if (!values.report && !values.extras) {
    const remaining = await measureAll(tools, python, visits, {
      rounds,
      endTime: values['budget-s'] ? start + Number(values['budget-s']) * 1e3 : Infinity,
    });
    if (remaining) return void say(`${remaining} visits remain: the same command continues with them`);
  }
  if (values.only && !values.report) return;
  if (values.extras || !(values.quick || values.report)) await measureExtras(tools);
  if (values.extras && !existsSync(RESULTS)) return;
  await writeReport(python);
}

/**
 * Measures the visits, and returns the number of those for which there was no time.
 * @param {import('../setup/setup.mjs').Tools} tools @param {string} python @param {import('./cells.mjs').Visit[]} visits
 * @param {{ rounds: number, endTime: number }} options  `endTime`: of `performance.now()`
 */
async function measureAll(tools, python, visits, { rounds, endTime }) {
  const usesRuntime = (/** @type {RegExp} */ pattern) => visits.some(({ runtime }) => pattern.test(runtime));
  await buildWasm(tools);
  if (usesRuntime(/limit/) && !(await runMake(tools, ['bench-token'])))
    throw new SetupError('the bare loop could not be built: the output of make above contains the reason');
  if (usesRuntime(/wllama|ort|tjs|native|llama-wasm/)) await providePeers();
  const native = usesRuntime(/native/) ? await provideNative(tools) : null;
  // If llama.cpp cannot be built to wasm, only its own visits fail, with this error.
  /** @type {any} */
  const llamaWasm = usesRuntime(/llama-wasm/)
    ? await provideLlamaWasm(tools).catch((/** @type {Error} */ error) => error)
    : null;
  const hasReadProgram = usesRuntime(/read/) ? await runMake(tools, ['build/native/bench-read']) : null;
  for (const visit of visits) await provideModel(visit, python);
  const build = buildHash();
  const { flags } = readMachine();
  const pages = new Pages();
  try {
    return await runVisits({
      path: RESULTS,
      visits,
      rounds,
      say,
      budgetMs: endTime - performance.now(),
      subjectOf: ({ runtime }) => (/^(bq4|limit|read)$/.test(runtime) ? build : ''),
      make: async (visit) => {
        if (visit.runtime === 'native')
          return visitNative(visit, /** @type {import('./install.mjs').Native} */ (native), flags);
        if (visit.runtime === 'read' && !hasReadProgram) throw new Error('unsupported: bench-read could not be built');
        if (visit.runtime === 'read') return visitRead(visit);
        if (visit.runtime === 'llama-wasm' && llamaWasm instanceof Error) throw llamaWasm;
        if (visit.runtime === 'llama-wasm') return visitLlamaWasm(visit, /** @type {string} */ (tools.node), llamaWasm);
        return pages.visit(visit);
      },
    });
  } finally {
    await pages.close();
  }
}

/** Returns a document with another table between the comments of that name. @param {string} text @param {string} table @param {string} [name] */
export const replaceTable = (text, table, name = 'benchmarks') =>
  text.replace(
    new RegExp(`(<!-- ${name}: [^>]*-->\\n)[^]*?(<!-- end of ${name} -->)`),
    (_, begin, end) => `${begin}${table}\n${end}`,
  );

/** Writes the report, the plots and the tables of docs/benchmarks.md. @param {string} python */
async function writeReport(python) {
  const entries = readEntries(RESULTS);
  if (!entries.length)
    throw new SetupError(`expected results in ${RESULTS}, found none: run this command without --report`);
  const hasPeers = existsSync(join(ROOT, 'build/bench/peers/node_modules'));
  const results = figures(entries, {
    machine: readMachine(),
    payload: { bq4: payload(), peers: hasPeers ? peerPayloads() : {} },
  });
  const json = join(ROOT, 'build', 'bench', 'figures.json');
  const report = join(ROOT, 'docs', 'log', 'benchmarks.md');
  mkdirSync(dirname(json), { recursive: true });
  writeFileSync(json, `${JSON.stringify(results, null, 2)}\n`);
  await run(python, [join(ROOT, 'tools/bench/plots.py'), json, join(ROOT, 'docs', 'benchmarks')]);
  // Results of other commands. Each of these files names the command that wrote it.
  const otherReports = readdirSync(join(ROOT, 'docs', 'benchmarks'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => readFileSync(join(ROOT, 'docs', 'benchmarks', name), 'utf8'));
  writeFileSync(report, [reportText(results), ...otherReports].join('\n'));
  const summaryPath = join(ROOT, 'docs', 'benchmarks.md');
  const text = replaceTable(readFileSync(summaryPath, 'utf8'), shortTable(results));
  writeFileSync(summaryPath, replaceTable(text, targetsTable(results), 'targets'));
  say('wrote docs/log/benchmarks.md, docs/benchmarks/*.svg and the tables in docs/benchmarks.md');
}
