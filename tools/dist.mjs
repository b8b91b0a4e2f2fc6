#!/usr/bin/env node
// Writes dist/, the folder that the package ships: one file for each entry of a page, a worker or Node, and files that are
// loaded on demand. All files are in one folder, so that each can refer to the others and to build/wasm by
// `new URL('…', import.meta.url)`, which bundlers recognize too.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { minify } from 'terser';
import { moveAddresses } from './addresses.mjs';
import { onlyColumns } from './option-columns.mjs';
import { wasmHashes } from './size.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DIST = join(ROOT, 'dist');

/**
 * Bundles: files of dist/, each with its source. No thread loads code that is in two bundles.
 * @type {Record<string, string>[]}
 */
const BUNDLES = [
  { index: 'js/index.js' },
  // These two load the same files on demand. Code that they share with these files is in a separate file: a file that
  // imported `worker.js` would start a second worker if the first was loaded from another address (worker.js?v=2).
  { node: 'js/node.js', worker: 'js/worker.js' },
  { thread: 'js/thread.js' },
  { 'io-worker': 'js/io-worker.js' },
  // Loaded by the calling thread: that of a page or of an engine.
  { 'part-openai': 'js/api/openai/index.js' },
  { 'part-supported': 'js/supported.js' },
  { connect: 'js/connect.js' },
  // Library adapters, each in one file.
  { 'ai-sdk': 'js/api/adapters/ai-sdk.js' },
  { langchain: 'js/api/adapters/langchain.js' },
  { 'prompt-api': 'js/api/adapters/prompt-api.js' },
  { react: 'js/api/adapters/react.js' },
  { classifiers: 'js/api/classifiers/index.js' },
  { receipts: 'js/api/receipts/index.js' },
  { shared: 'js/remote/tabs/index.js' },
  { single: 'js/single-file.js' },
  { cli: 'bin/bq4.js' },
  { 'round-thread': 'js/quantize/round-thread.js' },
];
const ENTRIES = BUNDLES.flatMap((bundle) => Object.entries(bundle));

/** Modules loaded on demand by nearly every page, including the page in README.md. In one file they are 10% smaller. */
const FREQUENT_MODULES = [
  'engine/speculation/prompt-lookup',
  'storage/load/cached-load',
  'storage/load/progress',
  'storage/sources/retry',
  'storage/cache/index',
  'storage/cache/opfs',
  'wasm/measurements',
  'wasm/thread-choice',
  'wasm/threads',
];

/** Modules loaded on demand that are separate bundles, so that the entry of a page is one file. */
const SEPARATE_MODULES = [
  { id: join(ROOT, 'js/api/openai/index.js'), file: './part-openai.js' },
  { id: join(ROOT, 'js/supported.js'), file: './part-supported.js' },
];

/** Modules that compile and apply grammars. */
const GRAMMAR_MODULES = /js[\\/]text[\\/]grammar[\\/]/;
/** Modules that the regular expressions of grammars and of tokenizers share. */
const REGEX_MODULES = /js[\\/]text[\\/]regex[\\/]/;
/** Modules that render chat templates, without the compact form, which every page loads. */
const TEMPLATE_MODULES = /js[\\/]text[\\/]templates[\\/](?!compact)/;
/** Small modules that few pages load. Their file is part-seldom.js. */
const RARE_MODULES =
  /(wasm[\\/]sha256|storage[\\/]sources[\\/](bytes|file|file-version|local|split)|gguf[\\/]string-list|generation[\\/]logit-processors|model[\\/]probabilities|shared[\\/](nesting|quote-value|rounded-number))\.js/;
/** Modules that describe LoRA adapters and files of other formats than bq4 v2 to the engine. */
const DESCRIPTION_MODULES = /js[\\/](convert|format|text[\\/]tokenizers)[\\/](?!bq4[\\/](read-v1|companion\.js)|lora)/;

/**
 * Plugin for modules of this project: changes file addresses to be relative to dist/, and adds imports of USUAL to the engine.
 * @type {import('rolldown').Plugin}
 */
const projectModules = {
  name: 'project-modules',
  transform(code, id) {
    const frequentImports =
      id === join(ROOT, 'js/engine/engine.js') ? FREQUENT_MODULES.map((name) => `import '../${name}.js';`) : [];
    const movedCode =
      frequentImports.join('') +
      moveAddresses(code, id, (target) => {
        const entry = ENTRIES.find(([, source]) => join(ROOT, source) === target);
        return entry ? `${entry[0]}.js` : relative(DIST, target);
      });
    return movedCode === code ? null : { code: movedCode, map: null };
  },
};

/**
 * Columns of the table of options that a bundle reads, by entry. Other bundles contain all columns. Only the command line
 * prints help texts.
 * @type {Record<string, string[]>}
 */
const COLUMNS = {
  index: ['check', 'default'],
  node: ['check', 'default', 'sampler'],
  thread: ['sampler'],
  'round-thread': ['sampler'],
  connect: ['check', 'default'],
  shared: ['check', 'default'],
  langchain: ['openai'],
  'ai-sdk': ['openai', 'aiSdk'],
  receipts: ['receipt'],
  'part-openai': ['check', 'default', 'openai', 'openaiCheck', 'chatOnly'],
};

/** Plugin that leaves the import of a SEPARATE_MODULES entry as an import of its file. @type {import('rolldown').Plugin} */
const separateModules = {
  name: 'separate-modules',
  resolveId(id, importer) {
    const file = importer && SEPARATE_MODULES.find((module) => module.id === join(dirname(importer), id));
    return file ? { id: file.file, external: true } : null;
  },
};

/**
 * Copies the bundler's helper for namespaces (160 bytes) into the files that import it. As a separate file it would cost
 * another request, which would start only after the engine's file has arrived.
 * @type {import('rolldown').Plugin}
 */
const inlineRuntime = {
  name: 'inline-runtime',
  generateBundle(_, files) {
    const chunks = Object.values(files).filter((file) => file.type === 'chunk');
    const runtime = chunks.find(({ name }) => name === 'rolldown-runtime');
    if (!runtime) return;
    const [exportLine, helper] = /export \{ (\w+) as t \};/.exec(runtime.code) ?? [];
    if (!exportLine) throw new Error(`expected one export of the bundler's runtime, found ${runtime.code}`);
    for (const chunk of chunks)
      chunk.code = chunk.code.replace(
        /import \{ t as (\w+) \} from "\.\/part-rolldown-runtime\.js";/,
        (_, local) => `const ${local} = (() => {\n${runtime.code.replace(exportLine, `return ${helper};`)}\n})();`,
      );
    delete files[runtime.fileName];
  },
};

/** Folders of the bundled npm packages. @type {Set<string>} */
const packageFolders = new Set();

/** Writes a bundle to dist/. @param {Record<string, string>} entries  a row of BUNDLES @returns {Promise<string[]>}  names of the files */
async function writeBundle(entries) {
  // Bundles without files on demand: the command line and its threads are read from a disk; a single-file page can load no other file.
  const isSingleFile = ['cli', 'round-thread', 'single', 'part-supported'].some((name) => name in entries);
  const build = await rolldown({
    input: Object.fromEntries(Object.entries(entries).map(([name, source]) => [name, join(ROOT, source)])),
    // The application already has the library of an adapter.
    external: /^(node:|react$|@langchain\/core\/)/,
    plugins: [
      projectModules,
      onlyColumns(Object.keys(entries).map((name) => COLUMNS[name])[0]),
      inlineRuntime,
      ...(isSingleFile ? [] : [separateModules]),
    ],
    platform: 'neutral',
    preserveEntrySignatures: 'strict',
    onLog: (level, log) => {
      if (log.code === 'INEFFECTIVE_DYNAMIC_IMPORT') return; // intended
      throw new Error(`${level}: ${log.message}`);
    },
  });
  const { output } = await build.write({
    dir: DIST,
    format: 'es',
    minifyInternalExports: true,
    entryFileNames: '[name].js',
    chunkFileNames: 'part-[name].js',
    // Shared code of grammars is in a separate group, since only pages with grammars load it.
    codeSplitting: isSingleFile
      ? false
      : {
          groups: [
            {
              name: 'core',
              test: (id) =>
                ![GRAMMAR_MODULES, REGEX_MODULES, TEMPLATE_MODULES, RARE_MODULES, DESCRIPTION_MODULES].some((room) =>
                  room.test(id),
                ),
              minShareCount: 2,
              priority: 1,
            },
            { name: 'templates', test: TEMPLATE_MODULES, minShareCount: 2 },
            { name: 'seldom', test: RARE_MODULES, minShareCount: 2 },
            { name: 'descriptions', test: DESCRIPTION_MODULES, minShareCount: 2 },
            { name: 'grammar', test: GRAMMAR_MODULES, minShareCount: 2 },
            { name: 'regex', test: REGEX_MODULES, minShareCount: 2 },
          ],
        },
  });
  await build.close();
  for (const chunk of output)
    for (const id of 'moduleIds' in chunk ? chunk.moduleIds : []) {
      const [folder] = /^.*[\\/]node_modules[\\/](@[^\\/]+[\\/])?[^\\/]+/.exec(id) ?? [];
      if (folder) packageFolders.add(folder);
    }
  return output.map(({ fileName }) => fileName);
}

/**
 * Text of each file by name. Bundles may write the same file, but not different texts under the same name.
 * @type {Map<string, string>}
 */
const textOfFile = new Map();

rmSync(DIST, { recursive: true, force: true });
for (const entries of BUNDLES)
  for (const name of await writeBundle(entries)) {
    const path = join(DIST, name);
    const text = readFileSync(path, 'utf8');
    if ((textOfFile.get(name) ?? text) !== text)
      throw new Error(
        `expected bundles to write the same ${name}, found different text in the bundle of ${Object.keys(entries)}`,
      );
    textOfFile.set(name, text);
    const { code } = await minify(text, {
      module: true,
      ecma: 2022,
      // With inlined functions and changed comparisons, the files would be larger after compression.
      compress: { passes: 2, unsafe: false, inline: 1, comparisons: false },
      mangle: { module: true },
      // Node prints the complete line in which an error was thrown before the message.
      format: { max_line_len: 4000 },
    });
    writeFileSync(path, `${code}\n`);
  }

/** Returns a package's name, version and license text, which its license requires to be included. @param {string} folder */
function noticeOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, 'LICENSE'), 'utf8').trim()}\n`;
}
// The file is omitted if no package is bundled.
const notices = [...packageFolders].sort().map(noticeOf);
if (notices.length)
  writeFileSync(join(DIST, 'NOTICES.txt'), `Files of this folder contain:\n\n${notices.join('\n\n')}`);
writeFileSync(join(DIST, 'SHA256SUMS'), wasmHashes());
