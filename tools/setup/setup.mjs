#!/usr/bin/env node
// Sets up everything that building and testing require. `npm start` and `npm test` run it automatically.
// By hand: node tools/setup/setup.mjs [--tests] [--long] [--print emcc]
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { provideEmcc } from './emcc.mjs';
import { provideModels } from './models.mjs';
import { provideNodeModules, testNode } from './npm.mjs';
import { providePython } from './python.mjs';
import { compareVersions, say, SetupError } from './shell.mjs';
import { provideSystem } from './system.mjs';

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/**
 * @typedef {object} Tools absolute paths of programs
 * @property {string} emcc
 * @property {string} make
 * @property {NodeJS.ProcessEnv} env environment variables for make and emcc
 * @property {string} python
 * @property {string} [node] Node for tests: a fixed version with relaxed SIMD
 * @property {string} [testPython] Python for tests: has the packages of tools/requirements-test.txt
 * @property {string} [gcc]
 * @property {string} [clang]
 * @property {string} [chromium]
 */

/**
 * Finds or installs the tools. Idempotent, and fast if everything is already installed.
 * @param {{tests?: boolean, long?: boolean}} [options]  `tests`: also tools for tests; `long`: also those for long tests
 * @returns {Promise<Tools>}
 */
export async function setUp({ tests = false, long = false } = {}) {
  if (compareVersions(process.versions.node, '20.16') < 0) {
    throw new SetupError(`expected Node 20.16 or newer, found ${process.version}`);
  }
  const system = await provideSystem({ tests, long });
  const env = { ...process.env, EMSDK_PYTHON: system.python, BQ4_NODE: process.execPath };
  const emcc = await provideEmcc(env);
  /** @type {Tools} */
  const tools = {
    ...system,
    python: /** @type {string} */ (system.python),
    make: /** @type {string} */ (system.make),
    emcc: emcc.path,
    env: { ...env, EMCC: emcc.path },
  };
  if (tests) {
    await provideNodeModules(ROOT);
    tools.node = testNode(ROOT);
    tools.testPython = await providePython(ROOT, tools.python);
    await provideModels(tools.testPython).catch((error) => {
      if (!(error instanceof SetupError)) throw error;
      say(`NO REAL MODELS: tests that need them are skipped. ${error.message}`);
    });
  }
  return tools;
}

/**
 * Runs the main function of a command-line tool. A SetupError is printed without a stack trace.
 * @param {() => Promise<number | void>} main resolves to the exit status
 */
export async function command(main) {
  try {
    process.exitCode = Number((await main()) ?? 0);
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    process.exitCode = 1;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await command(async () => {
    const { values } = parseArgs({
      options: { tests: { type: 'boolean' }, long: { type: 'boolean' }, print: { type: 'string' } },
    });
    const tools = await setUp({ tests: values.tests, long: values.long });
    if (values.print) console.log(tools[/** @type {keyof Tools} */ (values.print)]);
  });
}
