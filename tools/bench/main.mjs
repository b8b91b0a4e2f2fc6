// The two commands `npm run bench` and `npm run bench:peers`: they differ in what is visited.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildWasm, make } from '../build.mjs';
import { ROOT, setUp } from '../setup/setup.mjs';
import { findFirefox } from '../setup/system.mjs';
import { run, say, SetupError } from '../setup/shell.mjs';
import { SHAPES } from '../make_random.mjs';
import { nameOf, visitsOf } from './cells.mjs';
import { Pages, visitLlamaWasm, visitNative, visitRead } from './drivers.mjs';
import { measureExtras } from './extras.mjs';
import { benchPython, payloads, provideLlamaWasm, provideNative, providePeers, weigh } from './install.mjs';
import { machine } from './machine.mjs';
import { provideModel } from './models.mjs';
import { makeDist, PAGE, sizeOf } from '../payload.mjs';
import { figures } from './figures.mjs';
import { reportText, shortTable, targetsTable } from './report.mjs';
import { forget, readEntries, runVisits } from './runner.mjs';
import { SCRIPTS } from './targets.mjs';

const RESULTS = join(ROOT, 'build', 'bench', 'results.jsonl');

/** @param {boolean} peers */
const help = (peers) => `npm run ${peers ? 'bench:peers' : 'bench'} -- [options]

${peers ? 'Times bq4, other runtimes for browsers and native llama.cpp' : 'Times bq4'} on models with random weights and writes
docs/log/benchmarks.md when all is measured. Leave the machine alone meanwhile. Results are kept in
build/bench/results.jsonl as they come: the same command goes on where the last one stopped.

--shapes    of tools/make_random.mjs; default 15m,135m,500m
--runs      rounds, one measurement of every cell each; default 5. At most 3 of other
            shapes than 135m; past 3, what no target asks for comes last
--only      measure what has this regular expression in its name, for instance '^native', 'wllama 3', '135m.*1t'
--browser   more browsers for bq4 itself; default: firefox where there is one
--extras    only what has no visits: types of few bits, sessions at the same time, guesses, into docs/benchmarks;
            without --only and --quick they come after all visits
--budget-s  stop after about so many seconds
--quick     3 runs of the 15m shape
--list      name what would be measured
--forget    throw the results away whose name has this regular expression
--report    measure nothing, write the report of what is there
`;

/** The files whose change makes our own results old. */
function ourBuild() {
  const hash = createHash('sha256');
  const files = (/** @type {string} */ folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .sort()
      .filter((name) => /\.(js|wasm)$/.test(name))
      .map((name) => join(ROOT, folder, name));
  for (const file of [...files('js'), ...files('build/wasm')]) hash.update(readFileSync(file));
  return hash.digest('hex').slice(0, 10);
}

/** JavaScript and wasm that a page loads of ours. */
function ourPayload() {
  const failed = makeDist();
  if (failed) throw new SetupError(failed);
  const scripts = PAGE.map(sizeOf);
  const sum = (/** @type {'raw' | 'gzip'} */ what) => scripts.reduce((total, size) => total + size[what], 0);
  const wasm = readdirSync(join(ROOT, 'build/wasm')).filter((name) => name.endsWith('.wasm'));
  return {
    [SCRIPTS]: { raw: sum('raw'), gzip: sum('gzip') },
    ...Object.fromEntries(wasm.map((name) => [name, weigh([join(ROOT, 'build/wasm', name)])])),
  };
}

/** @param {{ peers: boolean }} which */
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
  if (values.help) return void process.stdout.write(help(peers));
  const shapes = values.quick ? ['15m'] : (values.shapes ?? '15m,135m,500m').split(',');
  for (const shape of shapes) if (!Object.hasOwn(SHAPES, shape)) throw new SetupError(`there is no shape ${shape}`);
  const rounds = Number(values.runs ?? (values.quick ? 3 : 5));
  const visits = visitsOf({
    shapes,
    peers,
    browsers: values.browser ?? (findFirefox() ? ['firefox'] : []),
    only: values.only,
  });
  if (values.list) return void console.log(visits.map(nameOf).join('\n'));
  if (values.forget) return forget(RESULTS, ({ name }) => new RegExp(/** @type {string} */ (values.forget)).test(name));
  const started = performance.now();
  const tools = await setUp({ tests: true });
  const python = await benchPython(tools);
  if (!values.report && !values.extras) {
    const left = await measureAll(tools, python, visits, {
      rounds,
      ends: values['budget-s'] ? started + Number(values['budget-s']) * 1e3 : Infinity,
    });
    if (left) return void say(`${left} visits left: the same command goes on`);
  }
  if (values.only && !values.report) return;
  if (values.extras || !(values.quick || values.report)) await measureExtras(tools);
  if (values.extras && !existsSync(RESULTS)) return;
  await writeReport(python);
}

/**
 * @param {import('../setup/setup.mjs').Tools} tools @param {string} python @param {import('./cells.mjs').Visit[]} visits
 * @param {{ rounds: number, ends: number }} options
 */
async function measureAll(tools, python, visits, { rounds, ends }) {
  const uses = (/** @type {RegExp} */ what) => visits.some(({ runtime }) => what.test(runtime));
  await buildWasm(tools);
  if (uses(/limit/) && !(await make(tools, ['bench-token'])))
    throw new SetupError('the bare loop could not be built, see above');
  if (uses(/wllama|ort|tjs|native|llama-wasm/)) await providePeers();
  const native = uses(/native/) ? await provideNative(tools) : null;
  /** What can't be had costs its own visits only. @param {() => Promise<any>} get */
  const orWhy = (get) => get().catch((/** @type {Error} */ error) => error);
  const llamaWasm = uses(/llama-wasm/) ? await orWhy(() => provideLlamaWasm(tools)) : null;
  const read = uses(/read/) ? await make(tools, ['build/native/bench-read']) : null;
  for (const visit of visits) await provideModel(visit, python);
  const build = ourBuild();
  const { flags } = machine();
  const pages = new Pages();
  try {
    return await runVisits({
      path: RESULTS,
      visits,
      rounds,
      say,
      budgetMs: ends - performance.now(),
      subjectOf: ({ runtime }) => (/^(us|limit|read)$/.test(runtime) ? build : ''),
      make: async (visit) => {
        if (visit.runtime === 'native')
          return visitNative(visit, /** @type {import('./install.mjs').Native} */ (native), flags);
        if (visit.runtime === 'read' && !read) throw new Error('unsupported: bench-read could not be built here');
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

/** A document with another table between the marks of that name. @param {string} text @param {string} table @param {string} [name] */
export const withTable = (text, table, name = 'benchmarks') =>
  text.replace(
    new RegExp(`(<!-- ${name}: [^>]*-->\\n)[^]*?(<!-- end of ${name} -->)`),
    (_, begin, end) => `${begin}${table}\n${end}`,
  );

/** @param {string} python */
async function writeReport(python) {
  const entries = readEntries(RESULTS);
  if (!entries.length) throw new SetupError('nothing is measured yet');
  const peersThere = existsSync(join(ROOT, 'build/bench/peers/node_modules'));
  const output = figures(entries, {
    machine: machine(),
    payload: { ours: ourPayload(), peers: peersThere ? payloads() : {} },
  });
  const json = join(ROOT, 'build', 'bench', 'figures.json');
  const report = join(ROOT, 'docs', 'log', 'benchmarks.md');
  mkdirSync(dirname(json), { recursive: true });
  writeFileSync(json, `${JSON.stringify(output, null, 2)}\n`);
  await run(python, [join(ROOT, 'tools/bench/plots.py'), json, join(ROOT, 'docs', 'benchmarks')]);
  // What other commands measured, each file of which names its own.
  const others = readdirSync(join(ROOT, 'docs', 'benchmarks'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => readFileSync(join(ROOT, 'docs', 'benchmarks', name), 'utf8'));
  writeFileSync(report, [reportText(output), ...others].join('\n'));
  const summary = join(ROOT, 'docs', 'benchmarks.md');
  const text = withTable(readFileSync(summary, 'utf8'), shortTable(output));
  writeFileSync(summary, withTable(text, targetsTable(output), 'targets'));
  say('wrote docs/log/benchmarks.md, docs/benchmarks/*.svg and the tables in docs/benchmarks.md');
}
