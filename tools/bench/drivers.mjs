// Makes a visit: opens a page in a browser, or runs a program.
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SHAPES } from '../make_random.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { contextOf, nameOf } from './cells.mjs';
import { missingInstructions } from './install.mjs';
import { machine, relaxedModule } from './machine.mjs';
import { bytesBelow, watched } from './memory.mjs';
import { modelPath, modelUrl } from './models.mjs';

/** @typedef {import('./cells.mjs').Visit} Visit */
/** @typedef {{ facts: Record<string, any>, cells: { prompt: number, tokens: number, prefillMs: number, decodeMs: number }[] }} Result */

const execute = promisify(execFile);
/** Time limit of a visit. */
const TIMEOUT_MS = 75_000;

/** Open browsers, with a server for their pages. */
export class Pages {
  /** @type {Map<string, { version: string, open: (url: string) => Promise<any>, close: () => Promise<void> }>} */
  #browsers = new Map();
  /** @type {Awaited<ReturnType<typeof serve>> | null} */
  #site = null;

  /** @param {string} name */
  async #browser(name) {
    const known = this.#browsers.get(name);
    if (known) return known;
    const output = name === 'chromium' ? await startChromium() : await startOther(name);
    this.#browsers.set(name, output);
    return output;
  }

  /** Visits a page. After a failure it tries again in a new browser, since browsers sometimes fail. @param {Visit} visit @returns {Promise<Result>} */
  async visit(visit) {
    try {
      return await this.#visit(visit);
    } catch (error) {
      if (
        /unsupported/.test(String(/** @type {any} */ (error)?.message)) &&
        !/silent/.test(String(/** @type {any} */ (error)?.message))
      )
        throw error;
      const name = visit.browser ?? 'chromium';
      await this.#browsers
        .get(name)
        ?.close()
        .catch(() => {});
      this.#browsers.delete(name);
      return this.#visit(visit);
    }
  }

  /** @param {Visit} visit @returns {Promise<Result>} */
  async #visit(visit) {
    const { runtime, version, precision, shape, threads, kv, variant, cells } = visit;
    // Peers start workers from blob: URLs, which the policy of bq4's server forbids.
    this.#site ??= await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'], policy: false });
    const browser = await this.#browser(visit.browser ?? 'chromium');
    const page = await browser.open(`${this.#site.url}tools/bench/pages/page.html`);
    try {
      const options = {
        runtime,
        version,
        precision,
        threads,
        kv,
        variant: /^(us|limit)$/.test(runtime) && variant === 'best' ? relaxedModule(machine(), visit.browser) : variant,
        model: modelUrl(visit),
        contextTokens: contextOf(shape),
        shape: SHAPES[shape],
      };
      const late = tooLate();
      const { peak } = await watched(bytesBelow(), () =>
        Promise.race([page.evaluate(`prepare(${JSON.stringify(options)})`), late]),
      );
      const result = await Promise.race([page.evaluate(`run(${JSON.stringify(cells)})`), late]);
      return {
        ...result,
        facts: { browser: browser.version, memory: Number.isFinite(peak) ? peak : null, ...result.facts },
      };
    } finally {
      await page.close();
    }
  }

  async close() {
    for (const browser of this.#browsers.values()) await browser.close();
    await this.#site?.close();
  }
}

/** @returns {Promise<never>} */
const tooLate = () =>
  new Promise((_, reject) =>
    setTimeout(() => reject(new Error(`took longer than ${TIMEOUT_MS / 1000} s`)), TIMEOUT_MS).unref(),
  );

async function startChromium() {
  const { launch } = await import('../../tests/browser/launch.mjs');
  const browser = await launch({ full: true });
  return {
    version: `Chromium ${browser.version()}`,
    open: async (/** @type {string} */ url) => {
      const page = await browser.newPage();
      await page.goto(url);
      await page.waitForFunction('globalThis.benchReady');
      return page;
    },
    close: () => browser.close(),
  };
}

/** Opens another browser with the drivers of the browser tests. @param {string} name */
async function startOther(name) {
  const drivers = '../../tests/browser/browsers.mjs';
  const { start } = await import(drivers).catch(() => {
    throw new Error(`unsupported: no driver for ${name}`);
  });
  const browser = await start(name);
  return {
    version: browser.version,
    open: async (/** @type {string} */ url) => {
      const page = await browser.open(url);
      await page.until('globalThis.benchReady');
      return page;
    },
    close: () => browser.close(),
  };
}

/** Measures plain reads of as many bytes as the model's file has, alternating between one thread and two. @param {Visit} visit @returns {Promise<Result>} */
export async function visitRead(visit) {
  const megabytes = Math.round(statSync(join(ROOT, modelPath(visit))).size / 2 ** 20);
  const { stdout } = await execute(join(ROOT, 'build/native/bench-read'), ['41', String(megabytes)], {
    timeout: TIMEOUT_MS,
  });
  return { cells: [], facts: { read: JSON.parse(stdout) } };
}

/** @param {Visit} visit @param {string} node @param {string} program @returns {Promise<Result>} */
export async function visitLlamaWasm(visit, node, program) {
  const { stdout } = await execute(
    node,
    [
      program,
      join(ROOT, modelPath(visit)),
      'none',
      String(visit.threads),
      String(contextOf(visit.shape) + 64),
      visit.kv,
      ...visit.cells.map(({ prompt, tokens }) => `${prompt}:${tokens}`),
    ],
    { timeout: TIMEOUT_MS, maxBuffer: 1 << 24 },
  );
  /** @type {Result} */
  const result = JSON.parse(stdout);
  if (!/WASM_SIMD = 1/.test(result.facts.system))
    throw new Error('llama.cpp was built without its SIMD kernels: no fair peer');
  return result;
}

/** @param {Visit} visit @param {import('./install.mjs').Native} native @param {string[]} flags of the CPU @returns {Promise<Result>} */
export async function visitNative(visit, native, flags) {
  const backends = visit.variant === 'no-amx' ? native.noAmx : native.best;
  if (!backends) throw new Error('unsupported: there is no backend with AMX here');
  const { stdout } = await execute(
    native.program,
    [
      join(ROOT, modelPath(visit)),
      backends,
      String(visit.threads),
      String(contextOf(visit.shape) + 64),
      visit.kv,
      ...visit.cells.map(({ prompt, tokens }) => `${prompt}:${tokens}`),
    ],
    { timeout: TIMEOUT_MS, maxBuffer: 1 << 24 },
  );
  /** @type {Result} */
  const result = JSON.parse(stdout);
  const missing = visit.variant === 'best' ? missingInstructions(result.facts.system, flags) : [];
  if (missing.length)
    throw new Error(
      `native llama.cpp loaded ${result.facts.backend}, which lacks ${missing.join(', ')} that this CPU has: no fair peer`,
    );
  if (result.facts.threads !== visit.threads) throw new Error(`${nameOf(visit)}: ${result.facts.threads} threads`);
  return result;
}
