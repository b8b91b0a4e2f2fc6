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

/**
 * One round. The engine is started beforehand, closed behind: it is the way of the bytes that counts.
 * @param {{ url: string }} model
 */
async function measure({ url }) {
  /** @type {Record<string, number>} */
  const ms = {};
  ms['bare fetch'] = await timed(() => bareFetch(url));
  for (const [name, cache] of /** @type {const} */ ([['network to ready', false], ['network to ready, cached', true], ['warm start', true]])) {
    const engine = await createWorkerEngine({ threads: 1, ...(cache && { cache: 'auto' }) });
    if (name === 'network to ready, cached') await engine.store?.clear();
    ms[name] = await timed(async () => (await engine.load(fromUrl(url), { context: 128 })).info);
    await engine.close();
  }
  const handle = await copyOf(url);
  ms['bare read of OPFS'] = await timed(() => bareRead(handle));
  return ms;
}

Object.assign(globalThis, { measure });
