/**
 * Controls Chromium by its DevTools protocol without enabling any of its domains. Playwright enables network reports, for which
 * Chromium stores copies of responses up to 10 MB. This halves the rate of loading and triples its memory.
 */
import { spawnChromium } from '../../tests/browser/chromium.mjs';
import { findChromium } from '../setup/system.mjs';
import { memoryOf, processTree } from './processes.mjs';

/** @typedef {{ cpu: number, rss: number, pss: number, renderer: boolean }} Process  milliseconds, bytes */

/**
 * Returns the processes of the browser with this profile.
 * @param {string} profile @param {boolean} [memory]  whether to measure memory, which is slow
 * @returns {Process[]}
 */
export function browserProcesses(profile, memory = false) {
  const processIds = processTree((_, command) => command.includes(profile));
  return [...processIds].map(([pid, { command, cpu }]) => ({
    cpu,
    renderer: command.includes('--type=renderer'),
    ...(memory ? memoryOf(pid) : { rss: 0, pss: 0 }),
  }));
}

/** Starts Chromium. @param {string} profile  folder of its profile */
export async function startPlainBrowser(profile) {
  const { program, endpoint, exit: browserExit } = await spawnChromium(String(findChromium()), profile);
  const socket = new WebSocket(endpoint);
  await new Promise((resolve) => socket.addEventListener('open', resolve));
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  const pendingCalls = new Map();
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(data);
    if (error) pendingCalls.get(id)?.reject(new Error(error.message));
    else pendingCalls.get(id)?.resolve(result);
    pendingCalls.delete(id);
  });
  let lastId = 0;
  /** @param {string} method @param {object} [params] @param {string} [sessionId] @returns {Promise<any>} */
  const send = (method, params = {}, sessionId) =>
    new Promise((resolve, reject) => {
      pendingCalls.set(++lastId, { resolve, reject });
      socket.send(JSON.stringify({ id: lastId, method, params, sessionId }));
    });
  const { product } = await send('Browser.getVersion');
  return {
    version: String(product).split('/')[1],
    /** Opens a page and waits until `ready` is true in it. @param {string} url @param {string} ready  an expression */
    async open(url, ready) {
      const { targetId } = await send('Target.createTarget', { url });
      const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
      /** @param {string} expression @returns {Promise<any>} */
      const evaluate = async (expression) => {
        const { result, exceptionDetails } = await send(
          'Runtime.evaluate',
          { expression, awaitPromise: true, returnByValue: true },
          sessionId,
        );
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
      };
      for (let tries = 500; !(await evaluate(`!!(${ready})`).catch(() => false)); tries--) {
        if (!tries) throw new Error(`expected ${ready} to become true in ${url} within 10 s`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return { evaluate, close: () => send('Target.closeTarget', { targetId }) };
    },
    async close() {
      await send('Browser.close').catch(() => {});
      await browserExit;
      socket.close();
    },
    kill: () => program.kill('SIGKILL'),
  };
}
