// Runs in the measured browser: loads a model from OPFS with all weights in memory, and with memory budgets.
import { createWorkerEngine, fromBlob, fromHandle } from '../../js/index.js';

const FILE = 'bench-paging.bq4';
/** The file, its handle if it is in OPFS, the loaded models, and the worker that only reads. @type {{ file: File, handle: FileSystemFileHandle | null, models: any[], reader: Worker } | null} */
let state = null;

/** Returns the duration of `work` in ms. @param {() => Promise<any>} work */
async function measureMs(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Calls the worker that only reads. @param {any} message @returns {Promise<any>} */
function callReader(message) {
  const { reader } = /** @type {any} */ (state);
  return new Promise((resolve, reject) => {
    reader.onmessage = (/** @type {MessageEvent} */ { data }) =>
      data.error ? reject(new Error(data.error)) : resolve(data);
    reader.postMessage(message);
  });
}

/** Copies the file to OPFS. @param {string} url */
async function copyToOpfs(url) {
  const folder = await navigator.storage.getDirectory();
  const handle = await folder.getFileHandle(FILE, { create: true });
  const { body } = /** @type {{ body: any }} */ (await fetch(url));
  await body.pipeTo(await handle.createWritable());
  return { file: await handle.getFile(), handle };
}

/** Returns the file that is selected in the page. */
const selectedFile = () => {
  const [file] = document.querySelector('input')?.files ?? [];
  if (!file) throw new Error('expected an address or a selected file, found neither');
  return file;
};

/**
 * Loads the model once for each share of its weights in memory (1: all of them), or once for each budget. Without `url` it is the
 * local file selected in the page, which is read without a copy, since large models exceed the quota of a profile.
 * @param {{ url?: string, shares?: number[], budgets?: ('none' | 'infinite')[], threads: number, context: number }} options
 */
async function openModels({ url, shares = [], budgets, threads, context }) {
  const { file, handle = null } = url ? await copyToOpfs(url) : { file: selectedFile() };
  const source = handle ? fromHandle(handle) : fromBlob(file);
  const reader = new Worker(new URL('./paging-reads.js', import.meta.url), { type: 'module' });
  state = { file, handle, models: [], reader };
  const engine = await createWorkerEngine({ threads });
  const options = { contextTokens: context, kv: /** @type {const} */ ('f16') };
  const fullPlan = await engine.plan(source, { ...options, memoryBudget: Infinity });
  const budgetOf = (/** @type {number} */ share) => fullPlan.heapBytes - Math.ceil(fullPlan.weightBytes * (1 - share));
  const loads =
    budgets?.map((name) => ({ share: 1, budget: name === 'none' ? undefined : Infinity })) ??
    shares.map((share) => ({ share, budget: share < 1 ? budgetOf(share) : Infinity }));
  for (const { share, budget } of loads) {
    const modelEngine = await createWorkerEngine({ threads });
    /** @type {any} */
    let model;
    const loadMs = await measureMs(async () => {
      model = await modelEngine.load(source, { ...options, memoryBudget: budget });
    });
    const session = await model.createSession();
    state.models.push({ engine: modelEngine, model, session, share, budget, loadMs });
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
  const sharesMemory = crossOriginIsolated && threads !== 1;
  await engine.close();
  return { info, fileBytes: file.size, shared: sharesMemory, isolated: crossOriginIsolated };
}

/** Number of calls of `decode`, which makes each prompt different. */
let callCount = 0;

/** Returns the tokens per second of model `i`, its time to the first token and its memory. @param {{ i: number, prompt: number, tokens: number }} cell */
async function decode({ i, prompt, tokens }) {
  const { session, model } = /** @type {any} */ (state).models[i];
  const ids = Array.from({ length: prompt }, (_, n) =>
    n === 0 ? 300 + (++callCount % 4000) : 500 + ((n * 37) % 5000),
  );
  const { timings, tokens: output } = await session.generate(ids, {
    temperature: 0,
    maxTokens: tokens,
    speculate: false,
  }).result;
  return {
    decode: (output.length - 1) / (timings.decodeMs / 1e3),
    prefill: prompt / (timings.prefillMs / 1e3),
    firstTokenMs: timings.prefillMs + timings.firstTokenMs,
    ids: output,
    memory: await model.memory(),
  };
}

/** Returns the bytes per second of reading the file in pieces. @param {{ mode: 'handle' | 'blob', pieceBytes: number, durationMs: number }} options */
async function measureStorage(options) {
  const { file, handle } = /** @type {any} */ (state);
  return (await callReader({ ...options, file, handle })).rate;
}

Object.assign(globalThis, { openModels, decode, measureStorage, benchReady: true });
