// Operations of the tests of the store, by name. They run in a page or in its worker, on one store, one entry and one file.
import { openStore } from '../../js/storage/cache/index.js';
import { cases, check, digest, writeFile, makeFile, MIB, noise, run, same, sha256 } from '../js/store-suite.mjs';

/** @type {import('../../js/storage/cache/index.js').Store} */
let store;
/** @type {import('../../js/storage/cache/entry.js').Entry} */
let entry;
/** @type {ReturnType<typeof makeFile>} */
let file;

const state = () => ({
  role: entry.role,
  complete: entry.complete,
  problem: entry.problem && { name: entry.problem.name, code: entry.problem.code, hint: entry.problem.hint },
  have: file.data.flatMap((_, c) => (entry.has(c) ? [c] : [])),
  prefix: entry.has(0xffffffff),
});

/** The OPFS folder of the store's file. @param {string} name  of the store */
async function openFolder(name) {
  const root = await navigator.storage.getDirectory();
  const top = await (await root.getDirectoryHandle('bq4')).getDirectoryHandle(name);
  for await (const [, handle] of /** @type {any} */ (top).entries()) return handle;
}

/** @type {Record<string, (...args: any[]) => Promise<any>>} */
export const ops = {
  names: async () => Object.keys(cases),
  case: (name, options) => run(name, options),

  async open(seed, chunks, options = {}) {
    store = await openStore({ backend: 'opfs', hash: digest, sha256, ...options });
    file = makeFile(seed, chunks);
    entry = await store.open(file.options);
    return { ...state(), backend: store.backend, reason: store.reason };
  },
  state: async () => state(),
  async prefix() {
    return entry.writePrefix(file.prefix);
  },
  /** Writes chunks in this order. With `notesUrl`, an address of notes.mjs, a note is sent before and after each. */
  async write(order, notesUrl = '') {
    const sendNote = (/** @type {string} */ text) => notesUrl && fetch(notesUrl + text);
    for (const c of order) {
      await sendNote(`begin ${c}`);
      if (!(await entry.write(c, file.data[c]))) break;
      await sendNote(`done ${c}`);
    }
    return state();
  },
  async waitFor(c) {
    const there = await entry.waitFor(c);
    return { there, role: entry.role, right: there && same(await entry.read(c), file.data[c]) };
  },
  /** Reads all stored chunks and drops the damaged ones, as a load does. */
  async verify() {
    const bad = [];
    for (let c = 0; c < file.data.length; c++) {
      if (!entry.has(c)) continue;
      const bytes = await entry.read(c);
      if (bytes && same(bytes, file.data[c])) continue;
      bad.push(c);
      if (!bytes) {
        check(!entry.has(c), `chunk ${c}: expected has() to be false, since read() returned null`);
        continue;
      }
      check(digest(bytes) !== entry.hash(c), `chunk ${c}: another content with the same hash`);
      await entry.drop(c);
    }
    return { ...state(), bad, range: !!(await entry.readRange(0, file.fileBytes)) };
  },
  /** Writes all chunks that were dropped or are missing, as a load does. */
  async heal() {
    const fetched = [];
    for (let c = 0; c < file.data.length; c++) {
      if (await entry.waitFor(c)) continue;
      fetched.push(c);
      await entry.write(c, file.data[c]);
    }
    return { ...state(), fetched };
  },
  /** Puts a folder in the place of a file of the stored model. */
  async putFolder(storeName, name) {
    const folder = await openFolder(storeName);
    await folder.removeEntry(name);
    const place = await folder.getDirectoryHandle(name, { create: true });
    await place.getDirectoryHandle('folder', { create: true });
  },
  /** Makes the browser's answers about the storage pend forever, and shortens the wait for them. */
  async silenceStorage() {
    Object.assign(navigator.storage, { estimate: () => new Promise(() => {}), persisted: () => new Promise(() => {}) });
    /** @type {any} */ (globalThis)[Symbol.for('bq4.timeouts')] = { storeOpen: 1 };
  },
  async another(seed, chunks) {
    await writeFile(store, makeFile(seed, chunks));
  },
  list: async () => (await store.list()).map(({ fileId, complete }) => [Number(fileId), complete]),
  usage: () => store.usage(),
  async close() {
    await store.close();
  },
  async clear() {
    await store.clear();
  },

  /** Removes all folders of the origin private file system, as a script of the page can. */
  async removeFolders() {
    const root = await navigator.storage.getDirectory();
    for await (const key of /** @type {any} */ (root).keys()) await root.removeEntry(key, { recursive: true });
  },

  /** Damages a file of the store: overwrites `bytes` bytes at `at` (negative: from the end); truncates a segment to `at` if `bytes` is 0. */
  async harm(name, fileName, { at = 0, bytes = 0 } = {}) {
    const handle = await (await (await openFolder(name)).getFileHandle(fileName)).createSyncAccessHandle();
    if (fileName.startsWith('s') && bytes === 0) handle.truncate(at);
    else handle.write(noise(5, bytes), { at: at < 0 ? handle.getSize() + at : at });
    handle.flush();
    handle.close();
  },
  files: async (name) => {
    const names = [];
    for await (const key of (await openFolder(name)).keys()) names.push(key);
    return names.sort();
  },
  async cutJournal(name, by) {
    const handle = await (await (await openFolder(name)).getFileHandle('journal')).createSyncAccessHandle();
    handle.truncate(handle.getSize() - by);
    handle.close();
  },
};

export { MIB };
