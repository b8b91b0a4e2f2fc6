// What the tests of the store do in a page or in a worker of it, by name.
import { openStore } from '../../js/storage/cache/index.js';
import { cases, check, digest, keep, makeFile, MIB, noise, run, same, sha256 } from '../js/store-suite.mjs';

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

/** OPFS folder of the store's file. @param {string} name of the store */
async function folder(name) {
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
  /** Chunks in this order; with `notes`, an address of notes.mjs, a note is made before and after each. */
  async write(order, notes = '') {
    const note = (/** @type {string} */ text) => notes && fetch(notes + text);
    for (const c of order) {
      await note(`begin ${c}`);
      if (!(await entry.write(c, file.data[c]))) break;
      await note(`done ${c}`);
    }
    return state();
  },
  async waitFor(c) {
    const there = await entry.waitFor(c);
    return { there, role: entry.role, right: there && same(await entry.read(c), file.data[c]) };
  },
  /** Reads all there is and drops what isn't what it should be, as a load does. */
  async verify() {
    const bad = [];
    for (let c = 0; c < file.data.length; c++) {
      if (!entry.has(c)) continue;
      const bytes = await entry.read(c);
      if (bytes && same(bytes, file.data[c])) continue;
      bad.push(c);
      if (!bytes) {
        check(!entry.has(c), `chunk ${c} can't be read, and is there`);
        continue;
      }
      check(digest(bytes) !== entry.hash(c), `chunk ${c}: another content with the same hash`);
      await entry.drop(c);
    }
    return { ...state(), bad, range: !!(await entry.readRange(0, file.fileBytes)) };
  },
  /** All that was dropped or isn't there, as a load does. */
  async heal() {
    const fetched = [];
    for (let c = 0; c < file.data.length; c++) {
      if (await entry.waitFor(c)) continue;
      fetched.push(c);
      await entry.write(c, file.data[c]);
    }
    return { ...state(), fetched };
  },
  async another(seed, chunks) {
    await keep(store, makeFile(seed, chunks));
  },
  list: async () => (await store.list()).map(({ fileId, complete }) => [Number(fileId), complete]),
  usage: () => store.usage(),
  async close() {
    await store.close();
  },
  async clear() {
    await store.clear();
  },

  /** Changes a file of the store from outside. */
  async harm(name, what, { at = 0, bytes = 0 } = {}) {
    const handle = await (await (await folder(name)).getFileHandle(what)).createSyncAccessHandle();
    if (what.startsWith('s') && bytes === 0) handle.truncate(at);
    else handle.write(noise(5, bytes), { at: at < 0 ? handle.getSize() + at : at });
    handle.flush();
    handle.close();
  },
  files: async (name) => {
    const names = [];
    for await (const key of (await folder(name)).keys()) names.push(key);
    return names.sort();
  },
  async cutJournal(name, by) {
    const handle = await (await (await folder(name)).getFileHandle('journal')).createSyncAccessHandle();
    handle.truncate(handle.getSize() - by);
    handle.close();
  },
};

export { MIB };
