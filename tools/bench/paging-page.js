// Runs in the browser under test: loads a model from OPFS with all weights in memory and with memory budgets.
import { createWorkerEngine, fromBlob, fromHandle } from '../../js/index.js';

const FILE = 'bench-paging.bq4';
/** @type {{ file: File, handle: FileSystemFileHandle | null, models: any[], reader: Worker } | null} */
let state = null;

/** Returns the duration of `work` in ms. @param {() => Promise<any>} work */
async function timed(work) {
  const since = performance.now();
  await work();
  return performance.now() - since;
}

/** Calls the worker that only reads. @param {any} message @returns {Promise<any>} */
function read(message) {
  const { reader } = /** @type {any} */ (state);
  return new Promise((resolve, reject) => {
    reader.onmessage = (/** @type {MessageEvent} */ { data }) =>
      data.error ? reject(new Error(data.error)) : resolve(data);
    reader.postMessage(message);
  });
}

/** Copies the file to OPFS. @param {string} url */
async function copied(url) {
  const folder = await navigator.storage.getDirectory();
  const handle = await folder.getFileHandle(FILE, { create: true });
  const { body } = /** @type {{ body: any }} */ (await fetch(url));
  await body.pipeTo(await handle.createWritable());
  return { file: await handle.getFile(), handle };
}

const chosenFile = () => {
  const [file] = document.querySelector('input')?.files ?? [];
  if (!file) throw new Error('expected an address or a chosen file');
  return file;
};

/**
 * Loads the model once for each share of its weights in memory (1: all of them), or once for each budget. Without `url` it is the
 * local file selected in the page, read without a copy: for models that exceed the quota of a profile.
 * @param {{ url?: string, shares?: number[], budgets?: ('none' | 'infinite')[], threads: number, context: number }} options
 */
async function open({ url, shares = [], budgets, threads, context }) {
  const { file, handle = null } = url ? await copied(url) : { file: chosenFile() };
  const source = handle ? fromHandle(handle) : fromBlob(file);
  const reader = new Worker(new URL('./paging-reads.js', import.meta.url), { type: 'module' });
  state = { file, handle, models: [], reader };
  const engine = await createWorkerEngine({ threads });
  const options = { contextTokens: context, kv: /** @type {const} */ ('f16') };
  const whole = await engine.plan(source, { ...options, memoryBudget: Infinity });
  const partOf = (/** @type {number} */ share) => whole.heapBytes - Math.ceil(whole.weightBytes * (1 - share));
  const loads =
    budgets?.map((name) => ({ share: 1, budget: name === 'none' ? undefined : Infinity })) ??
    shares.map((share) => ({ share, budget: share < 1 ? partOf(share) : Infinity }));
  for (const { share, budget } of loads) {
    const own = await createWorkerEngine({ threads });
    /** @type {any} */
    let model;
    const loadMs = await timed(async () => {
      model = await own.load(source, { ...options, memoryBudget: budget });
    });
    const session = await model.createSession();
    state.models.push({ engine: own, model, session, share, budget, loadMs });
  }
  const info = state.models.map(({ model, share, budget, loadMs }) => ({
    share,
    budget,
    loadMs,
    heapBytes: model.info.heapBytes,
    weightBytes: model.info.weightBytes,
    paging: model.info.paging,
    threads: model.info.threads,
  }));
  const shared = crossOriginIsolated && threads !== 1;
  await engine.close();
  return { info, fileBytes: file.size, shared, isolated: crossOriginIsolated };
}

let calls = 0;

/** Returns the tokens per second of model `i`. @param {{ i: number, prompt: number, tokens: number }} cell */
async function decode({ i, prompt, tokens }) {
  const { session, model } = /** @type {any} */ (state).models[i];
  const ids = Array.from({ length: prompt }, (_, n) => (n === 0 ? 300 + (++calls % 4000) : 500 + ((n * 37) % 5000)));
  const { timings, tokens: output } = await session.generate(ids, {
    temperature: 0,
    maxTokens: tokens,
    speculate: false,
  }).result;
  return {
    decode: (output.length - 1) / (timings.decodeMs / 1e3),
    prefill: prompt / (timings.prefillMs / 1e3),
    firstTokenMs: timings.firstTokenMs,
    ids: output,
    memory: await model.memory(),
  };
}

/** Returns the bytes per second for only reading the file in pieces. @param {{ way: 'handle' | 'blob', piece: number, ms: number }} options */
async function storage({ way: mode, piece, ms }) {
  const { file, handle } = /** @type {any} */ (state);
  return (await read({ way: mode, piece, ms, file, handle })).rate;
}

async function close() {
  for (const { engine } of state?.models ?? []) await engine.close();
  state?.reader.terminate();
  await (await navigator.storage.getDirectory()).removeEntry(FILE);
}

Object.assign(globalThis, { open_: open, decode, storage, close_: close, timed, benchReady: true });
