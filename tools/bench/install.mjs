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
/** @typedef {{ program: string, best: string, noAmx: string | null, backends: string[] }} Native  program, and folders of the backends that it chooses from: all of them, and those without AMX */

const PEERS = join(ROOT, 'build', 'bench', 'peers');
const MODULES = join(PEERS, 'node_modules');
const LIST = join(ROOT, 'tools', 'bench', 'peers');

/** The main package of node-llama-cpp. It contains the source of its libraries' release, with the headers. */
const HEADERS = {
  package: 'node-llama-cpp@3.22.1',
  sha512: 'bltIipuWmc123H7tMIgDGKSsSrhmhlQYeVUC48XTjVW7XGJJiJJyCdlTMzQ/LiWoPkGDpcL4FviDpgw7qfTiDw==',
};
export const LLAMA = `llama.cpp (${HEADERS.package.replace('@', ' ')})`;
const PLATFORM = { 'linux-x64': 'linux-x64', 'linux-arm64': 'linux-arm64' };

/** Returns a Python with the packages for making models and plots. @param {Tools} tools */
export const benchPython = (tools) => providePython(ROOT, tools.python, 'tools/bench/requirements.txt');

/** @param {readonly string[]} args @param {string} cwd */
async function npm(args, cwd) {
  const path = findOnPath(['npm']);
  if (!path) throw new SetupError('npm is not on PATH (it comes with Node)');
  await run(path, [...args, '--no-audit', '--no-fund'], { cwd });
}

/** Installs the npm packages of tools/bench/peers, without running their install scripts. */
export async function providePeers() {
  const lock = readFileSync(join(LIST, 'package-lock.json'));
  const stamp = join(MODULES, '.bench-lock');
  const key = createHash('sha256').update(lock).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === key) return;
  mkdirSync(PEERS, { recursive: true });
  for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(LIST, name), join(PEERS, name));
  await step('installing the peers of tools/bench/peers/package.json', () => npm(['ci', '--ignore-scripts'], PEERS));
  writeFileSync(stamp, key);
}

/** Provides the source of llama.cpp, of the release that the libraries were built from. */
export async function provideHeaders() {
  const folder = join(PEERS, 'llama.cpp');
  if (existsSync(join(folder, 'include', 'llama.h'))) return folder;
  await step("unpacking llama.cpp's source", async () => {
    const packed = await npmPack(HEADERS.package, HEADERS.sha512, PEERS);
    await run('tar', ['-xzf', packed, '-C', PEERS, 'package/llama/gitRelease.bundle']);
    rmSync(folder, { recursive: true, force: true });
    await run('git', ['clone', '--quiet', join(PEERS, 'package', 'llama', 'gitRelease.bundle'), folder]);
    for (const rest of [join(PEERS, 'package'), packed]) rmSync(rest, { recursive: true, force: true });
  });
  return folder;
}

/** Returns the folder of llama.cpp's libraries in node-llama-cpp's package for this system. */
export function librariesFolder() {
  const name = PLATFORM[/** @type {keyof typeof PLATFORM} */ (`${process.platform}-${process.arch}`)];
  if (!name)
    throw new SetupError(
      `no native llama.cpp is prepared for ${process.platform} ${process.arch}: benchmarks leave it out with --only '^(us|wllama|ort|tjs)'`,
    );
  return join(MODULES, '@node-llama-cpp', name, 'bins', name);
}

/** Returns linker options for the libraries whose names match. @param {string} libraries  their folder @param {RegExp} names */
export const linkFlags = (libraries, names) => [
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
  const source = join(LIST, `${name}.c`);
  const program = join(PEERS, `${name}-${createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 8)}`);
  if (existsSync(program)) return program;
  const headers = await provideHeaders();
  const includes = [`-I${headers}/include`, `-I${headers}/ggml/include`];
  const link = linkFlags(librariesFolder(), /^lib(llama\.v|ggml\.v|ggml-base)/);
  await run(gcc, ['-std=c11', '-O2', ...includes, source, '-o', program, ...link]);
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
    for (const file of backends.filter((each) => !/sapphirerapids/.test(each)))
      copyFileSync(join(best, file), join(noAmx, file));
  }
  return { program, best, noAmx, backends };
}

/**
 * Compiles llama.cpp of the same release to wasm with its SIMD kernels, as a program for Node.
 * @param {Tools} tools @returns {Promise<string>}
 */
export async function provideLlamaWasm(tools) {
  const [list, source] = ['llama-wasm.mk', 'native.c'].map((name) => join(LIST, name));
  const key = createHash('sha256').update(readFileSync(list)).update(readFileSync(source)).digest('hex').slice(0, 8);
  const folder = join(PEERS, `llama-wasm-${key}`);
  const program = join(folder, 'llama.js');
  if (existsSync(program)) return program;
  const headers = await provideHeaders();
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"type": "commonjs"}');
  const { MAKEFLAGS, MFLAGS, MAKELEVEL, ...env } = tools.env;
  await step('building llama.cpp to wasm (once, some minutes)', () =>
    run(
      tools.make,
      [
        '-f',
        list,
        '-s',
        `-j${availableParallelism()}`,
        `SOURCE=${headers}`,
        `DRIVER=${source}`,
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
  const list = join(LIST, 'llama-server.mk');
  const key = createHash('sha256').update(readFileSync(list)).update(HEADERS.sha512).digest('hex').slice(0, 8);
  const all = join(cacheRoot(), 'llama-server');
  const [folder, work] = [join(all, key), join(all, `.work-${key}`)];
  const program = join(folder, 'llama-server');
  if (existsSync(program)) return program;
  const [make, compiler] = [findOnPath(['gmake', 'make']), findOnPath(['g++', 'clang++'])];
  if (!make || !compiler) throw new SetupError('make and a C++ compiler are needed to build llama.cpp’s server');
  await withLock('llama-server', async () => {
    if (existsSync(program)) return;
    await providePeers();
    const source = await provideHeaders();
    const libraries = librariesFolder();
    mkdirSync(work, { recursive: true });
    const { MAKEFLAGS, MFLAGS, MAKELEVEL, ...env } = process.env;
    const places = { SOURCE: source, LIBRARIES: libraries, CXX: compiler, OUT: work };
    const variables = Object.entries(places).map(([name, value]) => `${name}=${value}`);
    await step('building llama.cpp’s server (once, some minutes)', () =>
      run(make, ['-f', list, '-s', `-j${availableParallelism()}`, ...variables], { env }),
    );
    const done = join(all, `.done-${key}`);
    rmSync(done, { recursive: true, force: true });
    mkdirSync(done);
    for (const file of readdirSync(libraries).filter((name) => /^lib.*\.so$/.test(name)))
      copyFileSync(join(libraries, file), join(done, file));
    copyFileSync(join(work, 'llama-server'), join(done, 'llama-server'));
    copyFileSync(join(source, 'models/templates/Qwen-Qwen2.5-7B-Instruct.jinja'), join(done, 'tools.jinja'));
    renameSync(done, folder);
    rmSync(work, { recursive: true });
  });
  return program;
}

/**
 * Checks that llama.cpp uses all instruction sets of this CPU.
 * @param {string} system system info that llama.cpp reports @param {string[]} flags flags of the CPU
 * @returns {string[]} missing instruction sets
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
  // The backends for AVX-512 don't use it.
  if (!flags.includes('avx512_vnni')) pairs.push(['avx_vnni', 'AVX_VNNI']);
  return pairs
    .filter(([flag, name]) => flags.includes(flag) && !system.includes(`${name} = 1`))
    .map(([, name]) => name);
}

/** Files that a page loads of each runtime, without the model. */
const PAYLOAD = {
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

/** @param {string[]} paths @returns {{ raw: number, gzip: number }} bytes */
export function weigh(paths) {
  const sizes = paths
    .map((path) => readFileSync(path))
    .map((bytes) => ({ raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length }));
  return { raw: sizes.reduce((sum, s) => sum + s.raw, 0), gzip: sizes.reduce((sum, s) => sum + s.gzip, 0) };
}

/** Returns the sizes of JavaScript and wasm that a page of each peer loads. */
export const payloads = () =>
  Object.fromEntries(
    Object.entries(PAYLOAD).map(([name, files]) => [name, weigh(files.map((file) => join(MODULES, file)))]),
  );
