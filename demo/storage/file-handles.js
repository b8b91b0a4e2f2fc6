/** The handle of the local file or folder used last, in IndexedDB: localStorage cannot store handles. Loaded on demand. */

const [DATABASE, HANDLES, NAME] = ['bq4-demo', 'handles', 'bq4.model'];

/** @template T @param {(store: IDBObjectStore) => IDBRequest<T>} work @returns {Promise<T>} */
function inDatabase(work) {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open(DATABASE, 1);
    open.onupgradeneeded = () => open.result.createObjectStore(HANDLES);
    open.onerror = () => reject(open.error);
    open.onsuccess = () => {
      const transaction = open.result.transaction(HANDLES, 'readwrite');
      const request = work(transaction.objectStore(HANDLES));
      transaction.oncomplete = () => (open.result.close(), resolve(request.result));
      transaction.onerror = transaction.onabort = () => (open.result.close(), reject(transaction.error));
    };
  });
}

/** @param {FileSystemHandle | null} handle  of the model in use; null removes it */
export function rememberHandle(handle) {
  inDatabase((store) => /** @type {IDBRequest<any>} */ (handle ? store.put(handle, NAME) : store.delete(NAME))).catch(
    () => {},
  ); // then the user has to open the file again
}

/**
 * Returns the handle of the local file or folder used last, if the browser supports handles.
 * @returns {Promise<FileSystemHandle | null>}
 */
export const lastHandle = async () => (await inDatabase((store) => store.get(NAME)).catch(() => null)) ?? null;
