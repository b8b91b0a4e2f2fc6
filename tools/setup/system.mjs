// What only the system can give: Python, make, C compilers, a browser. As root on Debian or Ubuntu
// it is installed; else one message lists all that is missing.
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cacheRoot } from './cache.mjs';
import { debianLike, KEYRING } from './debian.mjs';
import { canFetchEmcc, findEmcc, noEmccMessage } from './emcc.mjs';
import { compareVersions, findOnPath, probe, run, say, SetupError, step } from './shell.mjs';

/** Where some programs of the last look were, so that the next look need not try them all. */
const NOTES = () => join(cacheRoot(), 'system.json');

/**
 * @typedef {object} Need
 * @property {string} what for people
 * @property {string[]} packages of Debian and Ubuntu
 * @property {boolean} [optional] tests that need it are skipped, and say why
 * @property {string} [without] what happens without it, where no test is skipped
 */

/**
 * @typedef {object} System
 * @property {string} [python] at least 3.8
 * @property {string} [make]
 * @property {string} [gcc] with ASan and UBSan
 * @property {string} [clang] with ASan, UBSan and libFuzzer
 * @property {string} [chromium]
 */

/**
 * Finds what the system has, installs what it lacks when that is possible, and throws a message with
 * everything that is missing when it is not.
 * @param {{tests: boolean, long?: boolean}} wanted  `long`: what only long tests need, too
 * @returns {Promise<System>}
 */
export async function provideSystem(wanted) {
  let { found, needs } = look(wanted);
  if (needs.length && debianLike() && process.getuid?.() === 0) {
    await aptInstall(needs).catch(async (error) => {
      // A release may lack what is optional; apt then installs nothing at all.
      const must = needs.filter((need) => !need.optional);
      if (must.length === needs.length) throw error;
      if (must.length) await aptInstall(must);
      for (const need of needs.filter((need) => need.optional))
        await aptInstall([need]).catch(({ message }) => say(message));
    });
    ({ found, needs } = look(wanted));
  }
  const emcc = findEmcc() !== undefined || canFetchEmcc();
  const missing = needs.filter((need) => !need.optional);
  if (missing.length || !emcc) throw new SetupError(missingMessage(missing, emcc));
  for (const { what, packages, without = 'its tests are skipped' } of needs) {
    say(
      `no ${what}: ${without}${debianLike() ? `. As root: apt-get install --no-install-recommends ${packages.join(' ')}` : ''}`,
    );
  }
  return found;
}

/**
 * @param {{tests: boolean, long?: boolean}} wanted
 * @returns {{found: System, needs: Need[]}}
 */
function look(wanted) {
  /** @type {Need[]} */
  const needs = [];
  /** @type {System} */
  const found = {};
  const python = findPython(wanted.tests ? '3.10' : '3.8');
  if (python) found.python = python;
  else
    needs.push({
      what: `Python ${wanted.tests ? '3.10' : '3.8'} or newer (emcc is written in it)`,
      packages: ['python3'],
    });
  const make = findOnPath(['make', 'gmake']);
  if (make) found.make = make;
  else needs.push({ what: 'make', packages: ['make'] });
  if (!findEmcc() && canFetchEmcc() && !existsSync(KEYRING)) {
    needs.push({ what: "Debian's archive keys (emcc is fetched from Debian)", packages: ['debian-archive-keyring'] });
  }
  if (wanted.tests) {
    if (!python || probe(python, ['-c', 'import ensurepip, venv']) === undefined) {
      needs.push({ what: "Python's venv module", packages: ['python3-venv'] });
    }
    found.gcc = sanitizing('gcc', ['-fsanitize=address,undefined']);
    if (!found.gcc) needs.push({ what: 'gcc with AddressSanitizer', packages: ['gcc', 'libc6-dev'] });
    found.clang = sanitizing('clang', ['-fsanitize=address,undefined,fuzzer']);
    if (!found.clang)
      needs.push({
        what: 'clang with AddressSanitizer and libFuzzer',
        packages: ['clang', 'libc6-dev', 'libclang-rt-dev'],
      });
    found.chromium = findChromium();
    if (!found.chromium)
      needs.push({
        what: 'Chromium (or Chrome; CHROME_PATH may say where it is)',
        packages: ['chromium', 'fonts-liberation'],
      });
    if (findHeadlessShell() === found.chromium && !process.env.CHROME_PATH)
      needs.push({
        what: "Chromium's headless shell",
        // Debian's packages of both depend on files of the same version, so an older Chromium is upgraded with it.
        packages: ['chromium-headless-shell', ...(found.chromium === '/usr/bin/chromium' ? ['chromium'] : [])],
        optional: true,
        without: 'tests run in Chromium itself, which takes longer',
      });
  }
  if (wanted.tests && wanted.long) {
    if (!findFirefox()) needs.push({ what: 'Firefox', packages: ['firefox-esr'], optional: true });
    if (lacksWebkit().length)
      needs.push({
        what: 'WebKitGTK with its WebDriver and a virtual screen',
        packages: ['webkit2gtk-driver', 'xvfb'],
        optional: true,
      });
    const hosts = findAppHosts();
    if (!hosts.javac) needs.push({ what: 'a JDK', packages: ['default-jdk-headless'], optional: true });
    if (!hosts.gnustep)
      needs.push({
        what: 'Objective-C with GNUstep',
        packages: ['gobjc', 'libgnustep-base-dev', 'gnustep-make'],
        optional: true,
      });
    if (!hosts.webView)
      needs.push({
        what: 'a WebKitGTK view for Python',
        packages: ['xvfb', 'python3-gi', 'gir1.2-gtk-3.0', 'gir1.2-webkit2-4.1'],
        optional: true,
      });
  }
  return { found, needs };
}

/** @param {string} least */
function findPython(least) {
  for (const name of ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python']) {
    const path = findOnPath([name]);
    // PATH may hold a shim: ask Python itself where it is.
    const answer =
      path && probe(path, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2], sys.executable)'])?.trim();
    if (!answer) continue;
    const [version, executable] = answer.split(' ');
    if (compareVersions(version, least) >= 0) return executable;
  }
  return undefined;
}

/** @returns {string | undefined} */
export function findChromium() {
  const named = process.env.CHROME_PATH;
  if (named) {
    if (existsSync(named)) return named;
    throw new SetupError(`CHROME_PATH is ${named}, and there is no such file`);
  }
  return findOnPath(['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']);
}

/**
 * Returns the path of Chromium's headless shell, which has the same engine but no windows, so that short tests take half the
 * CPU time. Returns that of Chromium if the shell is not installed or CHROME_PATH is set.
 * @returns {string | undefined}
 */
export function findHeadlessShell() {
  return (process.env.CHROME_PATH ? undefined : findOnPath(['chromium-headless-shell'])) ?? findChromium();
}

/** @returns {string | undefined} */
export function findFirefox() {
  const named = process.env.FIREFOX_PATH;
  if (named) {
    if (existsSync(named)) return named;
    throw new SetupError(`FIREFOX_PATH is ${named}, and there is no such file`);
  }
  return findOnPath(['firefox-esr', 'firefox']);
}

/** The programs that the tests in WebKitGTK lack. */
export const lacksWebkit = () => ['WebKitWebDriver', 'Xvfb'].filter((name) => !findOnPath([name]));

/**
 * What stands for the apps of phones (examples/hosts): a Java compiler with JNI's headers, GNUstep's configuration, a
 * Python that shows a WebKitGTK view.
 * @returns {{ javac?: string, gnustep?: string, webView?: string }}
 */
export function findAppHosts() {
  const path = findOnPath(['javac']);
  const javac = path && realpathSync(path);
  const gnustep = findOnPath(['gnustep-config']);
  const view = "import gi; gi.require_version('Gtk', '3.0'); gi.require_version('WebKit2', '4.1')";
  const python = findOnPath(['xvfb-run']) && existsSync('/usr/bin/python3') ? '/usr/bin/python3' : undefined;
  return {
    ...(javac && existsSync(join(javac, '../../include/jni.h')) && { javac }),
    ...(gnustep && { gnustep }),
    ...(python && probe(python, ['-c', view]) !== undefined && { webView: python }),
  };
}

/**
 * A compiler that builds and links a program with these sanitizers. The answer is remembered for a
 * compiler that has not changed.
 * @param {string} name
 * @param {string[]} flags
 * @returns {string | undefined}
 */
function sanitizing(name, flags) {
  const path = findOnPath([name]);
  if (!path) return undefined;
  const key = `${path} ${probe(path, ['-dumpfullversion', '-dumpversion'])?.trim()} ${flags.join(' ')}`;
  const notes = readNotes();
  if (notes[name] === key) return path;
  mkdirSync(cacheRoot(), { recursive: true });
  const fuzzer = flags.some((flag) => flag.includes('fuzzer'));
  const source = join(cacheRoot(), `probe-${process.pid}.c`);
  const program = source.replace(/\.c$/, '');
  writeFileSync(
    source,
    fuzzer
      ? '#include <stddef.h>\nint LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { return n > 1 && d[0] ? 0 : 0; }\n'
      : '#include <stdio.h>\nint main(void) { return printf("x") != 1; }\n',
  );
  const works = probe(path, [...flags, source, '-o', program]) !== undefined;
  rmSync(source, { force: true });
  rmSync(program, { force: true });
  if (!works) return undefined;
  writeFileSync(NOTES(), JSON.stringify({ ...notes, [name]: key }, null, 2) + '\n');
  return path;
}

/** @returns {Record<string, string>} */
function readNotes() {
  try {
    return JSON.parse(readFileSync(NOTES(), 'utf8'));
  } catch {
    return {};
  }
}

/** @param {Need[]} needs */
async function aptInstall(needs) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const packages = [...new Set(needs.flatMap((need) => need.packages))];
  await step(`installing ${needs.map((need) => need.packages[0]).join(', ')} with apt`, async () => {
    await run('apt-get', ['-qq', 'update'], { env });
    const names = packages.flatMap((name) => (name === 'libclang-rt-dev' ? clangRuntime() : [name]));
    // Another apt, such as the daily one, may be at work: wait for it.
    await run(
      'apt-get',
      ['-qq', '-y', '-o', 'DPkg::Lock::Timeout=300', '--no-install-recommends', 'install', ...names],
      { env },
    );
  });
}

/** The package with clang's sanitizers carries clang's version, and older releases have none. */
function clangRuntime() {
  const version = /clang-(\d+)/.exec(probe('apt-cache', ['depends', 'clang']) ?? '')?.[1];
  const name = `libclang-rt-${version}-dev`;
  return version && probe('apt-cache', ['show', name]) ? [name] : [];
}

/**
 * @param {Need[]} needs
 * @param {boolean} emcc whether there is one, or can be
 */
export function missingMessage(needs, emcc) {
  const lines = needs.length ? ['this machine lacks:', '', ...needs.map((need) => `    ${need.what}`), ''] : [];
  if (!emcc) lines.push(noEmccMessage(), '');
  if (debianLike() && needs.length) {
    const packages = [...new Set(needs.flatMap((need) => need.packages))].flatMap((name) =>
      name === 'libclang-rt-dev' ? clangRuntime() : [name],
    );
    lines.push(
      'Install it, as root, with:',
      '',
      `    apt-get install --no-install-recommends ${packages.join(' ')}`,
      '',
    );
  }
  lines.push('and run the same command again.');
  return lines.join('\n');
}
