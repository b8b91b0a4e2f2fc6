// Starts WebKitGTK for a test. It is the tested browser with the fewest features: SIMD128, but no relaxed SIMD, no shared memory and no
// OPFS. Debian's WebKitWebDriver implements the W3C protocol; eight of its commands are used here. Xvfb provides the screen.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { missingWebkitPrograms } from '../../tools/setup/system.mjs';
import { inTime, until } from '../waiting.mjs';
import { pollPage } from './console.mjs';

/** @typedef {import('./browsers.mjs').Browser} Browser */
/** @typedef {import('node:child_process').ChildProcess} Child */

/** The reason why WebKitGTK cannot be started, or undefined. */
export const missing = () => {
  const missingPrograms = missingWebkitPrograms();
  return missingPrograms.length
    ? `no ${missingPrograms.join(', no ')}: \`npm test\` installs them as root on Debian (webkit2gtk-driver, xvfb)`
    : undefined;
};

/** Processes that are ended when the process of the test ends. @type {Set<Child>} */
const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill()));

/** @param {string} program @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
function startProgram(program, args, env = process.env) {
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'] });
  running.add(child);
  child.on('exit', () => running.delete(child));
  return child;
}

/** Ends a program, after 10 seconds with SIGKILL. @param {Child} child */
async function endProgram(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill();
  await inTime('the end of a program', exit, { seconds: 10 }).catch(() => child.kill('SIGKILL'));
}

/** Starts a virtual screen. */
async function startScreen() {
  // -noreset: the screen stays when its last program ends.
  const screen = startProgram('Xvfb', [
    '-displayfd',
    '1',
    '-screen',
    '0',
    '2560x1600x24',
    '-nolisten',
    'tcp',
    '-noreset',
  ]);
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

/** Starts a driver with one session, which has a new profile. @param {string} display @param {string[]} features */
async function startSession(display, features) {
  const port = await freePort();
  const driver = startProgram('WebKitWebDriver', [`--port=${port}`, '--host=127.0.0.1'], {
    ...process.env,
    DISPLAY: display,
  });
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
        await endProgram(driver);
      },
      /** Ends the driver, which ends the browser. */
      kill: () => endProgram(driver),
    };
  } catch (error) {
    await endProgram(driver);
    throw error;
  }
}

/** Key of an element in the W3C protocol. */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';

/**
 * Starts WebKitGTK.
 * @param {{ features?: string[] }} [options]  features of WebKit that are off by default, such as 'FileSystem' and 'StorageAPI'
 *   (OPFS then exists, but refuses access, as in Safari's private windows); `MiniBrowser --features=help` lists them
 * @returns {Promise<Browser>} closed by the caller
 */
export async function launchWebkit({ features = [] } = {}) {
  const { screen, display } = await startScreen();
  const first = await startSession(display, features);
  /** The session of the first page; undefined after that page is open. @type {typeof first | undefined} */
  let firstSession = first;
  /** @type {Set<typeof first>} */
  const sessions = new Set([first]);
  return {
    name: 'webkit',
    version: `WebKitGTK ${first.version}`,
    async open(url) {
      const session = firstSession ?? (await startSession(display, features));
      firstSession = undefined;
      sessions.add(session);
      /** @type {string[]} */
      const trouble = [];
      const evaluate = async (/** @type {Function} */ work, /** @type {any} */ arg = null) => {
        const { error, value } = await session.post('/execute/async', {
          script: `const [arg, done] = arguments;
            (async () => (${work})(arg))().then((value) => done({ value }), (error) => done({ error: error + '\\n' + error?.stack }));`,
          args: [arg],
        });
        if (error) throw new Error(error);
        return value;
      };
      /** Faults that shims/watch.js has collected in the page. */
      const pageFaults = () => evaluate(() => /** @type {any} */ (globalThis).trouble ?? []);
      /** Copies the faults of the page, before a navigation discards them. */
      const saveFaults = async () => void trouble.push(...(await pageFaults()));
      const element = async (/** @type {string} */ selector) =>
        `/element/${(await session.post('/element', { using: 'css selector', value: selector }))[ELEMENT]}`;
      const record = {
        async goto(/** @type {string} */ to) {
          await saveFaults();
          await session.post('/url', { url: to });
        },
        async reload() {
          await saveFaults();
          await session.post('/refresh');
        },
        evaluate,
        async until(/** @type {any} */ work, /** @type {any} */ arg) {
          await until(String(work), () => evaluate(work, arg), { every: 50 });
        },
        click: async (/** @type {string} */ selector) => session.post(`${await element(selector)}/click`),
        type: async (/** @type {string} */ selector, /** @type {string} */ text) =>
          session.post(`${await element(selector)}/value`, { text }),
        async size(/** @type {number} */ width, /** @type {number} */ height) {
          // The driver sets the size of the window; the page measures how much of it the viewport has.
          const setWindow = (/** @type {number} */ extraHeight, /** @type {number} */ extraWidth) =>
            session.post('/window/rect', { x: 0, y: 0, width: width + extraWidth, height: height + extraHeight });
          await setWindow(0, 0);
          await evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
          const [viewWidth, viewHeight] = await evaluate(() => [innerWidth, innerHeight]);
          await setWindow(height - viewHeight, width - viewWidth);
          await evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
        },
        picture: async () => Buffer.from(await session.get('/screenshot'), 'base64'),
        trouble: async () => [...trouble, ...(await pageFaults())],
        async close() {
          reportClose();
          sessions.delete(session);
          await session.end();
        },
      };
      let address = url ?? 'about:blank';
      const { goto } = record;
      record.goto = (to) => goto((address = to));
      const reportClose = pollPage({
        address: () => address,
        picture: record.picture,
        look: async () => (sessions.has(session) ? record.trouble() : trouble),
      });
      if (url) await record.goto(url);
      return record;
    },
    async close() {
      await Promise.all([...sessions].map((session) => session.end()));
      await endProgram(screen);
    },
    async kill() {
      await Promise.all([...sessions].map((session) => session.kill()));
      await endProgram(screen);
    },
  };
}

/** Path of the browser that the driver starts; undefined if it is not in Debian's folder. */
export function findMiniBrowser() {
  const inside = (/** @type {string} */ folder, /** @type {RegExp} */ name) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && name.test(entry.name))
      .map((entry) => join(folder, entry.name));
  const folders = inside('/usr/lib', /-linux-/).flatMap((folder) => inside(folder, /^webkit2?gtk-/));
  return folders.map((folder) => join(folder, 'MiniBrowser')).find((path) => existsSync(path));
}

/**
 * Starts the browser without the driver, with a profile that stays after its end; the driver's windows are private. Its page has to send
 * results by requests.
 * @param {string} profile  a folder
 * @param {string} url
 */
export async function openWebkit(profile, url) {
  const { screen, display } = await startScreen();
  const at = (/** @type {string} */ name) => join(profile, name);
  const env = {
    ...process.env,
    DISPLAY: display,
    HOME: profile,
    XDG_DATA_HOME: at('data'),
    XDG_CACHE_HOME: at('cache'),
    XDG_CONFIG_HOME: at('config'),
  };
  const browser = startProgram(String(findMiniBrowser()), [url], env);
  return {
    async close() {
      await endProgram(browser);
      await endProgram(screen);
    },
  };
}
