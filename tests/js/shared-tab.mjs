// A tab of shared.test.mjs: a thread that the test can kill or freeze. It shares an engine, loads a model, and runs the actions that the
// test requests.
import { parentPort, workerData } from 'node:worker_threads';
import { createSharedEngine } from '../../js/remote/tabs/index.js';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const { url, load, freezeWord, ...options } = workerData;
const engine = await createSharedEngine(options);
const model = await engine.load(url, load);
engine.events.addEventListener('restarted', () => port.postMessage({ restarted: engine.info.leads }));

/** The actions by name. @type {Record<string, (prompt: number[]) => unknown>} */
const actions = {
  leads: () => engine.info.leads,
  /** Creates a session that stays open. */
  session: async (prompt) => (await (await model.createSession()).append(prompt)).tokens,
  /** Starts a reply and reads its first part. */
  begin: async (prompt) =>
    /** @type {any} */ (
      (await model.generate(prompt, { temperature: 0, maxTokens: 200 })[Symbol.asyncIterator]().next()).value
    ).token,
  reply: async (prompt) => (await model.generate(prompt, { temperature: 0, maxTokens: 20 }).result).tokens,
  /** Blocks the thread until the test changes `freezeWord` (shared memory) and notifies it. */
  freeze: () => {
    setImmediate(() => {
      port.postMessage({ frozen: true });
      Atomics.wait(freezeWord, 0, 0);
    });
  },
};
port.on('message', async ({ act, prompt }) => port.postMessage({ act, value: await actions[act](prompt) }));
port.postMessage({ ready: engine.info.leads });
