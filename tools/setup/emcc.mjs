// Provides a compiler from C to WebAssembly: the emcc on PATH if it is new enough, otherwise that of a newer Debian release.
// The latter is unpacked into the cache folder and patched to load its own libc, so that the system's libc stays unchanged.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  lstatSync,
  openSync,
  readSync,
  closeSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { cacheRoot, withLock, writeAtomically } from './cache.mjs';
import { debianLike, PrivateApt } from './debian.mjs';
import { compareVersions, findOnPath, probe, run, say, SetupError, step } from './shell.mjs';

/** Lowest supported version: the first with the final opcodes of relaxed SIMD. */
export const MINIMUM_EMCC_VERSION = '3.1.60';
/** Part of the toolchain folder's name. Increase it if the steps in `fetchFrom` change. */
const RECIPE = 'r1';
/** Debian releases from which emcc is downloaded, the newest first. */
const SUITES = ['forky', 'trixie'];

/** Names of each architecture, by its name in Node. @type {Record<string, {debian: string, triplet: string, loader: string}>} */
const MACHINES = {
  x64: { debian: 'amd64', triplet: 'x86_64-linux-gnu', loader: 'ld-linux-x86-64.so.2' },
  arm64: { debian: 'arm64', triplet: 'aarch64-linux-gnu', loader: 'ld-linux-aarch64.so.1' },
};

/** Programs of the packages that emcc runs. Others are removed. */
const LLVM_PROGRAMS =
  /^(clang(\+\+|-\d+)?|lld|wasm-ld|llvm-(ar|cxxfilt|dwarfdump|dwp|nm|objcopy|objdump|ranlib|strip))$/;
/** Files and folders of the packages that emcc does not use. */
const UNUSED_PATHS = [
  'etc',
  'usr/share/doc',
  'usr/share/man',
  'usr/share/lintian',
  'usr/share/bash-completion',
  'usr/share/emacs',
  'usr/share/emscripten/test',
  ...['lto', 'lto-pic', 'pic'].map((kind) => `usr/share/emscripten/cache/sysroot/lib/wasm32-emscripten/${kind}`),
];

/**
 * @typedef {object} Emcc
 * @property {string} path path of the program
 * @property {string} version
 * @property {string} source description of its origin, for messages
 */

/** Returns the emcc on PATH if it is new enough. @returns {Emcc | undefined} */
function emccOnPath() {
  const path = findOnPath(['emcc']);
  if (!path) return undefined;
  const version = / (\d+\.\d+\.\d+)/.exec(probe(path, ['--version']) ?? '')?.[1];
  if (!version) return undefined;
  if (compareVersions(version, MINIMUM_EMCC_VERSION) < 0) {
    say(`expected emcc ${MINIMUM_EMCC_VERSION} or newer on PATH, found ${version}: searching for another one`);
    return undefined;
  }
  return { path, version, source: 'PATH' };
}

/** Returns the folder that contains the downloaded toolchains. */
function toolchainsFolder() {
  return join(cacheRoot(), 'toolchain');
}

/**
 * Returns the newest complete toolchain in the cache folder that has the current RECIPE.
 * @param {string} [folder] folder that contains toolchains
 * @returns {Emcc | undefined}
 */
export function newestToolchain(folder = toolchainsFolder()) {
  if (!existsSync(folder)) return undefined;
  const suffix = `-${MACHINES[process.arch]?.debian}-${RECIPE}`;
  const [newest] = readdirSync(folder)
    .filter((name) => name.endsWith(suffix) && existsSync(join(folder, name, 'toolchain.json')))
    .map((name) => {
      const home = join(folder, name);
      const { version, suite } = JSON.parse(readFileSync(join(home, 'toolchain.json'), 'utf8'));
      return { path: join(home, 'bin', 'emcc'), version, source: `Debian ${suite}, in ${home}` };
    })
    .sort((a, b) => compareVersions(b.version, a.version));
  return newest;
}

/** Result of the first search. @type {Emcc | undefined} */
let foundEmcc;

/** Returns the emcc on PATH, or one that was downloaded before. @returns {Emcc | undefined} */
export function findEmcc() {
  foundEmcc ??= emccOnPath() ?? newestToolchain();
  return foundEmcc;
}

/** Whether an emcc can be downloaded for this system. */
export function canFetchEmcc() {
  return debianLike() !== undefined && MACHINES[process.arch] !== undefined;
}

/**
 * Finds emcc, or downloads it. The caller has checked canFetchEmcc().
 * @param {NodeJS.ProcessEnv} env environment variables for emcc
 * @returns {Promise<Emcc>}
 */
export async function provideEmcc(env) {
  const existing = findEmcc();
  if (existing) return existing;
  return withLock('toolchain', async () => newestToolchain() ?? fetchToolchain(env));
}

/** Returns a message that describes how to install emcc. */
export function noEmccMessage() {
  return [
    `bq4 needs emcc ${MINIMUM_EMCC_VERSION} or newer on PATH to build. On this system (${process.platform} ${process.arch}) install it with:`,
    '',
    '    git clone https://github.com/emscripten-core/emsdk',
    '    ./emsdk/emsdk install latest',
    '    ./emsdk/emsdk activate latest && . ./emsdk/emsdk_env.sh',
  ].join('\n');
}

/**
 * Downloads emcc from the newest Debian release that provides it.
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Emcc>}
 */
async function fetchToolchain(env) {
  /** @type {string[]} */
  const failures = [];
  for (const suite of SUITES) {
    const work = join(toolchainsFolder(), `.work-${process.pid}`);
    rmSync(work, { recursive: true, force: true });
    try {
      return await fetchFrom(suite, work, env);
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      failures.push(`Debian ${suite}: ${error.message}`);
      say(`cannot get emcc from Debian ${suite}`);
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  }
  throw new SetupError(
    `no emcc could be fetched.\n\n${failures.join('\n\n')}\n\n${noEmccMessage()}\n\nand run the same command again.`,
  );
}

/**
 * Downloads emcc from a Debian release, patches its programs and builds its libraries.
 * @param {string} suite
 * @param {string} work path of an empty folder in the folder of toolchains
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Emcc>}
 */
async function fetchFrom(suite, work, env) {
  const { debian: architecture, triplet, loader } = MACHINES[process.arch];
  mkdirSync(work, { recursive: true });
  removeInterruptedWork(work);
  const apt = new PrivateApt(work, suite);
  const packages = await step(`reading the package list of Debian ${suite}`, async () => {
    await apt.update();
    return packageList(apt);
  });
  const version = /^\d+\.\d+\.\d+/.exec(packages.get('emscripten') ?? '')?.[0] ?? '0.0.0';
  const name = `emcc-${version}-${suite}-${architecture}-${RECIPE}`;
  const home = join(toolchainsFolder(), name);
  const root = join(work, 'root');
  const llvm = [...packages.keys()].map((p) => /^clang-(\d+)$/.exec(p)?.[1]).find(Boolean);

  await step(`downloading emcc ${version} with clang ${llvm} (100 MB or more)`, () =>
    apt.unpack([...packages.keys()], root),
  );
  await step('patching its programs to load their own libraries', async () => {
    removeUnusedFiles(root, `usr/lib/llvm-${llvm}/bin`);
    // The path of the loader in a program must be absolute, so it is the final path.
    await patchLibraryPaths(root, join(home, 'root'), triplet, loader, `usr/lib/llvm-${llvm}/bin`);
    await addNodeModules(root, work);
  });
  const final = join(work, 'toolchain');
  mkdirSync(join(final, 'bin'), { recursive: true });
  // The packages of some releases contain emcc's compiled libraries.
  const libraries = join(root, 'usr/share/emscripten/cache');
  if (existsSync(libraries)) renameSync(libraries, join(final, 'cache'));
  renameSync(root, join(final, 'root'));
  writeFileSync(join(final, 'config.py'), emccConfig(join(home, 'root'), join(home, 'cache'), `usr/lib/llvm-${llvm}`));
  for (const tool of ['emcc', 'em++', 'emar'])
    writeFileSync(join(final, 'bin', tool), launcherScript(home, tool), { mode: 0o755 });
  for (const tool of ['wasm-dis', 'wasm-opt'])
    writeFileSync(join(final, 'bin', tool), `#!/bin/sh\nexec '${home}/root/usr/bin/${tool}' "$@"\n`, { mode: 0o755 });
  rmSync(home, { recursive: true, force: true });
  renameSync(final, home);

  const path = join(home, 'bin', 'emcc');
  await step("building emcc's own libraries (once)", () => buildLibraries(path, work, env));
  // Written last: a toolchain without this file is incomplete and is downloaded again.
  writeAtomically(
    join(home, 'toolchain.json'),
    JSON.stringify({ version, suite, packages: Object.fromEntries([...packages].sort()) }, null, 2) + '\n',
  );
  return { path, version, source: `Debian ${suite}, in ${home}` };
}

/**
 * Removes the working folders of interrupted set-ups. The caller holds the lock.
 * @param {string} keep  path of the working folder in use
 */
function removeInterruptedWork(keep) {
  for (const name of readdirSync(toolchainsFolder())) {
    const path = join(toolchainsFolder(), name);
    if (name.startsWith('.work-') && path !== keep) rmSync(path, { recursive: true, force: true });
  }
}

/**
 * Returns the packages of emcc, of the compiler and of the libraries that they load. Other dependencies of emcc's package
 * are omitted (another Node, headers of the native libc, ...).
 * @param {PrivateApt} apt
 */
async function packageList(apt) {
  const needs = /^(binaryen|clang-\d+|lld-\d+|llvm-\d+|llvm-\d+-linker-tools|libclang-common-\d+-dev)$/;
  const library = (/** @type {string} */ name) =>
    /^(lib|zlib)/.test(name) && !/-dev$|^libobjc|^libgcc-\d+|^libclang1-|^libclang-rt-/.test(name);
  return apt.closure(['emscripten', 'patchelf'], (name) => needs.test(name) || library(name));
}

/**
 * Removes files of the packages that emcc doesn't use.
 * @param {string} root
 * @param {string} programs path of the folder of LLVM's programs
 */
function removeUnusedFiles(root, programs) {
  for (const folder of UNUSED_PATHS) rmSync(join(root, folder), { recursive: true, force: true });
  for (const name of readdirSync(join(root, programs))) {
    if (!LLVM_PROGRAMS.test(name)) rmSync(join(root, programs, name), { recursive: true });
  }
}

/** Whether a file is an ELF program or library. @param {string} path */
function isElf(path) {
  const magic = Buffer.alloc(4);
  const file = openSync(path, 'r');
  readSync(file, magic, 0, 4, 0);
  closeSync(file);
  return magic.toString('latin1') === '\x7fELF';
}

/**
 * Patches programs and libraries so that they load the libc next to them.
 * @param {string} root  folder that contains the files now
 * @param {string} home  folder that will contain them
 * @param {string} triplet  name of the folder of libraries, such as x86_64-linux-gnu
 * @param {string} loader  file name of the dynamic loader
 * @param {string} programs  path of the folder of LLVM's programs
 */
async function patchLibraryPaths(root, home, triplet, loader, programs) {
  const libraries = join('usr/lib', triplet);
  // patchelf itself is linked against this libc too, so it is started by the loader of this libc.
  /** @param {readonly string[]} args */
  const patch = (args) =>
    run(join(root, libraries, loader), [
      '--library-path',
      join(root, libraries),
      join(root, 'usr/bin/patchelf'),
      ...args,
    ]);
  /** @param {string} folder @param {RegExp} names */
  const files = (folder, names) =>
    readdirSync(join(root, folder))
      .filter((name) => names.test(name))
      .map((name) => join(root, folder, name))
      .filter((path) => lstatSync(path).isFile() && isElf(path));
  for (const path of [...files(programs, /./), ...files('usr/bin', /^wasm-/)]) {
    await patch([
      '--set-interpreter',
      join(home, libraries, loader),
      '--force-rpath',
      '--set-rpath',
      join(home, libraries),
      path,
    ]);
  }
  // These libraries have a RUNPATH of their own, which would override that of the program.
  for (const path of files(libraries, /^lib(LLVM|clang-cpp|binaryen)/)) {
    await patch(['--force-rpath', '--set-rpath', join(home, libraries), path]);
  }
}

/**
 * Installs acorn next to emcc, where its JavaScript optimizer loads it.
 * @param {string} root
 * @param {string} work
 */
async function addNodeModules(root, work) {
  const folder = join(work, 'node');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private": true}\n');
  await run(
    'npm',
    [
      'install',
      '--no-audit',
      '--no-fund',
      '--no-package-lock',
      '--ignore-scripts',
      'acorn@8.15.0',
      'acorn-import-phases@1.0.4',
    ],
    { cwd: folder },
  );
  const target = join(root, 'usr/share/emscripten/node_modules');
  rmSync(target, { recursive: true, force: true });
  renameSync(join(folder, 'node_modules'), target);
}

/**
 * Returns emcc's configuration, a Python file.
 * @param {string} root
 * @param {string} cache
 * @param {string} llvm
 */
function emccConfig(root, cache, llvm) {
  return [
    'import os, shutil',
    `LLVM_ROOT = ${JSON.stringify(join(root, llvm, 'bin'))}`,
    `BINARYEN_ROOT = ${JSON.stringify(join(root, 'usr'))}`,
    "NODE_JS = os.environ.get('BQ4_NODE') or shutil.which('node')",
    `CACHE = ${JSON.stringify(cache)}`,
    "LLVM_ADD_VERSION = CLANG_ADD_VERSION = ''",
    '',
  ].join('\n');
}

/**
 * Returns a shell script that runs one of emcc's Python programs.
 * @param {string} home
 * @param {string} tool
 */
function launcherScript(home, tool) {
  return [
    '#!/bin/sh',
    `EM_CONFIG='${home}/config.py'; export EM_CONFIG`,
    `exec "\${EMSDK_PYTHON:-python3}" -E '${home}/root/usr/share/emscripten/${tool}.py' "$@"`,
    '',
  ].join('\n');
}

/**
 * Compiles a module with the options of emscripten.mk and checks its result. emcc compiles its libc at this time, not in the
 * user's first build.
 * @param {string} emcc
 * @param {string} work
 * @param {NodeJS.ProcessEnv} env
 */
async function buildLibraries(emcc, work, env) {
  const [source, module] = [join(work, 'test.c'), join(work, 'test.wasm')];
  writeFileSync(source, '#include <string.h>\nint differ(int at) { return memcmp((char *)at, "wasm", 4); }\n');
  await run(
    emcc,
    [
      '-O1',
      '-msimd128',
      '-mrelaxed-simd',
      source,
      '-o',
      module,
      '-nostartfiles',
      '-Wl,--no-entry',
      '-sIMPORTED_MEMORY',
      '-sALLOW_MEMORY_GROWTH',
      '-sINITIAL_MEMORY=1MB',
      '-sDEFAULT_TO_CXX=0',
      '-sAUTO_NATIVE_LIBRARIES=0',
      '-sMALLOC=none',
      '-sEXPORTED_FUNCTIONS=_differ',
    ],
    { cwd: work, env },
  );
  const memory = new WebAssembly.Memory({ initial: 16, maximum: 16 });
  const { instance } = await WebAssembly.instantiate(readFileSync(module), { env: { memory } });
  new Uint8Array(memory.buffer).set(Buffer.from('wasm'), 1 << 19);
  const differ = /** @type {(at: number) => number} */ (instance.exports.differ);
  if (differ(1 << 19) !== 0 || differ(1 << 18) === 0)
    throw new SetupError(`expected a correct result of a module built by ${emcc}, found a wrong one`);
}
