// Compares our renderer of chat templates (js/text/templates) with @huggingface/jinja: outputs, size, duration, and templates that
// do not end. Python's jinja2 is the reference for outputs. The library is downloaded from npm into build/bench/jinja. For
// docs/decisions/0023.
//
//   BQ4_PYTHON=python-with-jinja2 node tests/bench/template-library.mjs
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { compile } from '../../js/text/templates/jinja.js';
import { median } from '../../tools/bench/stats.mjs';
import { npmPack } from '../../tools/setup/npm.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import { run } from '../../tools/setup/shell.mjs';
import { conversations, ENDLESS, randomCases, renderWithPython } from '../js/templates-suite.mjs';

const LIBRARY = {
  package: '@huggingface/jinja@0.5.11',
  sha512: 'YzEzwM5oQf4r0vs7ifWQ+yuVR1YkAHrjERQ+a8WRsStHHp4NRBg+NesjiFc+X2AFUpRvvrIeHDS1xFy9jY/IjQ==',
};
const FOLDER = join(ROOT, 'build/bench/jinja');
const ENTRY = join(FOLDER, 'package/dist/index.js');
/** Published templates with values; not part of the repository. */
const PUBLISHED = join(process.env.BQ4_SHARED ?? join(ROOT, '..', 'shared'), 'data/templates');
const RANDOM_COUNT = 5000;
const CONVERSATION_COUNT = 50;
/** Time limit of a template that does not end. */
const LIMIT_SECONDS = 10;
const ROUNDS = 5;

/** @typedef {'bq4' | 'library'} Name */
/** @typedef {(context: Record<string, any>) => string} Render */

const expected = JSON.parse(readFileSync(join(ROOT, 'tests/templates/expected.json'), 'utf8'));
const NOW = new Date(expected.now);

/** Downloads the library if necessary. */
async function provideLibrary() {
  if (existsSync(ENTRY)) return;
  mkdirSync(FOLDER, { recursive: true });
  const archive = await npmPack(LIBRARY.package, LIBRARY.sha512, FOLDER);
  await run('tar', ['-xzf', archive, '-C', FOLDER]);
}

/** Returns functions that parse a template. @returns {Promise<Record<Name, (source: string) => Render>>} */
async function compilers() {
  const { Template } = await import(pathToFileURL(ENTRY).href);
  const formatNow = compile('{{ strftime_now(format) }}');
  const format_now = (/** @type {string} */ format) => formatNow({ format }, NOW);
  return {
    bq4: (source) => {
      const render = compile(source);
      return (context) => render(context, NOW);
    },
    library: (source) => {
      // The library does not allow values with the names of its functions.
      const template = new Template(source.replaceAll('strftime_now', 'format_now'));
      return (context) => template.render({ ...context, format_now });
    },
  };
}

/**
 * Counts templates by result.
 * @param {(source: string) => Render} compiler
 * @param {readonly { template: string, context: any, text?: string, hash?: string }[]} cases  `text`, `hash`: output of
 *   jinja2; neither: jinja2 refuses the template
 */
function countResults(compiler, cases) {
  const counts = { equal: 0, other: 0, refused: 0, accepted: 0 };
  for (const { template, context, text, hash } of cases) {
    let output = null;
    try {
      output = compiler(template)(structuredClone(context));
    } catch {
      // Both renderers refuse a template by an exception.
    }
    const isExpected = hash
      ? output !== null && createHash('sha256').update(output).digest('hex') === hash
      : output === (text ?? null);
    if (isExpected) counts.equal++;
    else counts[output === null ? 'refused' : text === undefined && !hash ? 'accepted' : 'other']++;
  }
  return counts;
}

/** Returns the published templates by file name. */
const publishedTemplates = () =>
  readdirSync(PUBLISHED)
    .filter((name) => name.endsWith('.jinja'))
    .map((name) => ({ name, template: readFileSync(join(PUBLISHED, name), 'utf8') }));

/** Returns the outputs of jinja2 for templates. @param {{ template: string, context: any }[]} cases */
const withPython = (cases) =>
  renderWithPython(cases.map(({ template, context }) => [template, context])).map((output, i) => ({
    ...cases[i],
    text: output.text,
  }));

/** Runs an endless template in a process of its own. @param {Name} name @param {number} index */
function runEndless(name, index) {
  const { status, signal, stdout } = spawnSync(
    process.execPath,
    ['--max-old-space-size=1024', fileURLToPath(import.meta.url), '--endless', name, String(index)],
    { timeout: LIMIT_SECONDS * 1000, encoding: 'utf8', killSignal: 'SIGKILL' },
  );
  return status === 0 ? stdout.trim() : signal === 'SIGKILL' ? 'still running' : 'crashed';
}

/** Returns the minified size of a module with all that it imports, gzipped. @param {string} path */
async function bytesOf(path) {
  const { outputFiles } = await build({
    entryPoints: [path],
    bundle: true,
    minify: true,
    format: 'esm',
    write: false,
    external: ['node:*'],
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

/** Returns microseconds for a call. @param {() => unknown} call */
function timeOf(call) {
  const start = performance.now();
  let calls = 0;
  for (; performance.now() - start < 50; calls++) call();
  return ((performance.now() - start) * 1000) / calls;
}

await provideLibrary();
const byName = await compilers();
if (process.argv[2] === '--endless') {
  try {
    const output = byName[/** @type {Name} */ (process.argv[3])](ENDLESS[Number(process.argv[4])])({ x: 1 });
    console.log(`rendered ${output.length} characters`);
  } catch {
    console.log('refused');
  }
  process.exit(0);
}

const published = publishedTemplates();
/** @type {Record<string, { template: string, context: any, text?: string, hash?: string }[]>} */
const groups = {
  [`${Object.keys(expected.shared).length} published templates with fixed values`]: Object.entries(expected.shared).map(
    ([key, hash]) => {
      const [file, values] = key.split(' ');
      return {
        template: readFileSync(join(PUBLISHED, file), 'utf8'),
        context: JSON.parse(readFileSync(join(PUBLISHED, 'contexts', values), 'utf8')),
        ...(hash !== 'error' && { hash }),
      };
    },
  ),
  'published templates with random conversations': withPython(
    published.flatMap(({ template }, i) =>
      conversations(i + 1, CONVERSATION_COUNT).map((context) => ({ template, context })),
    ),
  ),
  'our own expressions': expected.cases.map((/** @type {any} */ { template, text }) => ({
    template,
    context: expected.context,
    text,
  })),
  'random templates': randomCases(1, RANDOM_COUNT)
    .filter(({ output }) => !output.long)
    .map(({ template, context, output }) => ({ template, context, text: output.text })),
};
console.log('| templates | number | renderer | as jinja2 | other text | only it refuses | only jinja2 refuses |');
console.log('|---|---|---|---|---|---|---|');
for (const [title, cases] of Object.entries(groups))
  for (const name of /** @type {Name[]} */ (['bq4', 'library'])) {
    const { equal, other, refused, accepted } = countResults(byName[name], cases);
    console.log(`| ${title} | ${cases.length} | ${name} | ${equal} | ${other} | ${refused} | ${accepted} |`);
  }

console.log('\n| renderer | refused | rendered | still running after 10 s | crashed |\n|---|---|---|---|---|');
for (const name of /** @type {Name[]} */ (['bq4', 'library'])) {
  const results = ENDLESS.map((_, i) => runEndless(name, i).split(' ')[0]);
  const count = (/** @type {string} */ result) => results.filter((other) => other === result).length;
  console.log(`| ${name} | ${['refused', 'rendered', 'still', 'crashed'].map(count).join(' | ')} |`);
}

const sizes = [await bytesOf(join(ROOT, 'js/text/templates/jinja.js')), await bytesOf(ENTRY)];
console.log(`\nminified and gzipped: bq4 ${sizes[0]} bytes, library ${sizes[1]} bytes`);

/** Ratios of durations, library / bq4. @type {Record<'parse' | 'render', number[]>} */
const ratios = { parse: [], render: [] };
for (const { template } of published) {
  const [context] = conversations(3, 1);
  try {
    const renders = { bq4: byName.bq4(template), library: byName.library(template) };
    for (const render of Object.values(renders)) render(structuredClone(context));
    for (const kind of /** @type {const} */ (['parse', 'render'])) {
      const rounds = Array.from({ length: ROUNDS }, () => {
        const [own, other] = /** @type {Name[]} */ (['bq4', 'library']).map((name) =>
          timeOf(() => (kind === 'parse' ? byName[name](template) : renders[name](context))),
        );
        return other / own;
      });
      ratios[kind].push(median(rounds));
    }
  } catch {
    // A template that refuses this conversation is not timed.
  }
}
for (const [kind, values] of Object.entries(ratios))
  console.log(
    `${kind}: the library takes ${median(values).toFixed(2)} of our time (median of ${values.length} templates), ` +
      `${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)}`,
  );
