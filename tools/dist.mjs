#!/usr/bin/env node
// Makes dist/, the folder that the package ships: one file for each entry of a page, a worker or Node, and files that are
// loaded on demand. All are in one folder, so that each finds the others and build/wasm by `new URL('…', import.meta.url)`,
// which bundlers recognize too.
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
  // These two load the same parts on demand. Code that they share with these parts is in a file of its own: a part that
  // imported `worker.js` would start a second worker if the first was loaded by another address (worker.js?v=2).
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

/** Parts on demand that nearly every page loads, also that of README.md. In one file they are 10% smaller. */
const USUAL = [
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

/** Modules loaded on demand that are bundles of their own, so that the entry of a page is one file. */
const ALONE = [
  { id: join(ROOT, 'js/api/openai/index.js'), file: './part-openai.js' },
  { id: join(ROOT, 'js/supported.js'), file: './part-supported.js' },
];

/** Modules of grammars. */
const GRAMMAR = /js[\\/]text[\\/]grammar[\\/]/;
/** Modules that the regular expressions of grammars and of tokenizers share. */
const REGEX = /js[\\/]text[\\/]regex[\\/]/;
/** Modules that render chat templates, without the compact form, which every page loads. */
const TEMPLATES = /js[\\/]text[\\/]templates[\\/](?!compact)/;
/** Small modules that few pages load. */
const SELDOM =
  /(wasm[\\/]sha256|storage[\\/]sources[\\/](bytes|file|file-version|local|split)|gguf[\\/]string-list|generation[\\/]logit-processors|model[\\/]probabilities|engine[\\/]speed-estimate|shared[\\/](nesting|quote-value|rounded-number))\.js/;
/** Modules that describe LoRA adapters and files of other formats than bq4 v2 to the engine. */
const DESCRIPTIONS = /js[\\/](convert|format|text[\\/]tokenizers)[\\/](?!bq4[\\/](read-v1|companion\.js)|lora)/;

/**
 * Plugin for modules of this project: makes file addresses relative to dist/, and adds imports of USUAL to the engine.
 * @type {import('rolldown').Plugin}
 */
const ours = {
  name: 'ours',
  transform(code, id) {
    const usual = id === join(ROOT, 'js/engine/engine.js') ? USUAL.map((name) => `import '../${name}.js';`) : [];
    const moved =
      usual.join('') +
      moveAddresses(code, id, (target) => {
        const entry = ENTRIES.find(([, source]) => join(ROOT, source) === target);
        return entry ? `${entry[0]}.js` : relative(DIST, target);
      });
    return moved === code ? null : { code: moved, map: null };
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
  connect: ['check', 'default'],
  shared: ['check', 'default'],
  langchain: ['openai'],
  'ai-sdk': ['openai', 'aiSdk'],
  receipts: ['receipt'],
  'part-openai': ['check', 'default', 'openai', 'openaiCheck', 'chatOnly'],
};

/** @type {import('rolldown').Plugin} */
const alone = {
  name: 'alone',
  resolveId(id, importer) {
    const part = importer && ALONE.find((one) => one.id === join(dirname(importer), id));
    return part ? { id: part.file, external: true } : null;
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
const packages = new Set();

/** @param {Record<string, string>} entries @returns {Promise<string[]>} names of the files written */
async function bundle(entries) {
  // One file without parts: the command line and its threads are read from a disk; a single-file page can load no parts.
  const whole = ['cli', 'round-thread', 'single', 'part-supported'].some((name) => name in entries);
  const items = await rolldown({
    input: Object.fromEntries(Object.entries(entries).map(([name, source]) => [name, join(ROOT, source)])),
    // The application already has the library of an adapter.
    external: /^(node:|react$|@langchain\/core\/)/,
    plugins: [
      ours,
      onlyColumns(Object.keys(entries).map((name) => COLUMNS[name])[0]),
      inlineRuntime,
      ...(whole ? [] : [alone]),
    ],
    platform: 'neutral',
    preserveEntrySignatures: 'strict',
    onLog: (level, log) => {
      if (log.code === 'INEFFECTIVE_DYNAMIC_IMPORT') return; // intended
      throw new Error(`${level}: ${log.message}`);
    },
  });
  const { output } = await items.write({
    dir: DIST,
    format: 'es',
    minifyInternalExports: true,
    entryFileNames: '[name].js',
    chunkFileNames: 'part-[name].js',
    // Shared code of grammars is in a group of its own, since only pages with grammars load it.
    codeSplitting: whole
      ? false
      : {
          groups: [
            {
              name: 'core',
              test: (id) => ![GRAMMAR, REGEX, TEMPLATES, SELDOM, DESCRIPTIONS].some((room) => room.test(id)),
              minShareCount: 2,
              priority: 1,
            },
            { name: 'templates', test: TEMPLATES, minShareCount: 2 },
            { name: 'seldom', test: SELDOM, minShareCount: 2 },
            { name: 'descriptions', test: DESCRIPTIONS, minShareCount: 2 },
            { name: 'grammar', test: GRAMMAR, minShareCount: 2 },
            { name: 'regex', test: REGEX, minShareCount: 2 },
          ],
        },
  });
  await items.close();
  for (const chunk of output)
    for (const id of 'moduleIds' in chunk ? chunk.moduleIds : []) {
      const [folder] = /^.*[\\/]node_modules[\\/](@[^\\/]+[\\/])?[^\\/]+/.exec(id) ?? [];
      if (folder) packages.add(folder);
    }
  return output.map(({ fileName }) => fileName);
}

/**
 * Text of each file by name. Bundles may write the same file, but not different files of the same name.
 * @type {Map<string, string>}
 */
const written = new Map();

rmSync(DIST, { recursive: true, force: true });
for (const entries of BUNDLES)
  for (const name of await bundle(entries)) {
    const path = join(DIST, name);
    const text = readFileSync(path, 'utf8');
    if ((written.get(name) ?? text) !== text)
      throw new Error(`two bundles have a ${name}, and they differ: ${Object.keys(entries)} and one before`);
    written.set(name, text);
    const { code } = await minify(text, {
      module: true,
      ecma: 2022,
      compress: { passes: 2, unsafe: false },
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
const notices = [...packages].sort().map(noticeOf);
if (notices.length)
  writeFileSync(join(DIST, 'NOTICES.txt'), `Files of this folder contain:\n\n${notices.join('\n\n')}`);
writeFileSync(join(DIST, 'SHA256SUMS'), wasmHashes());
