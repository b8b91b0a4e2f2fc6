/**
 * The backend with IndexedDB, for browsers with neither OPFS nor the Cache API. Its tables are `files` (metadata and
 * marks of a file, by key), `chunks` (bytes, by key and index) and `hashes` (hashes of chunks, by key and index).
 * Hashes are separate so that listing chunks does not read their bytes.
 */

/** @import { About, Backend, Marks, Space } from './types.js' */

/** Waits for the result of a request. @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const resultOf = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Returns the range of all chunks of a key. @param {string} key */
const allChunksOf = (key) => IDBKeyRange.bound([key], [key, []]);

/** @param {string} name @returns {Promise<IDBDatabase>} */
function openDatabase(name) {
  const request = indexedDB.open(`bq4-store-${name}`, 1);
  request.onupgradeneeded = () => {
    for (const table of ['files', 'chunks', 'hashes']) request.result.createObjectStore(table);
  };
  return resultOf(request);
}

/** Opens the backend. Rejects if IndexedDB is missing or denied. @param {string} name @returns {Promise<Backend>} */
export async function openIndexedDb(name) {
  let database = await openDatabase(name);
  let isClosed = false;
  const watch = () => {
    isClosed = false;
    // The storage was cleared; the next transaction opens a new database.
    database.onclose = () => (isClosed = true);
    database.onversionchange = () => {
      database.close();
      isClosed = true;
    };
  };
  watch();

  /**
   * Runs `work` in a transaction and returns its result. Waits until writes are complete.
   * @template T
   * @param {IDBTransactionMode} mode
   * @param {(files: IDBObjectStore, chunks: IDBObjectStore, hashes: IDBObjectStore) => Promise<T> | T} work
   * @returns {Promise<T>}
   */
  async function transact(mode, work) {
    if (isClosed) {
      database = await openDatabase(name);
      watch();
    }
    const transaction = database.transaction(['files', 'chunks', 'hashes'], mode);
    const finished = new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(undefined);
      transaction.onabort = () => reject(transaction.error);
    });
    finished.catch(() => {});
    const [files, chunks, hashes] = ['files', 'chunks', 'hashes'].map((table) => transaction.objectStore(table));
    const value = await work(files, chunks, hashes);
    if (mode === 'readwrite') await finished;
    return value;
  }

  /** @param {string} key @returns {Space} */
  const space = (key) => ({
    scan: () =>
      transact('readonly', async (_, __, hashes) => {
        const [keys, values] = await Promise.all([
          resultOf(hashes.getAllKeys(allChunksOf(key))),
          resultOf(hashes.getAll(allChunksOf(key))),
        ]);
        return new Map(keys.map((storedKey, i) => [Number(/** @type {any} */ (storedKey)[1]), values[i]]));
      }),
    async read(index, from, target) {
      const stored = await transact('readonly', (_, chunks) => resultOf(chunks.get([key, index])));
      if (!stored || from + target.length > stored.byteLength) return false;
      target.set(new Uint8Array(stored, from, target.length));
      return true;
    },
    write: (index, bytes, hash) =>
      transact('readwrite', async (files, chunks, hashes) => {
        if (!(await resultOf(files.get(key)))) throw new DOMException('the file was deleted', 'NotFoundError');
        hashes.put(hash, [key, index]);
        await resultOf(chunks.put(bytes.slice().buffer, [key, index]));
      }),
    drop: (index) =>
      transact('readwrite', async (_, chunks, hashes) => {
        hashes.delete([key, index]);
        await resultOf(chunks.delete([key, index]));
      }),
    async settle() {},
    async close() {},
  });

  return {
    name: 'indexeddb',
    keys: () => transact('readonly', async (files) => (await resultOf(files.getAllKeys())).map(String)),
    async get(key) {
      const stored = await transact('readonly', (files) => resultOf(files.get(key)));
      return stored ?? null;
    },
    create: (key, metadata) =>
      transact(
        'readwrite',
        async (files) => void (await resultOf(files.put({ about: metadata, marks: new Map() }, key))),
      ),
    mark: (key, mark, isOn) =>
      transact('readwrite', async (files) => {
        /** @type {{ about: About, marks: Marks } | undefined} */
        const stored = await resultOf(files.get(key));
        if (!stored) return;
        if (isOn) stored.marks.set(mark, Date.now());
        else stored.marks.delete(mark);
        await resultOf(files.put(stored, key));
      }),
    remove: (key) =>
      transact('readwrite', async (files, chunks, hashes) => {
        files.delete(key);
        hashes.delete(allChunksOf(key));
        await resultOf(chunks.delete(allChunksOf(key)));
      }),
    open: async (key) => space(key),
    close: () => database.close(),
  };
}
