// A tab of shared.test.mjs in a thread of its own, which can be killed or frozen: it shares an engine, loads a model and does as told.
import { parentPort, workerData } from 'node:worker_threads';
import { createSharedEngine } from '../../js/remote/tabs/index.js';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const { url, load, ice, ...options } = workerData;
const engine = await createSharedEngine(options);
const model = await engine.load(url, load);
engine.events.addEventListener('restarted', () => port.postMessage({ restarted: engine.info.leads }));

/** @type {Record<string, (prompt: number[]) => unknown>} */
const acts = {
  leads: () => engine.info.leads,
  /** Takes a session and keeps it. */
  session: async (prompt) => (await (await model.createSession()).append(prompt)).tokens,
  /** Begins a reply and reads one part of it. */
  begin: async (prompt) =>
    /** @type {any} */ (
      (await model.generate(prompt, { temperature: 0, maxTokens: 200 })[Symbol.asyncIterator]().next()).value
    ).token,
  reply: async (prompt) => (await model.generate(prompt, { temperature: 0, maxTokens: 20 }).result).tokens,
  /** Does nothing at all until it thaws: all of its thread stands still. */
  freeze: () => {
    setImmediate(() => {
      port.postMessage({ frozen: true });
      Atomics.wait(ice, 0, 0);
    });
  },
};
port.on('message', async ({ act, prompt }) => port.postMessage({ act, value: await acts[act](prompt) }));
port.postMessage({ ready: engine.info.leads });
