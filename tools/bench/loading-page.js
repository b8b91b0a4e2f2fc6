// Measures loads of a model from the network and from the cache, and bare fetches and reads of the same bytes.
import { createWorkerEngine, fromUrl } from '../../js/index.js';
import { median } from './stats.mjs';

/** Returns the duration of `work` in milliseconds. @param {() => Promise<unknown>} work @returns {Promise<number>} */
async function measureMs(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Fetches a file and discards its bytes. @param {string} url */
async function fetchBytes(url) {
  const response = await fetch(url, { cache: 'no-store' });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  while (!(await reader.read()).done);
}

/** Copies the file to OPFS, if it is not there yet. @param {string} url */
async function copyToOpfs(url) {
  const folder = await navigator.storage.getDirectory();
  const handle = await folder.getFileHandle('bare.bin', { create: true });
  if ((await handle.getFile()).size) return handle;
  const writer = await handle.createWritable();
  await /** @type {ReadableStream<Uint8Array>} */ ((await fetch(url)).body).pipeTo(writer);
  return handle;
}

/** Reads the complete file in pieces of 1 MiB and discards the bytes. @param {FileSystemFileHandle} handle */
async function readBytes(handle) {
  const file = await handle.getFile();
  for (let offset = 0; offset < file.size; offset += 1 << 20)
    await file.slice(offset, offset + (1 << 20)).arrayBuffer();
}

/** @type {any} */
let engine = null;
/** @type {FileSystemFileHandle} */
let handle;

/** Prepares a measurement: copies the file, or starts the engine. This is not part of the measured time. @param {{ name: string, url: string }} variant */
async function prepare({ name, url }) {
  if (name === 'bare read of OPFS') handle = await copyToOpfs(url);
  if (name.startsWith('bare')) return;
  engine = await createWorkerEngine({ threads: 1, ...(name !== 'network to ready' && { cache: 'auto' }) });
  if (name === 'network to ready, cached') await engine.store.clear();
}

/** Returns the milliseconds of a load, a fetch or a read. @param {{ name: string, url: string }} variant */
function measure({ name, url }) {
  if (name === 'bare fetch') return measureMs(() => fetchBytes(url));
  if (name === 'bare read of OPFS') return measureMs(() => readBytes(handle));
  return measureMs(async () => (await engine.load(fromUrl(url), { contextTokens: 128 })).info);
}

/** Closes the engine after a measurement. */
async function closeEngine() {
  await engine?.close();
  engine = null;
}

/** Starts an engine with an empty cache, for the measurement of memory. */
async function startCachingEngine() {
  engine = await createWorkerEngine({ threads: 1, cache: 'auto' });
  await engine.store.clear();
}

/** Loads a model and returns the bytes of its heap. @param {string} url @returns {Promise<number>} */
async function loadOnce(url) {
  return (await (await engine.load(fromUrl(url), { contextTokens: 128 })).memory()).total;
}

/** Session whose prompt is sent during the download of its model. @type {any} */
let session;
/** Times of the tokens after that prompt. @type {Promise<number[]>} */
let tokenTimesPromise;

/**
 * Returns the wall-clock time of each generated token.
 * @param {number} firstToken  first token of the prompt. If it differs from that of the previous prompt, the session reuses nothing
 * @param {number} tokens  of the prompt @param {number} maxTokens
 */
async function measureTokenTimes(firstToken, tokens, maxTokens) {
  const ids = Array.from({ length: tokens }, (_, i) => (i ? 100 + ((i * 7919) % 40000) : firstToken));
  const times = [];
  for await (const _ of session.generate(ids, { temperature: 0, maxTokens, speculate: false }))
    times.push(performance.timeOrigin + performance.now());
  return times;
}

/** Loads a model while it arrives, and sends a prompt during the download. @param {{ url: string, tokens: number }} options */
async function sendEarly({ url, tokens }) {
  engine = await createWorkerEngine({ threads: 1 });
  const model = await engine.load(fromUrl(url), { contextTokens: 512, kv: 'i8', streaming: true });
  session = await model.createSession();
  tokenTimesPromise = measureTokenTimes(1, tokens, 24);
  Object.assign(globalThis, { tokens });
}

/** Returns the wall-clock time at which the last byte of a file arrives; the bytes are discarded. @param {{ url: string, size: number }} file */
async function measureLastByte({ url, size }) {
  const response = await fetch(url, { cache: 'no-store', headers: { Range: `bytes=${size - (1 << 20)}-${size - 1}` } });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  while (!(await reader.read()).done);
  return performance.timeOrigin + performance.now();
}

/** Returns the number of work units that the session has computed. */
const countWorkUnits = async () => (await session.stats()).workUnits;

/**
 * Returns the time of the first token of the early prompt (`at`), and milliseconds of a decode step, of a prompt of the same length and of
 * the LM head when the session is warm. Closes the engine.
 */
async function measureEarlyPrompt() {
  const firstTimes = await tokenTimesPromise;
  const { tokens } = /** @type {any} */ (globalThis);
  const prompts = [];
  const heads = [];
  for (let round = 2; round < 7; round++) {
    const start = performance.timeOrigin + performance.now();
    prompts.push((await measureTokenTimes(round, tokens, 1))[0] - start);
    await session.trace({ on: true });
    await measureTokenTimes(round + 100, tokens, 1);
    const stages = await session.trace({ on: false });
    heads.push(stages.find((/** @type {any} */ { stage }) => stage === 'head').ms);
  }
  const result = {
    at: firstTimes[0],
    step: median(firstTimes.slice(9).map((at, i) => at - firstTimes[i + 8])),
    prompt: median(prompts),
    head: median(heads),
  };
  await engine.close();
  return result;
}

Object.assign(globalThis, {
  prepare,
  measure,
  closeEngine,
  startCachingEngine,
  loadOnce,
  sendEarly,
  countWorkUnits,
  measureEarlyPrompt,
  measureLastByte,
});
