// Measures ways of loading a model, and bare fetches and reads of the same bytes.
import { createWorkerEngine, fromUrl } from '../../js/index.js';
import { median } from './stats.mjs';

/** @param {() => Promise<unknown>} work @returns {Promise<number>} milliseconds */
async function timed(work) {
  const since = performance.now();
  await work();
  return performance.now() - since;
}

/** @param {string} url  read and thrown away */
async function bareFetch(url) {
  const response = await fetch(url, { cache: 'no-store' });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  while (!(await reader.read()).done);
}

/** Copies the file into OPFS once. @param {string} url */
async function copyOf(url) {
  const folder = await navigator.storage.getDirectory();
  const handle = await folder.getFileHandle('bare.bin', { create: true });
  if ((await handle.getFile()).size) return handle;
  const out = await handle.createWritable();
  await /** @type {ReadableStream<Uint8Array>} */ ((await fetch(url)).body).pipeTo(out);
  return handle;
}

/** Reads the complete file as streams, one after another, and discards the bytes. @param {FileSystemFileHandle} handle */
async function bareRead(handle) {
  const file = await handle.getFile();
  for (let at = 0; at < file.size; at += 1 << 20) await file.slice(at, at + (1 << 20)).arrayBuffer();
}

/** @type {any} */
let engine = null;
/** @type {FileSystemFileHandle} */
let handle;

/** What is not measured: the engine is started beforehand, closed behind; it is the way of the bytes that counts. @param {{ name: string, url: string }} arm */
async function prepare({ name, url }) {
  if (name === 'bare read of OPFS') handle = await copyOf(url);
  if (name.startsWith('bare')) return;
  engine = await createWorkerEngine({ threads: 1, ...(name !== 'network to ready' && { cache: 'auto' }) });
  if (name === 'network to ready, cached') await engine.store.clear();
}

/** @param {{ name: string, url: string }} arm */
function measure({ name, url }) {
  if (name === 'bare fetch') return timed(() => bareFetch(url));
  if (name === 'bare read of OPFS') return timed(() => bareRead(handle));
  return timed(async () => (await engine.load(fromUrl(url), { contextTokens: 128 })).info);
}

async function finish() {
  await engine?.close();
  engine = null;
}

/** For measuring memory: does everything except the load. */
async function engineWithCache() {
  engine = await createWorkerEngine({ threads: 1, cache: 'auto' });
  await engine.store.clear();
}

/** @param {string} url @returns {Promise<number>} bytes of the heap */
async function loadOnce(url) {
  return (await (await engine.load(fromUrl(url), { contextTokens: 128 })).memory()).total;
}

/** Of a prompt that is sent while its model is on its way. @type {any} */
let session;
/** @type {Promise<number[]>} */
let times;

/** When each token came, by the wall clock. @param {number} first  of the prompt's ids: another one, and nothing is reused @param {number} tokens @param {number} maxTokens */
async function tokenTimes(first, tokens, maxTokens) {
  const ids = Array.from({ length: tokens }, (_, i) => (i ? 100 + ((i * 7919) % 40000) : first));
  const seen = [];
  for await (const _ of session.generate(ids, { temperature: 0, maxTokens, speculate: false }))
    seen.push(performance.timeOrigin + performance.now());
  return seen;
}

/** @param {{ url: string, tokens: number }} how */
async function sendEarly({ url, tokens }) {
  engine = await createWorkerEngine({ threads: 1 });
  const model = await engine.load(fromUrl(url), { contextTokens: 512, kv: 'i8', streaming: true });
  session = await model.createSession();
  times = tokenTimes(1, tokens, 24);
  Object.assign(globalThis, { tokens });
}

/** Returns the wall-clock time at which the last byte of a file arrives; the bytes are discarded. @param {{ url: string, size: number }} file */
async function lastByte({ url, size }) {
  const response = await fetch(url, { cache: 'no-store', headers: { Range: `bytes=${size - (1 << 20)}-${size - 1}` } });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  while (!(await reader.read()).done);
  return performance.timeOrigin + performance.now();
}

const workUnits = async () => (await session.stats()).workUnits;

/** Returns the time of its first token, and milliseconds of a decode step, an equal prompt and the LM head, all warm. */
async function early() {
  const seen = await times;
  const { tokens } = /** @type {any} */ (globalThis);
  const prompts = [];
  const heads = [];
  for (let round = 2; round < 7; round++) {
    const since = performance.timeOrigin + performance.now();
    prompts.push((await tokenTimes(round, tokens, 1))[0] - since);
    await session.trace({ on: true });
    await tokenTimes(round + 100, tokens, 1);
    const stages = await session.trace({ on: false });
    heads.push(stages.find((/** @type {any} */ { stage }) => stage === 'head').ms);
  }
  const result = {
    at: seen[0],
    step: median(seen.slice(9).map((at, i) => at - seen[i + 8])),
    prompt: median(prompts),
    head: median(heads),
  };
  await engine.close();
  return result;
}

Object.assign(globalThis, {
  prepare,
  measure,
  finish,
  engineWithCache,
  loadOnce,
  sendEarly,
  workUnits,
  early,
  lastByte,
});
