// Times the ways of a model to its engine, each beside the barest thing that moves the same bytes.
import { createWorkerEngine, fromUrl } from '../../js/index.js';

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

/** One stream after the other over all of it, thrown away. @param {FileSystemFileHandle} handle */
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
  return timed(async () => (await engine.load(fromUrl(url), { context: 128 })).info);
}

async function finish() {
  await engine?.close();
  engine = null;
}

/** For memory: everything but the load. */
async function engineWithCache() {
  engine = await createWorkerEngine({ threads: 1, cache: 'auto' });
  await engine.store.clear();
}

/** @param {string} url @returns {Promise<number>} bytes of the heap */
async function loadOnce(url) {
  return (await (await engine.load(fromUrl(url), { context: 128 })).memory()).total;
}

Object.assign(globalThis, { prepare, measure, finish, engineWithCache, loadOnce });
