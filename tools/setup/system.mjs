// Finds the programs that the operating system must provide: Python, make, C compilers and browsers. On Debian and Ubuntu, root
// installs missing ones with apt. Otherwise one message lists all that are missing.
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot } from './cache.mjs';
import { debianLike, KEYRING } from './debian.mjs';
import { canFetchEmcc, findEmcc, noEmccMessage } from './emcc.mjs';
import { compareVersions, findOnPath, probe, run, say, SetupError, step } from './shell.mjs';

/** Returns the path of the file that records compilers which have passed their test, so that they are not tested in each run. */
const testedCompilersPath = () => join(cacheRoot(), 'system.json');

/**
 * A missing program.
 * @typedef {object} Need
 * @property {string} title  its name in messages
 * @property {string[]} packages  packages of Debian and Ubuntu that contain it
 * @property {boolean} [optional]  whether tests run without it; tests that require it are skipped with a message
 * @property {string} [consequence]  what happens without it, if no test is skipped
 */

/**
 * @typedef {object} System
 * Paths of programs.
 * @property {string} [python]  version 3.8 or newer
 * @property {string} [make]
 * @property {string} [gcc]  supports ASan and UBSan
 * @property {string} [clang]  supports ASan, UBSan and libFuzzer
 * @property {string} [chromium]
 */

/**
 * Finds programs and installs missing ones if it can. Throws SetupError with a list of all missing programs if it cannot.
 * @param {{tests: boolean, long?: boolean}} options  `tests`: also programs for tests; `long`: also those that only long tests
 *   need
 * @returns {Promise<System>}
 */
export async function provideSystem(options) {
  let { system, needs } = findPrograms(options);
  if (needs.length && debianLike() && process.getuid?.() === 0) {
    await aptInstall(needs).catch(async (error) => {
      // If a release has no package of an optional program, apt installs nothing. Required packages are then installed first.
      const requiredNeeds = needs.filter((need) => !need.optional);
      if (requiredNeeds.length === needs.length) throw error;
      if (requiredNeeds.length) await aptInstall(requiredNeeds);
      for (const need of needs.filter((need) => need.optional))
        await aptInstall([need]).catch(({ message }) => say(message));
    });
    ({ system, needs } = findPrograms(options));
  }
  const hasEmcc = findEmcc() !== undefined || canFetchEmcc();
  const missing = needs.filter((need) => !need.optional);
  if (missing.length || !hasEmcc) throw new SetupError(missingMessage(missing, hasEmcc));
  for (const { title, packages, consequence = 'its tests are skipped' } of needs) {
    say(
      `no ${title}: ${consequence}${debianLike() ? `. As root: apt-get install --no-install-recommends ${packages.join(' ')}` : ''}`,
    );
  }
  return system;
}

/**
 * Returns the programs that this machine has and those that it lacks.
 * @param {{tests: boolean, long?: boolean}} options
 * @returns {{system: System, needs: Need[]}}
 */
function findPrograms(options) {
  /** @type {Need[]} */
  const needs = [];
  /** @type {System} */
  const system = {};
  const python = findPython(options.tests ? '3.10' : '3.8');
  if (python) system.python = python;
  else
    needs.push({
      title: `Python ${options.tests ? '3.10' : '3.8'} or newer (emcc requires it)`,
      packages: ['python3'],
    });
  const make = findOnPath(['make', 'gmake']);
  if (make) system.make = make;
  else needs.push({ title: 'make', packages: ['make'] });
  if (!findEmcc() && canFetchEmcc() && !existsSync(KEYRING)) {
    needs.push({
      title: "Debian's archive keys (emcc is downloaded from Debian)",
      packages: ['debian-archive-keyring'],
    });
  }
  if (options.tests) {
    if (!python || probe(python, ['-c', 'import ensurepip, venv']) === undefined) {
      needs.push({ title: "Python's venv module", packages: ['python3-venv'] });
    }
    system.gcc = findSanitizingCompiler('gcc', ['-fsanitize=address,undefined']);
    if (!system.gcc) needs.push({ title: 'gcc with AddressSanitizer', packages: ['gcc', 'libc6-dev'] });
    system.clang = findSanitizingCompiler('clang', ['-fsanitize=address,undefined,fuzzer']);
    if (!system.clang)
      needs.push({
        title: 'clang with AddressSanitizer and libFuzzer',
        packages: ['clang', 'libc6-dev', 'libclang-rt-dev'],
      });
    system.chromium = findChromium();
    if (!system.chromium)
      needs.push({
        title: 'Chromium (or Chrome; the environment variable CHROME_PATH can contain its path)',
        packages: ['chromium', 'fonts-liberation'],
      });
    if (findHeadlessShell() === system.chromium && !process.env.CHROME_PATH)
      needs.push({
        title: "Chromium's headless shell",
        // Debian's packages of both depend on files of the same version, so an older Chromium is upgraded with it.
        packages: ['chromium-headless-shell', ...(system.chromium === '/usr/bin/chromium' ? ['chromium'] : [])],
        optional: true,
        consequence: 'tests run in Chromium itself, which takes longer',
      });
  }
  if (options.tests && options.long) {
    if (!findFirefox()) needs.push({ title: 'Firefox', packages: ['firefox-esr'], optional: true });
    if (missingWebkitPrograms().length)
      needs.push({
        title: 'WebKitGTK with its WebDriver and a virtual screen',
        packages: ['webkit2gtk-driver', 'xvfb'],
        optional: true,
      });
    const hosts = findAppHosts();
    if (!hosts.javac) needs.push({ title: 'a JDK', packages: ['default-jdk-headless'], optional: true });
    if (!hosts.gnustep)
      needs.push({
        title: 'Objective-C with GNUstep',
        packages: ['gobjc', 'libgnustep-base-dev', 'gnustep-make'],
        optional: true,
      });
    if (!hosts.webView)
      needs.push({
        title: 'a WebKitGTK view for Python',
        packages: ['xvfb', 'python3-gi', 'gir1.2-gtk-3.0', 'gir1.2-webkit2-4.1'],
        optional: true,
      });
  }
  return { system, needs };
}

/** Returns the path of a Python of a version or newer. @param {string} minimumVersion */
function findPython(minimumVersion) {
  for (const name of ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python']) {
    const path = findOnPath([name]);
    // The program on PATH may be a script that starts another one, so Python itself reports its path.
    const output =
      path && probe(path, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2], sys.executable)'])?.trim();
    if (!output) continue;
    const [version, executable] = output.split(' ');
    if (compareVersions(version, minimumVersion) >= 0) return executable;
  }
  return undefined;
}

/** Returns the path in an environment variable, if it is set. Throws SetupError if the file does not exist. @param {string} name */
function pathInVariable(name) {
  const path = process.env[name];
  if (path && !existsSync(path))
    throw new SetupError(`${name}: expected the path of a program, found ${path}, which does not exist`);
  return path || undefined;
}

/** Returns the path of Chromium or Chrome. @returns {string | undefined} */
export function findChromium() {
  return (
    pathInVariable('CHROME_PATH') ??
    findOnPath(['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'])
  );
}

/**
 * Returns the path of Chromium's headless shell, which has the same engine but no windows, so that short tests take half the
 * CPU time. Returns that of Chromium if the shell is not installed or CHROME_PATH is set.
 * @returns {string | undefined}
 */
export function findHeadlessShell() {
  return (process.env.CHROME_PATH ? undefined : findOnPath(['chromium-headless-shell'])) ?? findChromium();
}

/** Returns the path of Firefox. @returns {string | undefined} */
export function findFirefox() {
  return pathInVariable('FIREFOX_PATH') ?? findOnPath(['firefox-esr', 'firefox']);
}

/** Returns the names of missing programs for tests in WebKitGTK. */
export const missingWebkitPrograms = () => ['WebKitWebDriver', 'Xvfb'].filter((name) => !findOnPath([name]));

/**
 * Returns paths of programs for tests of examples/hosts, which replace phones: a Java compiler with JNI's headers, GNUstep's
 * configuration program, and a Python that can show a WebKitGTK view.
 * @returns {{ javac?: string, gnustep?: string, webView?: string }}
 */
export function findAppHosts() {
  const path = findOnPath(['javac']);
  const javac = path && realpathSync(path);
  const gnustep = findOnPath(['gnustep-config']);
  const viewImport = "import gi; gi.require_version('Gtk', '3.0'); gi.require_version('WebKit2', '4.1')";
  const python = findOnPath(['xvfb-run']) && existsSync('/usr/bin/python3') ? '/usr/bin/python3' : undefined;
  return {
    ...(javac && existsSync(join(javac, '../../include/jni.h')) && { javac }),
    ...(gnustep && { gnustep }),
    ...(python && probe(python, ['-c', viewImport]) !== undefined && { webView: python }),
  };
}

/**
 * Returns the path of a compiler if it can build and link a program with these flags. The result is stored until the version of
 * the compiler changes.
 * @param {string} name
 * @param {string[]} flags
 * @returns {string | undefined}
 */
function findSanitizingCompiler(name, flags) {
  const path = findOnPath([name]);
  if (!path) return undefined;
  const key = `${path} ${probe(path, ['-dumpfullversion', '-dumpversion'])?.trim()} ${flags.join(' ')}`;
  const testedCompilers = readTestedCompilers();
  if (testedCompilers[name] === key) return path;
  mkdirSync(cacheRoot(), { recursive: true });
  const hasFuzzer = flags.some((flag) => flag.includes('fuzzer'));
  const source = join(cacheRoot(), `probe-${process.pid}.c`);
  const program = source.replace(/\.c$/, '');
  writeFileSync(
    source,
    hasFuzzer
      ? '#include <stddef.h>\nint LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { return n > 1 && d[0] ? 0 : 0; }\n'
      : '#include <stdio.h>\nint main(void) { return printf("x") != 1; }\n',
  );
  const works = probe(path, [...flags, source, '-o', program]) !== undefined;
  rmSync(source, { force: true });
  rmSync(program, { force: true });
  if (!works) return undefined;
  writeFileSync(testedCompilersPath(), JSON.stringify({ ...testedCompilers, [name]: key }, null, 2) + '\n');
  return path;
}

/** Returns a key for each compiler that has passed its test, by name. @returns {Record<string, string>} */
function readTestedCompilers() {
  try {
    return JSON.parse(readFileSync(testedCompilersPath(), 'utf8'));
  } catch {
    return {};
  }
}

/** Installs the packages of missing programs. @param {Need[]} needs */
async function aptInstall(needs) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const packages = [...new Set(needs.flatMap((need) => need.packages))];
  await step(`installing ${needs.map((need) => need.packages[0]).join(', ')} with apt`, async () => {
    await run('apt-get', ['-qq', 'update'], { env });
    const names = packages.flatMap((name) => (name === 'libclang-rt-dev' ? clangRuntime() : [name]));
    // Another apt process, such as a daily update, may hold the lock: apt waits up to 300 seconds for it.
    await run(
      'apt-get',
      ['-qq', '-y', '-o', 'DPkg::Lock::Timeout=300', '--no-install-recommends', 'install', ...names],
      { env },
    );
  });
}

/** Returns the package of clang's sanitizers: its name contains clang's version. Older releases have no such package. */
function clangRuntime() {
  const version = /clang-(\d+)/.exec(probe('apt-cache', ['depends', 'clang']) ?? '')?.[1];
  const name = `libclang-rt-${version}-dev`;
  return version && probe('apt-cache', ['show', name]) ? [name] : [];
}

/**
 * Returns a message that lists missing programs and how to install them.
 * @param {Need[]} needs
 * @param {boolean} hasEmcc  whether emcc is installed or can be downloaded
 */
export function missingMessage(needs, hasEmcc) {
  const lines = needs.length
    ? [
        'expected these programs on this machine, found none of them:',
        '',
        ...needs.map((need) => `    ${need.title}`),
        '',
      ]
    : [];
  if (!hasEmcc) lines.push(noEmccMessage(), '');
  if (debianLike() && needs.length) {
    const packages = [...new Set(needs.flatMap((need) => need.packages))].flatMap((name) =>
      name === 'libclang-rt-dev' ? clangRuntime() : [name],
    );
    lines.push(
      'To install them, run as root:',
      '',
      `    apt-get install --no-install-recommends ${packages.join(' ')}`,
      '',
    );
  }
  lines.push('Then run the same command again.');
  return lines.join('\n');
}
