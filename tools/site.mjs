#!/usr/bin/env node
// Writes build/site/, the demo and the examples for a web host. The scripts of the demo are bundled, since each request costs a round
// trip: the modules that a thread loads at its start are one file; modules that are loaded on demand are in separate files. The examples
// use the files of the package. `npm start` serves the sources instead, where each module is a file.
//
//   npm run build && node tools/site.mjs     then copy build/site to any static host; its pages are demo/ and examples/
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { minify } from 'terser';
import { moveAddresses } from './addresses.mjs';
import { Product } from './digest.mjs';
import { onlyColumns } from './option-columns.mjs';
import { makeDist } from './payload.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const SITE = join(ROOT, 'build', 'site');
const DEMO = join(ROOT, 'demo');

/**
 * Entries of pages and workers: names of bundles, each with the scripts that it replaces. The first script is the source; the demo's
 * workers also replace the engine's.
 * @type {Record<string, string[]>}
 */
const ENTRIES = {
  app: ['demo/app.js'],
  search: ['demo/search.js'],
  worker: ['demo/worker.js', 'js/worker.js'],
  thread: ['demo/thread.js', 'js/thread.js'],
  'io-worker': ['js/io-worker.js'],
  'hub-worker': ['demo/models/hub-worker.js'],
  'pdf-worker': ['demo/chat/pdf-worker.js'],
};

/** Modules loaded on demand in every visit. They are part of the worker's first file, which saves requests. */
const FREQUENT_MODULES = [
  'engine/generation/prefill-progress',
  'engine/speculation/prompt-lookup',
  'engine/speed-estimate',
  'storage/load/cached-load',
  'storage/load/progress',
  'shared/throttle',
  'storage/sources/retry',
  'storage/cache/index',
  'storage/cache/opfs',
  'wasm/measurements',
  'wasm/thread-choice',
  'wasm/release-memory',
  'wasm/threads',
];

/** Modules that most visits do not load: grammars, tokenizers, and readers of formats other than bq4 v2. */
const RARE_MODULES = /js[\\/](text[\\/](grammar|tokenizers)|convert|quantize|format)[\\/]/;

/** Columns of the table of options that the demo reads. */
const COLUMNS = ['check', 'default', 'sampler', 'openai', 'openaiCheck', 'chatOnly'];

/** Files and folders that are copied without changes. */
const COPIED = ['build/wasm', 'classifiers', 'models/chat.bq4'];

/**
 * Relative address of the character maps that pdf.js fetches, in the sources and in the site. The site has its own copy, because some
 * hosts refuse to serve node_modules.
 */
const CMAPS = { source: '../../node_modules/pdfjs-dist/cmaps/', site: './pdf-cmaps/' };

/** Plugin that changes file addresses to those in the site, and adds imports of FREQUENT_MODULES to the worker. @type {import('rolldown').Plugin} */
const projectModules = {
  name: 'project-modules',
  transform(code, id) {
    const frequentImports =
      id === join(DEMO, 'worker.js') ? FREQUENT_MODULES.map((name) => `import '../js/${name}.js';`) : [];
    const movedCode =
      frequentImports.join('') +
      moveAddresses(code, id, (target) => {
        const [entry] =
          Object.entries(ENTRIES).find(([, modules]) => modules.some((module) => join(ROOT, module) === target)) ?? [];
        return entry ? `${entry}.js` : relative(DEMO, target);
      });
    // package.json lists the files of dist/ with side effects. The sources with side effects are the workers and these imports of them.
    return {
      code: movedCode.replace(CMAPS.source, CMAPS.site),
      map: null,
      moduleSideEffects: /(worker(\.min)?|thread|request-reporter|early-request)\.m?js$/.test(id),
    };
  },
};

/** Writes the bundle of a thread: one file for its start, others for modules on demand. @param {string} name @param {string} source @param {string} siteFolder */
async function writeBundle(name, source, siteFolder) {
  const entry = join(ROOT, source);
  /** Modules that the thread loads at its start: the entry and its static imports. @type {Set<string>} */
  const firstModules = new Set(['\0rolldown/runtime.js']);
  /** @type {import('rolldown').Plugin} */
  const closure = {
    name: 'closure',
    buildEnd() {
      const addModule = (/** @type {string} */ id) => {
        if (firstModules.has(id)) return;
        firstModules.add(id);
        this.getModuleInfo(id)?.importedIds.forEach(addModule);
      };
      addModule(entry);
    },
  };
  const build = await rolldown({
    input: { [name]: entry },
    external: /^node:/,
    plugins: [projectModules, onlyColumns(COLUMNS), closure],
    platform: 'neutral',
    onLog: (level, log) => {
      if (log.code === 'INEFFECTIVE_DYNAMIC_IMPORT') return; // intended
      throw new Error(`${level}: ${log.message}`);
    },
  });
  const { output } = await build.write({
    dir: join(siteFolder, 'demo'),
    format: 'es',
    minifyInternalExports: true,
    entryFileNames: '[name].js',
    chunkFileNames: `${name}-[name].js`,
    codeSplitting: {
      groups: [
        { name: 'first', test: (id) => firstModules.has(id), priority: 2 },
        // Modules that several modules on demand import are in one file.
        { name: 'more', test: (id) => !RARE_MODULES.test(id), minShareCount: 2, priority: 1 },
      ],
    },
  });
  await build.close();
  for (const { fileName } of output) {
    const path = join(siteFolder, 'demo', fileName);
    // These two options reduce the size slightly. The demo may load DEMO_LIMIT bytes before its first message.
    const compress = { inline: 1, keep_fargs: false };
    const { code } = await minify(readFileSync(path, 'utf8'), { module: true, ecma: 2022, compress });
    writeFileSync(path, `${code}\n`);
  }
}

/** Modules of js/ that examples import, with the file of dist/ that has the same exports. @type {Record<string, string>} */
const EXAMPLE_IMPORTS = {
  'remote/tabs/index.js': '../../shared.js',
  'api/adapters/react.js': '../../react.js',
};

/** Copies the examples, with dist/ in place of js/. @param {string} siteFolder */
function addExamples(siteFolder) {
  const problem = makeDist();
  if (problem) throw new Error(problem);
  const [examplesFolder, packageFolder, reactFolder] = ['examples', 'js', 'examples/react'].map((name) =>
    join(siteFolder, name),
  );
  cpSync(join(ROOT, 'examples'), examplesFolder, { recursive: true });
  // These are for Node and for single-file pages.
  const excludedNames = ['cli.js', 'single.js'];
  cpSync(join(ROOT, 'dist'), packageFolder, {
    recursive: true,
    filter: (path) => !excludedNames.includes(basename(path)),
  });
  for (const [name, target] of Object.entries(EXAMPLE_IMPORTS)) {
    mkdirSync(dirname(join(packageFolder, name)), { recursive: true });
    writeFileSync(join(packageFolder, name), `export * from '${target}';\n`);
  }
  // Some hosts refuse to serve node_modules.
  const script = readFileSync(join(reactFolder, 'react.js'), 'utf8').replace('../../node_modules/', './npm/');
  writeFileSync(join(reactFolder, 'react.js'), script);
  for (const [file] of script.matchAll(/[\w/-]+\.production\.js/g))
    cpSync(join(ROOT, 'node_modules', file), join(reactFolder, 'npm', file));
}

/** build/site/ and its sources. */
const PRODUCT = new Product(ROOT, {
  folder: relative(ROOT, SITE),
  sources: [
    ...['js', 'bin', 'demo', 'examples', 'package.json', 'package-lock.json', ...COPIED],
    ...['addresses', 'dist', 'option-columns', 'site', 'size'].map((name) => `tools/${name}.mjs`),
  ],
});

/**
 * Writes the site.
 * @param {string} [siteFolder]  its content is deleted first; build/site is written only if the folder or its sources have changed
 */
export async function makeSite(siteFolder = SITE) {
  // With BQ4_SITE the test runner has already generated it for all test files.
  if (siteFolder === SITE && (process.env.BQ4_SITE || PRODUCT.isCurrent())) return;
  await writeSite(siteFolder);
  if (siteFolder === SITE) PRODUCT.recordDigest();
}

/** Writes the site to an empty folder. @param {string} siteFolder */
async function writeSite(siteFolder) {
  rmSync(siteFolder, { recursive: true, force: true });
  mkdirSync(join(siteFolder, 'demo'), { recursive: true });
  // Service workers and the script that runs before the page is shown import nothing, so they need no bundle.
  const singleScripts = ['sw.js', 'root.js', 'theme.js'];
  for (const entry of readdirSync(DEMO, { withFileTypes: true }))
    if (entry.isFile() && (!entry.name.endsWith('.js') || singleScripts.includes(entry.name)))
      cpSync(join(DEMO, entry.name), join(siteFolder, 'demo', entry.name));
  for (const path of COPIED)
    if (existsSync(join(ROOT, path))) cpSync(join(ROOT, path), join(siteFolder, path), { recursive: true });
  cpSync(join(ROOT, 'demo/chat', CMAPS.source), join(siteFolder, 'demo', CMAPS.site), { recursive: true });
  for (const [name, [source]] of Object.entries(ENTRIES)) await writeBundle(name, source, siteFolder);
  addExamples(siteFolder);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeSite();
