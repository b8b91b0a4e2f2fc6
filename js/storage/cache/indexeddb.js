/**
 * The backend with IndexedDB, for browsers with neither OPFS nor the Cache API. Its tables are `files` (metadata and
 * marks of a file, by key), `chunks` (bytes, by key and index) and `hashes` (hashes of chunks, by key and index).
 * Hashes are separate so that listing chunks does not read their bytes.
 */

/** @import { FileMetadata, Backend, Marks, ChunkStorage } from './types.js' */

/** Waits for the result of a request. @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const resultOf = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Returns the range of all chunks of a key. @param {string} key */
const allChunksOf = (key) => IDBKeyRange.bound([key], [key, []]);

/** Names of the tables. */
const TABLES = ['files', 'chunks', 'hashes'];

/** Opens the database, and creates its tables if it is new. @param {string} name @returns {Promise<IDBDatabase>} */
function openDatabase(name) {
  const request = indexedDB.open(`bq4-store-${name}`, 1);
  request.onupgradeneeded = () => {
    for (const table of TABLES) request.result.createObjectStore(table);
  };
  return resultOf(request);
}

/** A database that is opened again after the browser has closed it. */
class ReopeningDatabase {
  #name;
  #isClosed = false;
  /** @type {IDBDatabase} */
  #database;

  /** @param {string} name @param {IDBDatabase} database */
  constructor(name, database) {
    this.#name = name;
    this.#database = database;
    this.#watch();
  }

  /** Notes when the browser closes the database: the storage was cleared. The next transaction opens a new database. */
  #watch() {
    this.#isClosed = false;
    this.#database.onclose = () => (this.#isClosed = true);
    this.#database.onversionchange = () => {
      this.#database.close();
      this.#isClosed = true;
    };
  }

  /**
   * Runs `work` in a transaction and returns its result. Waits until writes are complete.
   * @template T
   * @param {IDBTransactionMode} mode
   * @param {(files: IDBObjectStore, chunks: IDBObjectStore, hashes: IDBObjectStore) => Promise<T> | T} work
   * @returns {Promise<T>}
   */
  async transact(mode, work) {
    if (this.#isClosed) {
      this.#database = await openDatabase(this.#name);
      this.#watch();
    }
    const transaction = this.#database.transaction(TABLES, mode);
    const finished = new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(undefined);
      transaction.onabort = () => reject(transaction.error);
    });
    finished.catch(() => {});
    const [files, chunks, hashes] = TABLES.map((table) => transaction.objectStore(table));
    const value = await work(files, chunks, hashes);
    if (mode === 'readwrite') await finished;
    return value;
  }

  close() {
    this.#database.close();
  }
}

/** Returns access to the chunks of a file. @param {ReopeningDatabase} database @param {string} key @returns {ChunkStorage} */
const createSpace = (database, key) => ({
  scan: () =>
    database.transact('readonly', async (_, __, hashes) => {
      const [keys, values] = await Promise.all([
        resultOf(hashes.getAllKeys(allChunksOf(key))),
        resultOf(hashes.getAll(allChunksOf(key))),
      ]);
      return new Map(keys.map((storedKey, i) => [Number(/** @type {any} */ (storedKey)[1]), values[i]]));
    }),
  async read(index, from, target) {
    const stored = await database.transact('readonly', (_, chunks) => resultOf(chunks.get([key, index])));
    if (!stored || from + target.length > stored.byteLength) return false;
    target.set(new Uint8Array(stored, from, target.length));
    return true;
  },
  write: (index, bytes, hash) =>
    database.transact('readwrite', async (files, chunks, hashes) => {
      if (!(await resultOf(files.get(key)))) throw new DOMException('the file was deleted', 'NotFoundError');
      hashes.put(hash, [key, index]);
      await resultOf(chunks.put(bytes.slice().buffer, [key, index]));
    }),
  drop: (index) =>
    database.transact('readwrite', async (_, chunks, hashes) => {
      hashes.delete([key, index]);
      await resultOf(chunks.delete([key, index]));
    }),
  async settle() {},
  async close() {},
});

/** Opens the backend. Rejects if IndexedDB is missing or denied. @param {string} name @returns {Promise<Backend>} */
export async function openIndexedDb(name) {
  const database = new ReopeningDatabase(name, await openDatabase(name));
  return {
    name: 'indexeddb',
    keys: () => database.transact('readonly', async (files) => (await resultOf(files.getAllKeys())).map(String)),
    async get(key) {
      const stored = await database.transact('readonly', (files) => resultOf(files.get(key)));
      return stored ?? null;
    },
    create: (key, metadata) =>
      database.transact(
        'readwrite',
        async (files) => void (await resultOf(files.put({ about: metadata, marks: new Map() }, key))),
      ),
    mark: (key, mark, isOn) =>
      database.transact('readwrite', async (files) => {
        /** @type {{ about: FileMetadata, marks: Marks } | undefined} */
        const stored = await resultOf(files.get(key));
        if (!stored) return;
        if (isOn) stored.marks.set(mark, Date.now());
        else stored.marks.delete(mark);
        await resultOf(files.put(stored, key));
      }),
    remove: (key) =>
      database.transact('readwrite', async (files, chunks, hashes) => {
        files.delete(key);
        hashes.delete(allChunksOf(key));
        await resultOf(chunks.delete(allChunksOf(key)));
      }),
    open: async (key) => createSpace(database, key),
    close: () => database.close(),
  };
}
