#!/usr/bin/env node
// Makes build/site/, the demo and the examples as a host serves them to people far away: of the demo its page, what each thread of
// it begins with as one file, beside it what is loaded on demand; the examples with the files of the package. `npm start` serves the
// sources, where every module is a file.
//
//   npm run build && node tools/site.mjs     then copy build/site to any static host; the pages are demo/ and examples/
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

/** Where a page or a worker begins. The engine's own workers begin as the demo's do. @type {Record<string, string[]>} */
const ENTRIES = {
  app: ['demo/app.js'],
  search: ['demo/search.js'],
  worker: ['demo/worker.js', 'js/worker.js'],
  thread: ['demo/thread.js', 'js/thread.js'],
  'io-worker': ['js/io-worker.js'],
  'hub-worker': ['demo/models/hub-worker.js'],
  'pdf-worker': ['demo/chat/pdf-worker.js'],
};

/** Parts on demand that every visit asks for: the engine begins with them. */
const USUAL = [
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

/** Grammars, and what tells the engine of files that are no v2 files: not for every visit. */
const RARE = /js[\\/](text[\\/](grammar|tokenizers)|convert|quantize|format)[\\/]/;

/** Columns of the table of options that the demo reads: no help texts of the command line. */
const COLUMNS = ['check', 'default', 'sampler', 'openai', 'openaiCheck', 'chatOnly'];

/** Besides scripts. */
const COPIED = ['build/wasm', 'classifiers', 'models/chat.bq4'];

/** Tables that pdf.js fetches: where the sources have them, and the site, since some hosts serve no node_modules. */
const CMAPS = { source: '../../node_modules/pdfjs-dist/cmaps/', site: './pdf-cmaps/' };

/** @type {import('rolldown').Plugin} */
const addresses = {
  name: 'addresses',
  transform(code, id) {
    const usual = id === join(DEMO, 'worker.js') ? USUAL.map((name) => `import '../js/${name}.js';`) : [];
    const moved =
      usual.join('') +
      moveAddresses(code, id, (target) => {
        const [entry] = Object.entries(ENTRIES).find(([, all]) => all.some((one) => join(ROOT, one) === target)) ?? [];
        return entry ? `${entry}.js` : relative(DEMO, target);
      });
    // The package says which files of dist/ act by being loaded. Of the sources these are the workers, and what they begin with.
    return {
      code: moved.replace(CMAPS.source, CMAPS.site),
      map: null,
      moduleSideEffects: /(worker(\.min)?|thread|request-reporter|early-request)\.m?js$/.test(id),
    };
  },
};

/** What one thread may load. @param {string} name @param {string} source @param {string} to  the site's folder */
async function bundle(name, source, to) {
  const entry = join(ROOT, source);
  /** What it begins with. @type {Set<string>} */
  const first = new Set(['\0rolldown/runtime.js']);
  /** @type {import('rolldown').Plugin} */
  const closure = {
    name: 'closure',
    buildEnd() {
      const add = (/** @type {string} */ id) => {
        if (first.has(id)) return;
        first.add(id);
        this.getModuleInfo(id)?.importedIds.forEach(add);
      };
      add(entry);
    },
  };
  const product = await rolldown({
    input: { [name]: entry },
    external: /^node:/,
    plugins: [addresses, onlyColumns(COLUMNS), closure],
    platform: 'neutral',
    onLog: (level, log) => {
      if (log.code === 'INEFFECTIVE_DYNAMIC_IMPORT') return; // as wanted
      throw new Error(`${level}: ${log.message}`);
    },
  });
  const { output } = await product.write({
    dir: join(to, 'demo'),
    format: 'es',
    minifyInternalExports: true,
    entryFileNames: '[name].js',
    chunkFileNames: `${name}-[name].js`,
    codeSplitting: {
      groups: [
        { name: 'first', test: (id) => first.has(id), priority: 2 },
        // What its parts on demand share is one file.
        { name: 'more', test: (id) => !RARE.test(id), minShareCount: 2, priority: 1 },
      ],
    },
  });
  await product.close();
  for (const { fileName } of output) {
    const path = join(to, 'demo', fileName);
    // What saves a few bytes of 90,000, which the demo may load before its first message.
    const compress = { inline: 1, keep_fargs: false };
    const { code } = await minify(readFileSync(path, 'utf8'), { module: true, ecma: 2022, compress });
    writeFileSync(path, `${code}\n`);
  }
}

/** What examples import of the sources, and files of dist/ with the same. The others of dist/ lie beside the first. @type {Record<string, string>} */
const ENTRIES_OF_EXAMPLES = {
  'remote/tabs/index.js': '../../shared.js',
  'api/adapters/react.js': '../../react.js',
};

/** @param {string} to  the site's folder */
function addExamples(to) {
  const wrong = makeDist();
  if (wrong) throw new Error(wrong);
  const [examples, package_, react] = ['examples', 'js', 'examples/react'].map((name) => join(to, name));
  cpSync(join(ROOT, 'examples'), examples, { recursive: true });
  // For Node, and for pages of one file.
  const others = ['cli.js', 'single.js'];
  cpSync(join(ROOT, 'dist'), package_, { recursive: true, filter: (path) => !others.includes(basename(path)) });
  for (const [name, target] of Object.entries(ENTRIES_OF_EXAMPLES)) {
    mkdirSync(dirname(join(package_, name)), { recursive: true });
    writeFileSync(join(package_, name), `export * from '${target}';\n`);
  }
  // Some hosts serve no node_modules.
  const script = readFileSync(join(react, 'react.js'), 'utf8').replace('../../node_modules/', './npm/');
  writeFileSync(join(react, 'react.js'), script);
  for (const [file] of script.matchAll(/[\w/-]+\.production\.js/g))
    cpSync(join(ROOT, 'node_modules', file), join(react, 'npm', file));
}

/** build/site/, and what it is made of. */
const PRODUCT = new Product(ROOT, {
  folder: relative(ROOT, SITE),
  sources: [
    ...['js', 'bin', 'demo', 'examples', 'package.json', 'package-lock.json', ...COPIED],
    ...['addresses', 'dist', 'option-columns', 'site', 'size'].map((name) => `tools/${name}.mjs`),
  ],
});

/** @param {string} [to]  a folder, which is emptied; the usual one only if its sources, or what it holds, have changed */
export async function makeSite(to = SITE) {
  // A run of all tests has made it, for all of its files.
  if (to === SITE && (process.env.BQ4_SITE || PRODUCT.isCurrent())) return;
  await writeSite(to);
  if (to === SITE) PRODUCT.noteMade();
}

/** @param {string} to */
async function writeSite(to) {
  rmSync(to, { recursive: true, force: true });
  mkdirSync(join(to, 'demo'), { recursive: true });
  // Service workers and what runs before the page are one file each as they are.
  const whole = ['sw.js', 'root.js', 'theme.js'];
  for (const entry of readdirSync(DEMO, { withFileTypes: true }))
    if (entry.isFile() && (!entry.name.endsWith('.js') || whole.includes(entry.name)))
      cpSync(join(DEMO, entry.name), join(to, 'demo', entry.name));
  for (const path of COPIED)
    if (existsSync(join(ROOT, path))) cpSync(join(ROOT, path), join(to, path), { recursive: true });
  cpSync(join(ROOT, 'demo/chat', CMAPS.source), join(to, 'demo', CMAPS.site), { recursive: true });
  for (const [name, [source]] of Object.entries(ENTRIES)) await bundle(name, source, to);
  addExamples(to);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeSite();
