// Measures one visit: opens a page in a browser, or runs a program.
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SHAPES } from '../make_random.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { contextOf, nameOf } from './cells.mjs';
import { missingInstructions } from './install.mjs';
import { readMachine, relaxedModule } from './machine.mjs';
import { childProcessBytes, measurePeak } from './memory.mjs';
import { modelPath, modelUrl } from './models.mjs';

/** @typedef {import('./cells.mjs').Visit} Visit */
/** `prefillMs`, `decodeMs`: times of all tokens of a cell. @typedef {{ facts: Record<string, any>, cells: { prompt: number, tokens: number, prefillMs: number, decodeMs: number }[] }} Result */

const execute = promisify(execFile);
/** Time limit of one visit. */
const TIMEOUT_MS = 75_000;

/** Open browsers, with a server for their pages. */
export class Pages {
  /** @type {Map<string, { version: string, open: (url: string) => Promise<any>, close: () => Promise<void> }>} */
  #browsers = new Map();
  /** @type {Awaited<ReturnType<typeof serve>> | null} */
  #site = null;

  /** Returns the browser of that name, and starts it if necessary. @param {string} name */
  async #browser(name) {
    const openBrowser = this.#browsers.get(name);
    if (openBrowser) return openBrowser;
    const browser = name === 'chromium' ? await startChromium() : await startOther(name);
    this.#browsers.set(name, browser);
    return browser;
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

  /** Visits a page once. @param {Visit} visit @returns {Promise<Result>} */
  async #visit(visit) {
    const { runtime, version, precision, shape, threads, kv, variant, cells } = visit;
    // Peers start workers from blob: URLs, which the policy of bq4's server forbids.
    this.#site ??= await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'], policy: false });
    const browser = await this.#browser(visit.browser ?? 'chromium');
    const page = await browser.open(`${this.#site.url}tools/bench/pages/page.html`);
    try {
      /** @type {import('./pages/page.js').Options} */
      const options = {
        runtime: /** @type {import('./pages/page.js').Options['runtime']} */ (runtime),
        version,
        precision,
        threads,
        kv,
        variant:
          /^(bq4|limit)$/.test(runtime) && variant === 'best' ? relaxedModule(readMachine(), visit.browser) : variant,
        model: modelUrl(visit),
        contextTokens: contextOf(shape),
        shape: SHAPES[shape],
      };
      const timeout = rejectAfterTimeout();
      const { peak } = await measurePeak(childProcessBytes(), () =>
        Promise.race([page.evaluate(`prepare(${JSON.stringify(options)})`), timeout]),
      );
      const result = await Promise.race([page.evaluate(`run(${JSON.stringify(cells)})`), timeout]);
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

/** Returns a promise that is rejected after the time limit. @returns {Promise<never>} */
const rejectAfterTimeout = () =>
  new Promise((_, reject) =>
    setTimeout(
      () => reject(new Error(`expected a visit of at most ${TIMEOUT_MS / 1000} s: it has not ended`)),
      TIMEOUT_MS,
    ).unref(),
  );

/** Starts Chromium. */
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
  const driversPath = '../../tests/browser/browsers.mjs';
  const { start } = await import(driversPath).catch(() => {
    throw new Error(`unsupported: tests/browser/browsers.mjs has no driver for ${name}`);
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

/** Measures plain reads of the size of the model's file, alternating between one thread and two. @param {Visit} visit @returns {Promise<Result>} */
export async function visitRead(visit) {
  const megabytes = Math.round(statSync(join(ROOT, modelPath(visit))).size / 2 ** 20);
  const { stdout } = await execute(join(ROOT, 'build/native/bench-read'), ['41', String(megabytes)], {
    timeout: TIMEOUT_MS,
  });
  return { cells: [], facts: { read: JSON.parse(stdout) } };
}

/** Measures llama.cpp built to wasm. @param {Visit} visit @param {string} node  path of Node @param {string} program @returns {Promise<Result>} */
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
    throw new Error(
      `expected llama.cpp with its SIMD kernels, found "${result.facts.system}": the comparison would be unfair`,
    );
  return result;
}

/** Measures native llama.cpp. @param {Visit} visit @param {import('./install.mjs').Native} native @param {string[]} flags  of the CPU @returns {Promise<Result>} */
export async function visitNative(visit, native, flags) {
  const backends = visit.variant === 'no-amx' ? native.noAmx : native.best;
  if (!backends) throw new Error('unsupported: llama.cpp has no backend with AMX for this CPU');
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
  const missingSets = visit.variant === 'best' ? missingInstructions(result.facts.system, flags) : [];
  if (missingSets.length)
    throw new Error(
      `expected native llama.cpp to use all instruction sets of this CPU, found ${result.facts.backend} without ${missingSets.join(', ')}: the comparison would be unfair`,
    );
  if (result.facts.threads !== visit.threads)
    throw new Error(`${nameOf(visit)}: expected ${visit.threads} threads, found ${result.facts.threads}`);
  return result;
}
