// Installs fixed versions of the runtimes for comparison in build/bench/peers. Neither bq4 nor its tests depend on them.
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { cacheRoot, withLock } from '../setup/cache.mjs';
import { npmPack } from '../setup/npm.mjs';
import { providePython } from '../setup/python.mjs';
import { ROOT } from '../setup/setup.mjs';
import { findOnPath, run, SetupError, step } from '../setup/shell.mjs';

/** @typedef {import('../setup/setup.mjs').Tools} Tools */
/**
 * Native llama.cpp: the program, the folder of all its backends (`best`), the folder of those without AMX, and names of all backends.
 * @typedef {{ program: string, best: string, noAmx: string | null, backends: string[] }} Native
 */

const PEERS = join(ROOT, 'build', 'bench', 'peers');
const MODULES = join(PEERS, 'node_modules');
const PEERS_SOURCE = join(ROOT, 'tools', 'bench', 'peers');

/** The main package of node-llama-cpp. It contains the source from which its libraries are built, with the headers. */
const LLAMA_PACKAGE = {
  package: 'node-llama-cpp@3.22.1',
  sha512: 'bltIipuWmc123H7tMIgDGKSsSrhmhlQYeVUC48XTjVW7XGJJiJJyCdlTMzQ/LiWoPkGDpcL4FviDpgw7qfTiDw==',
};
/** Name of llama.cpp in reports. */
export const LLAMA_NAME = `llama.cpp (${LLAMA_PACKAGE.package.replace('@', ' ')})`;
/** Packages of node-llama-cpp by platform. */
const PLATFORMS = { 'linux-x64': 'linux-x64', 'linux-arm64': 'linux-arm64' };

/** Returns the path of a Python with the packages for models and plots. @param {Tools} tools */
export const benchPython = (tools) => providePython(ROOT, tools.python, 'tools/bench/requirements.txt');

/** Runs npm. @param {readonly string[]} args @param {string} cwd */
async function runNpm(args, cwd) {
  const path = findOnPath(['npm']);
  if (!path) throw new SetupError('expected npm on PATH, found none: it is part of Node');
  await run(path, [...args, '--no-audit', '--no-fund'], { cwd });
}

/** Installs the npm packages of tools/bench/peers, without running their install scripts. */
export async function providePeers() {
  const lock = readFileSync(join(PEERS_SOURCE, 'package-lock.json'));
  const stamp = join(MODULES, '.bench-lock');
  const key = createHash('sha256').update(lock).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === key) return;
  mkdirSync(PEERS, { recursive: true });
  for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(PEERS_SOURCE, name), join(PEERS, name));
  await step('installing the packages of tools/bench/peers/package.json', () =>
    runNpm(['ci', '--ignore-scripts'], PEERS),
  );
  writeFileSync(stamp, key);
}

/** Provides the source of llama.cpp from which the libraries are built, and returns its folder. */
export async function provideLlamaSource() {
  const folder = join(PEERS, 'llama.cpp');
  if (existsSync(join(folder, 'include', 'llama.h'))) return folder;
  await step("unpacking llama.cpp's source", async () => {
    const archive = await npmPack(LLAMA_PACKAGE.package, LLAMA_PACKAGE.sha512, PEERS);
    await run('tar', ['-xzf', archive, '-C', PEERS, 'package/llama/gitRelease.bundle']);
    rmSync(folder, { recursive: true, force: true });
    await run('git', ['clone', '--quiet', join(PEERS, 'package', 'llama', 'gitRelease.bundle'), folder]);
    for (const path of [join(PEERS, 'package'), archive]) rmSync(path, { recursive: true, force: true });
  });
  return folder;
}

/** Returns the folder of llama.cpp's libraries in node-llama-cpp's package for this system. */
export function librariesFolder() {
  const name = PLATFORMS[/** @type {keyof typeof PLATFORMS} */ (`${process.platform}-${process.arch}`)];
  if (!name)
    throw new SetupError(
      `native llama.cpp is available for ${Object.keys(PLATFORMS).join(' and ')}, not for ${process.platform}-${process.arch}: omit it by --only '^(bq4|wllama|ort|tjs)'`,
    );
  return join(MODULES, '@node-llama-cpp', name, 'bins', name);
}

/** Returns linker options for the libraries whose names match. @param {string} libraries  their folder @param {RegExp} names */
export const linkOptionsFor = (libraries, names) => [
  `-L${libraries}`,
  ...readdirSync(libraries)
    .filter((file) => names.test(file))
    .map((file) => `-l:${file}`),
  `-Wl,-rpath,${libraries}`,
  '-Wl,--allow-shlib-undefined',
];

/**
 * Compiles a program of tools/bench/peers against llama.cpp's libraries, and returns its path.
 * @param {string} gcc @param {string} name  without .c
 * @returns {Promise<string>}
 */
export async function provideProgram(gcc, name) {
  const sourceFile = join(PEERS_SOURCE, `${name}.c`);
  const program = join(
    PEERS,
    `${name}-${createHash('sha256').update(readFileSync(sourceFile)).digest('hex').slice(0, 8)}`,
  );
  if (existsSync(program)) return program;
  const source = await provideLlamaSource();
  const includes = [`-I${source}/include`, `-I${source}/ggml/include`];
  const linkOptions = linkOptionsFor(librariesFolder(), /^lib(llama\.v|ggml\.v|ggml-base)/);
  await run(gcc, ['-std=c11', '-O2', ...includes, sourceFile, '-o', program, ...linkOptions]);
  return program;
}

/**
 * Provides the program that measures native llama.cpp, and the folders of its backends.
 * @param {Tools} tools
 * @returns {Promise<Native>}
 */
export async function provideNative(tools) {
  const best = librariesFolder();
  const backends = readdirSync(best).filter((file) => /^libggml-cpu-.*\.so$/.test(file));
  const program = await provideProgram(/** @type {string} */ (tools.gcc), 'native');
  const noAmx = backends.some((file) => /sapphirerapids/.test(file)) ? join(PEERS, 'no-amx') : null;
  if (noAmx && !existsSync(noAmx)) {
    mkdirSync(noAmx);
    for (const file of backends.filter((file) => !/sapphirerapids/.test(file)))
      copyFileSync(join(best, file), join(noAmx, file));
  }
  return { program, best, noAmx, backends };
}

/**
 * Compiles llama.cpp of the same release to wasm with its SIMD kernels, as a program for Node.
 * @param {Tools} tools @returns {Promise<string>}
 */
export async function provideLlamaWasm(tools) {
  const [makefile, driver] = ['llama-wasm.mk', 'native.c'].map((name) => join(PEERS_SOURCE, name));
  const key = createHash('sha256')
    .update(readFileSync(makefile))
    .update(readFileSync(driver))
    .digest('hex')
    .slice(0, 8);
  const folder = join(PEERS, `llama-wasm-${key}`);
  const program = join(folder, 'llama.js');
  if (existsSync(program)) return program;
  const llamaSource = await provideLlamaSource();
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"type": "commonjs"}');
  const { MAKEFLAGS, MFLAGS, MAKELEVEL, ...env } = tools.env;
  await step('building llama.cpp to wasm (once; it takes minutes)', () =>
    run(
      tools.make,
      [
        '-f',
        makefile,
        '-s',
        `-j${availableParallelism()}`,
        `SOURCE=${llamaSource}`,
        `DRIVER=${driver}`,
        `EMCC=${tools.emcc}`,
        `OUT=${folder}`,
      ],
      { env: { ...env, EM_CACHE: join(PEERS, 'emscripten-cache') } },
    ),
  );
  return program;
}

/**
 * Builds llama.cpp's server of the same release in the cache folder, with its libraries and tools.jinja, a chat template that
 * supports tools. An interrupted build is continued.
 * @returns {Promise<string>}
 */
export async function provideLlamaServer() {
  const makefile = join(PEERS_SOURCE, 'llama-server.mk');
  const key = createHash('sha256')
    .update(readFileSync(makefile))
    .update(LLAMA_PACKAGE.sha512)
    .digest('hex')
    .slice(0, 8);
  const serversFolder = join(cacheRoot(), 'llama-server');
  const [folder, workFolder] = [join(serversFolder, key), join(serversFolder, `.work-${key}`)];
  const program = join(folder, 'llama-server');
  if (existsSync(program)) return program;
  const [make, compiler] = [findOnPath(['gmake', 'make']), findOnPath(['g++', 'clang++'])];
  if (!make || !compiler)
    throw new SetupError('expected make and a C++ compiler (g++ or clang++) on PATH to build llama.cpp’s server');
  await withLock('llama-server', async () => {
    if (existsSync(program)) return;
    await providePeers();
    const source = await provideLlamaSource();
    const libraries = librariesFolder();
    mkdirSync(workFolder, { recursive: true });
    const { MAKEFLAGS, MFLAGS, MAKELEVEL, ...env } = process.env;
    const paths = { SOURCE: source, LIBRARIES: libraries, CXX: compiler, OUT: workFolder };
    const variables = Object.entries(paths).map(([name, value]) => `${name}=${value}`);
    await step('building llama.cpp’s server (once; it takes minutes)', () =>
      run(make, ['-f', makefile, '-s', `-j${availableParallelism()}`, ...variables], { env }),
    );
    const newFolder = join(serversFolder, `.done-${key}`);
    rmSync(newFolder, { recursive: true, force: true });
    mkdirSync(newFolder);
    for (const file of readdirSync(libraries).filter((name) => /^lib.*\.so$/.test(name)))
      copyFileSync(join(libraries, file), join(newFolder, file));
    copyFileSync(join(workFolder, 'llama-server'), join(newFolder, 'llama-server'));
    copyFileSync(join(source, 'models/templates/Qwen-Qwen2.5-7B-Instruct.jinja'), join(newFolder, 'tools.jinja'));
    renameSync(newFolder, folder);
    rmSync(workFolder, { recursive: true });
  });
  return program;
}

/**
 * Returns the instruction sets of this CPU that llama.cpp does not use.
 * @param {string} system  system info that llama.cpp reports @param {string[]} flags  flags of the CPU
 * @returns {string[]}  names as in the system info
 */
export function missingInstructions(system, flags) {
  /** @type {[string, string][]} */
  const pairs = [
    ['avx2', 'AVX2'],
    ['avx512f', 'AVX512'],
    ['avx512_vnni', 'AVX512_VNNI'],
    ['avx512_bf16', 'AVX512_BF16'],
    ['amx_int8', 'AMX_INT8'],
    ['asimddp', 'DOTPROD'],
    ['i8mm', 'MATMUL_INT8'],
  ];
  // The backends for AVX-512 do not use AVX-VNNI.
  if (!flags.includes('avx512_vnni')) pairs.push(['avx_vnni', 'AVX_VNNI']);
  return pairs
    .filter(([flag, name]) => flags.includes(flag) && !system.includes(`${name} = 1`))
    .map(([, name]) => name);
}

/** Files of each runtime that a page loads, without the model. */
const PEER_FILES = {
  'wllama 3.8.1': ['wllama-3.8.1/esm/index.min.js', 'wllama-3.8.1/esm/wasm/wllama.wasm'],
  'wllama 2.3.7': ['wllama-2.3.7/esm/index.min.js', 'wllama-2.3.7/esm/multi-thread/wllama.wasm'],
  'wllama 2.3.1': ['wllama-2.3.1/esm/index.min.js', 'wllama-2.3.1/esm/multi-thread/wllama.wasm'],
  'onnxruntime-web 1.30.0': ['ort.wasm.min.mjs', 'ort-wasm-simd-threaded.mjs', 'ort-wasm-simd-threaded.wasm'].map(
    (file) => `onnxruntime-web/dist/${file}`,
  ),
  'transformers.js 4.3.1': [
    '@huggingface/transformers/dist/transformers.web.min.js',
    ...['ort.webgpu.bundle.min.mjs', 'ort-wasm-simd-threaded.asyncify.mjs', 'ort-wasm-simd-threaded.asyncify.wasm'].map(
      (file) => `@huggingface/transformers/node_modules/onnxruntime-web/dist/${file}`,
    ),
  ],
};

/** Returns the sums of the sizes of files in bytes. @param {string[]} paths @returns {{ raw: number, gzip: number }} */
export function sizesOf(paths) {
  const sizes = paths
    .map((path) => readFileSync(path))
    .map((bytes) => ({ raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length }));
  return { raw: sizes.reduce((sum, { raw }) => sum + raw, 0), gzip: sizes.reduce((sum, { gzip }) => sum + gzip, 0) };
}

/** Returns the sizes of JavaScript and wasm that a page of each peer loads. */
export const peerPayloads = () =>
  Object.fromEntries(
    Object.entries(PEER_FILES).map(([name, files]) => [name, sizesOf(files.map((file) => join(MODULES, file)))]),
  );
