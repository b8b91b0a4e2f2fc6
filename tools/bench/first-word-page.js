// Measures the time from a click to the first word of a reply, and bare reads and fetches of the same bytes.
/** The package's bundle, as users load it. @type {typeof import('../../js/index.js')} */
const { createWorkerEngine, fromUrl } = await import(`${'../../dist'}/index.js`);

/** @import { Times } from './first-word-worker.js' */
/** `url`: address of the model; `text`, `system`: messages. @typedef {{ url: string, threads: number | 'auto', text: string, system?: string, promptCache?: boolean }} Visit */

/** Name of the file in OPFS that bare reads read. */
const BARE_FILE = 'bare.bin';

const readWorker = new Worker(new URL('first-word-read.js', import.meta.url));

/** Returns the milliseconds of a bare read. @param {boolean} usesNewMemory @returns {Promise<number>} */
const measureBareRead = (usesNewMemory) =>
  new Promise((resolve) => {
    readWorker.onmessage = ({ data }) => resolve(data);
    readWorker.postMessage({ name: BARE_FILE, usesNewMemory });
  });

/** Returns the milliseconds of a fetch that discards the bytes. @param {string} url */
async function measureBareFetch(url) {
  const start = performance.now();
  const { body } = await fetch(url, { cache: 'no-store' });
  const stream = /** @type {ReadableStream<Uint8Array>} */ (body).getReader();
  while (!(await stream.read()).done);
  return performance.now() - start;
}

/**
 * Writes the file of the bare read: the beginning of the model file.
 * @param {string} url @param {number} bytes  number of bytes that the cache stores of the model
 */
async function makeBareFile(url, bytes) {
  const folder = await navigator.storage.getDirectory();
  const writer = await (await folder.getFileHandle(BARE_FILE, { create: true })).createWritable();
  const { body } = await fetch(url);
  const stream = /** @type {ReadableStream<Uint8Array>} */ (body).getReader();
  let remaining = bytes;
  for (let chunk = await stream.read(); !chunk.done && remaining; chunk = await stream.read()) {
    const part = /** @type {Uint8Array<ArrayBuffer>} */ (chunk.value.subarray(0, remaining));
    await writer.write(part);
    remaining -= part.length;
  }
  if (remaining) await writer.write(new Uint8Array(remaining));
  await writer.close();
}

/** Returns the time in milliseconds. All threads use the same clock. */
const clock = () => performance.timeOrigin + performance.now();

/** Requests the times of the engine's worker. @returns {Promise<Times>} */
const fetchWorkerTimes = () =>
  new Promise((resolve) => {
    const channel = new BroadcastChannel('bq4 bench');
    channel.onmessage = ({ data }) => (channel.close(), resolve(data));
    channel.postMessage('');
  });

/** Measures one visit, starting with the click. @param {Visit} visit @returns {Promise<Record<string, number>>} */
async function measureVisit({ url, threads, text, system, promptCache }) {
  const clickTime = clock();
  const engine = await createWorkerEngine({
    threads,
    cache: 'auto',
    worker: () => new Worker(new URL('first-word-worker.js', import.meta.url), { type: 'module' }),
    threadUrl: new URL('../../dist/thread.js', import.meta.url),
  });
  const openTime = clock();
  const model = await engine.load(fromUrl(url), { contextTokens: 1024, ...(promptCache && { promptCache }) });
  const loadTime = clock();
  if (model.info.promptCache?.problem) throw new Error(model.info.promptCache.problem);
  const options = { temperature: 0, maxTokens: 1 };
  // A model with random weights has no chat template.
  const reply = model.info.chatFormat
    ? model.generate(
        [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: text }],
        options,
      )
    : (await model.createSession()).generate(text, options);
  await reply.result;
  const endTime = clock();
  const { startTime, spentMs, moments } = await fetchWorkerTimes();
  const compileEnd = Math.min(moments.compile[1], openTime);
  const [cacheEntry] = await /** @type {any} */ (engine.store).list();
  await engine.close();
  const firstData = (moments.read ?? moments.write ?? moments.place)[0];
  const lastData = moments.place[1];
  return {
    'to first word': endTime - clickTime,
    engine: openTime - clickTime,
    'engine: worker and its modules': startTime - clickTime,
    'engine: until it compiles': moments.compile[0] - startTime,
    'engine: choose a build, compile': compileEnd - moments.compile[0],
    'engine: self-test, threads, store': openTime - compileEnd,
    'open, plan': firstData - openTime,
    weights: lastData - firstData,
    'weights: read': spentMs.read ?? 0,
    'weights: write': spentMs.write ?? 0,
    'weights: hash': spentMs.hash ?? 0,
    'weights: repack': spentMs.repack ?? 0,
    'weights: place and check': spentMs.place,
    'until ready': loadTime - lastData,
    'prefill, first token': endTime - loadTime,
    load: loadTime - openTime,
    cachedBytes: cacheEntry?.cachedBytes ?? 0,
  };
}

/** Empties the cache. */
async function clearCache() {
  const engine = await createWorkerEngine({ threads: 1, cache: 'auto' });
  await /** @type {any} */ (engine.store).clear();
  await engine.close();
}

Object.assign(globalThis, { measureBareRead, measureBareFetch, makeBareFile, measureVisit, clearCache });
