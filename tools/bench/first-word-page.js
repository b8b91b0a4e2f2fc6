// Measures the time from a click to the first word of a reply, and bare reads and fetches of the same bytes.
/** What the package ships, as its users load it. @type {typeof import('../../js/index.js')} */
const { createWorkerEngine, fromUrl } = await import(`${'../../dist'}/index.js`);

/** @import { Times } from './first-word-worker.js' */
/** @typedef {{ url: string, threads: number | 'auto', text: string, system?: string, promptCache?: boolean }} Visit  of a model: its address, and messages */

const BARE = 'bare.bin';

const reader = new Worker(new URL('first-word-read.js', import.meta.url));

/** Returns the milliseconds of a bare read. @param {boolean} keeps  whether it reads into new memory @returns {Promise<number>} */
const bareRead = (keeps) =>
  new Promise((resolve) => {
    reader.onmessage = ({ data }) => resolve(data);
    reader.postMessage({ name: BARE, keeps });
  });

/** Returns the milliseconds of a fetch that discards the bytes. @param {string} url */
async function bareFetch(url) {
  const since = performance.now();
  const { body } = await fetch(url, { cache: 'no-store' });
  const stream = /** @type {ReadableStream<Uint8Array>} */ (body).getReader();
  while (!(await stream.read()).done);
  return performance.now() - since;
}

/**
 * Makes the file of the bare read: the first bytes of the model file, as many as the cache stores of it.
 * @param {string} url @param {number} bytes
 */
async function makeBareFile(url, bytes) {
  const folder = await navigator.storage.getDirectory();
  const out = await (await folder.getFileHandle(BARE, { create: true })).createWritable();
  const { body } = await fetch(url);
  const stream = /** @type {ReadableStream<Uint8Array>} */ (body).getReader();
  let remaining = bytes;
  for (let piece = await stream.read(); !piece.done && remaining; piece = await stream.read()) {
    const part = /** @type {Uint8Array<ArrayBuffer>} */ (piece.value.subarray(0, remaining));
    await out.write(part);
    remaining -= part.length;
  }
  if (remaining) await out.write(new Uint8Array(remaining));
  await out.close();
}

const now = () => performance.timeOrigin + performance.now();

/** @returns {Promise<Times>} */
const timesOfWorker = () =>
  new Promise((resolve) => {
    const channel = new BroadcastChannel('bq4 bench');
    channel.onmessage = ({ data }) => (channel.close(), resolve(data));
    channel.postMessage('');
  });

/** Measures one visit, starting with the click. @param {Visit} visit @returns {Promise<Record<string, number>>} */
async function visit({ url, threads, text, system, promptCache }) {
  const click = now();
  const engine = await createWorkerEngine({
    threads,
    cache: 'auto',
    worker: () => new Worker(new URL('first-word-worker.js', import.meta.url), { type: 'module' }),
    threadUrl: new URL('../../dist/thread.js', import.meta.url),
  });
  const opened = now();
  const model = await engine.load(fromUrl(url), { contextTokens: 1024, ...(promptCache && { promptCache }) });
  const loaded = now();
  if (model.info.promptCache?.problem) throw new Error(model.info.promptCache.problem);
  const options = { temperature: 0, maxTokens: 1 };
  // A file of random weights has no chat template.
  const reply = model.info.chatFormat
    ? model.generate(
        [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: text }],
        options,
      )
    : (await model.createSession()).generate(text, options);
  await reply.result;
  const end = now();
  const { started, spent, moments } = await timesOfWorker();
  const compiled = Math.min(moments.compile[1], opened);
  const [cached] = await /** @type {any} */ (engine.store).list();
  await engine.close();
  const firstData = (moments.read ?? moments.write ?? moments.place)[0];
  const lastData = moments.place[1];
  return {
    'to first word': end - click,
    engine: opened - click,
    'engine: worker and its modules': started - click,
    'engine: until it compiles': moments.compile[0] - started,
    'engine: choose a build, compile': compiled - moments.compile[0],
    'engine: self-test, threads, store': opened - compiled,
    'open, plan': firstData - opened,
    weights: lastData - firstData,
    'weights: read': spent.read ?? 0,
    'weights: write': spent.write ?? 0,
    'weights: hash': spent.hash ?? 0,
    'weights: repack': spent.repack ?? 0,
    'weights: place and check': spent.place,
    'until ready': loaded - lastData,
    'prefill, first token': end - loaded,
    load: loaded - opened,
    keptBytes: cached?.cachedBytes ?? 0,
  };
}

/** Empties the cache. */
async function clear() {
  const engine = await createWorkerEngine({ threads: 1, cache: 'auto' });
  await /** @type {any} */ (engine.store).clear();
  await engine.close();
}

Object.assign(globalThis, { bareRead, bareFetch, makeBareFile, visit, clear });
