// WebKitGTK for a test: the poorest of browsers, with SIMD128 but no relaxed SIMD, no shared memory and no OPFS.
// Debian's WebKitWebDriver speaks the W3C protocol, of which we need eight commands; an Xvfb is its screen.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { lacksWebkit } from '../../tools/setup/system.mjs';
import { inTime, until } from '../waiting.mjs';
import { watchAsked } from './console.mjs';

/** @typedef {import('./browsers.mjs').Browser} Browser */
/** @typedef {import('node:child_process').ChildProcess} Child */

/** Why there is none, or undefined. */
export const missing = () => {
  const lacks = lacksWebkit();
  return lacks.length
    ? `no ${lacks.join(', no ')}: \`npm test\` installs them as root on Debian (webkit2gtk-driver, xvfb)`
    : undefined;
};

/** What still runs, lest a test that dies leave it behind. @type {Set<Child>} */
const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill()));

/** @param {string} program @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
function begin(program, args, env = process.env) {
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'] });
  running.add(child);
  child.on('exit', () => running.delete(child));
  return child;
}

/** @param {Child} child */
async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const isGone = once(child, 'exit');
  child.kill();
  await inTime('', isGone, { seconds: 10 }).catch(() => child.kill('SIGKILL'));
}

/** A screen for browsers without one. */
async function beginScreen() {
  // -noreset: it stays when its last program ends.
  const screen = begin('Xvfb', ['-displayfd', '1', '-screen', '0', '2560x1600x24', '-nolisten', 'tcp', '-noreset']);
  const [number] = await inTime(
    'the number of a screen',
    once(createInterface({ input: /** @type {any} */ (screen.stdout) }), 'line'),
  );
  return { screen, display: `:${number}` };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** One session of a driver of its own: a fresh profile. @param {string} display @param {string[]} features */
async function session(display, features) {
  const port = await freePort();
  const driver = begin('WebKitWebDriver', [`--port=${port}`, '--host=127.0.0.1'], { ...process.env, DISPLAY: display });
  /** @param {string} method @param {string} path @param {object} [body] */
  const call = async (method, path, body = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      ...(method === 'POST' ? { body: JSON.stringify(body) } : {}),
    });
    const { value } = /** @type {any} */ (await response.json());
    if (!response.ok) throw new Error(`WebKitWebDriver: ${value.error}: ${value.message}`);
    return value;
  };
  try {
    for (let tries = 0; ; tries++) {
      try {
        await call('GET', '/status');
        break;
      } catch (error) {
        if (tries === 100 || driver.exitCode !== null) throw error;
        await sleep(50);
      }
    }
    const { sessionId, capabilities } = await call('POST', '/session', {
      capabilities: {
        alwaysMatch: {
          timeouts: { script: 120_000 },
          ...(features.length
            ? {
                'webkitgtk:browserOptions': {
                  args: ['--automation', `--features=${features.map((name) => `+${name}`)}`],
                },
              }
            : {}),
        },
      },
    });
    return {
      version: String(capabilities.browserVersion),
      /** @param {string} path */
      get: (path) => call('GET', `/session/${sessionId}${path}`),
      /** @param {string} path @param {object} [body] */
      post: (path, body) => call('POST', `/session/${sessionId}${path}`, body),
      async end() {
        await call('DELETE', `/session/${sessionId}`).catch(() => {});
        await end(driver);
      },
      /** The browser goes with its driver. */
      kill: () => end(driver),
    };
  } catch (error) {
    await end(driver);
    throw error;
  }
}

/** Key of an element in the W3C protocol. */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';

/**
 * @param {{ features?: string[] }} [options]  more of WebKit's features, such as 'FileSystem' and 'StorageAPI'
 *   (OPFS is then there but refuses, as in Safari's private windows); `MiniBrowser --features=help` lists them
 * @returns {Promise<Browser>} closed by the caller
 */
export async function launchWebkit({ features = [] } = {}) {
  const { screen, display } = await beginScreen();
  const first = await session(display, features);
  /** Started beforehand for the first page. @type {typeof first | undefined} */
  let ready = first;
  /** @type {Set<typeof first>} */
  const open = new Set([first]);
  return {
    name: 'webkit',
    version: `WebKitGTK ${first.version}`,
    async open(url) {
      const own = ready ?? (await session(display, features));
      ready = undefined;
      open.add(own);
      /** @type {string[]} */
      const trouble = [];
      const evaluate = async (/** @type {Function} */ work, /** @type {any} */ arg = null) => {
        const { error, value } = await own.post('/execute/async', {
          script: `const [arg, done] = arguments;
            (async () => (${work})(arg))().then((value) => done({ value }), (error) => done({ error: error + '\\n' + error?.stack }));`,
          args: [arg],
        });
        if (error) throw new Error(error);
        return value;
      };
      const seen = () => evaluate(() => /** @type {any} */ (globalThis).trouble ?? []);
      /** Before the page goes, and what it saw with it. */
      const keep = async () => void trouble.push(...(await seen()));
      const element = async (/** @type {string} */ selector) =>
        `/element/${(await own.post('/element', { using: 'css selector', value: selector }))[ELEMENT]}`;
      const record = {
        async goto(/** @type {string} */ to) {
          await keep();
          await own.post('/url', { url: to });
        },
        async reload() {
          await keep();
          await own.post('/refresh');
        },
        evaluate,
        async until(/** @type {any} */ work, /** @type {any} */ arg) {
          await until(String(work), () => evaluate(work, arg), { every: 50 });
        },
        click: async (/** @type {string} */ selector) => own.post(`${await element(selector)}/click`),
        type: async (/** @type {string} */ selector, /** @type {string} */ text) =>
          own.post(`${await element(selector)}/value`, { text }),
        async size(/** @type {number} */ width, /** @type {number} */ height) {
          // What the window has besides the page, only the page can tell.
          const ask = (/** @type {number} */ more, /** @type {number} */ wider) =>
            own.post('/window/rect', { x: 0, y: 0, width: width + wider, height: height + more });
          await ask(0, 0);
          await evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
          const [inner, outer] = await evaluate(() => [innerWidth, innerHeight]);
          await ask(height - outer, width - inner);
          await evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
        },
        picture: async () => Buffer.from(await own.get('/screenshot'), 'base64'),
        trouble: async () => [...trouble, ...(await seen())],
        async close() {
          closed();
          open.delete(own);
          await own.end();
        },
      };
      let address = url ?? 'about:blank';
      const { goto } = record;
      record.goto = (to) => goto((address = to));
      const closed = watchAsked({
        address: () => address,
        picture: record.picture,
        look: async () => (open.has(own) ? record.trouble() : trouble),
      });
      if (url) await record.goto(url);
      return record;
    },
    async close() {
      await Promise.all([...open].map((own) => own.end()));
      await end(screen);
    },
    async kill() {
      await Promise.all([...open].map((own) => own.kill()));
      await end(screen);
    },
  };
}

/** The browser that the driver starts; undefined: not where Debian has it. */
export function findMiniBrowser() {
  const inside = (/** @type {string} */ folder, /** @type {RegExp} */ name) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && name.test(entry.name))
      .map((entry) => join(folder, entry.name));
  const folders = inside('/usr/lib', /-linux-/).flatMap((folder) => inside(folder, /^webkit2?gtk-/));
  return folders.map((folder) => join(folder, 'MiniBrowser')).find((path) => existsSync(path));
}

/**
 * Starts the browser as a person does, with a profile that outlives it, which the driver's private windows have not. Nobody
 * can evaluate anything in its page: that has to report by itself.
 * @param {string} profile  a folder
 * @param {string} url
 */
export async function openWebkit(profile, url) {
  const { screen, display } = await beginScreen();
  const at = (/** @type {string} */ name) => join(profile, name);
  const env = {
    ...process.env,
    DISPLAY: display,
    HOME: profile,
    XDG_DATA_HOME: at('data'),
    XDG_CACHE_HOME: at('cache'),
    XDG_CONFIG_HOME: at('config'),
  };
  const browser = begin(String(findMiniBrowser()), [url], env);
  return {
    async close() {
      await end(browser);
      await end(screen);
    },
  };
}
