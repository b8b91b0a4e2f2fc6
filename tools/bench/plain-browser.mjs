/**
 * Chromium driven over its DevTools protocol with nothing of it switched on. Playwright switches on what reports of the
 * network, which then keeps a copy of answers up to 10 MB: that halves the rate of loads and triples their memory.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { spawnChromium } from '../../tests/browser/chromium.mjs';
import { findChromium } from '../setup/system.mjs';

/** @typedef {{ cpu: number, rss: number, pss: number, renderer: boolean }} Process  milliseconds, bytes */

/** @param {string} text @param {string} name  of a line of /proc */
const kilobytes = (text, name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);

/**
 * The processes of the browser with this profile. `pss`, which counts what processes share once, takes a while to get.
 * @param {string} profile @param {boolean} [memory]
 */
export function processes(profile, memory = false) {
  /** @type {Map<number, Process & { parent: number, ours: boolean }>} */
  const all = new Map();
  for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
      const sizes = memory && command.includes('chrom') ? readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8') : '';
      const cpu = 10 * (Number(fields[11]) + Number(fields[12]));
      all.set(pid, { parent: Number(fields[1]), cpu, rss: kilobytes(sizes, 'Rss'), pss: kilobytes(sizes, 'Pss'), renderer: command.includes('--type=renderer'), ours: command.includes(profile) });
    } catch {
      // It has ended meanwhile.
    }
  }
  const ours = (/** @type {number} */ pid) => {
    for (let at = all.get(pid); at; at = all.get(at.parent)) if (at.ours) return true;
    return false;
  };
  return [...all.keys()].filter(ours).map((pid) => /** @type {Process} */ (all.get(pid)));
}

/** @param {string} profile  its folder */
export async function startPlain(profile) {
  const { program, endpoint, gone } = await spawnChromium(String(findChromium()), profile);
  const socket = new WebSocket(endpoint);
  await new Promise((resolve) => socket.addEventListener('open', resolve));
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  const waiting = new Map();
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(data);
    if (error) waiting.get(id)?.reject(new Error(error.message));
    else waiting.get(id)?.resolve(result);
    waiting.delete(id);
  });
  let last = 0;
  /** @param {string} method @param {object} [params] @param {string} [sessionId] @returns {Promise<any>} */
  const send = (method, params = {}, sessionId) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      socket.send(JSON.stringify({ id: last, method, params, sessionId }));
    });
  const { product } = await send('Browser.getVersion');
  return {
    version: String(product).split('/')[1],
    /** A page, once `ready` is true there. @param {string} url @param {string} ready  an expression */
    async open(url, ready) {
      const { targetId } = await send('Target.createTarget', { url });
      const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
      /** @param {string} expression @returns {Promise<any>} */
      const evaluate = async (expression) => {
        const { result, exceptionDetails } = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true }, sessionId);
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
      };
      for (let tries = 500; !(await evaluate(`!!(${ready})`).catch(() => false)); tries--) {
        if (!tries) throw new Error(`${url} never became ready`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return { evaluate, close: () => send('Target.closeTarget', { targetId }) };
    },
    async close() {
      await send('Browser.close').catch(() => {});
      await gone;
      socket.close();
    },
    kill: () => program.kill('SIGKILL'),
  };
}
