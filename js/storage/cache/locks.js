/**
 * Locks by name. Web Locks hold for all tabs and end with their tab; without Web Locks, locks hold within this thread
 * only.
 */

/** Releases a lock; resolves when others can take it. @typedef {() => Promise<void>} Release */
/** @typedef {{ shared?: boolean, wait?: boolean, signal?: AbortSignal }} LockOptions */

/**
 * Locks of this thread, without Web Locks. `holders`: number of shared holders, or -1 for one exclusive holder.
 * @type {Map<string, { holders: number, queue: { shared: boolean, grant: () => void }[] }>}
 */
const threadLocks = new Map();

/**
 * @param {string} name @param {boolean} isShared @param {boolean} wait @param {AbortSignal} [signal]
 * @returns {Promise<Release | null>}
 */
function lockInThread(name, isShared, wait, signal) {
  const state = threadLocks.get(name) ?? { holders: 0, queue: [] };
  threadLocks.set(name, state);
  const isFree = () => (isShared ? state.holders >= 0 : state.holders === 0);
  const grantNext = () => {
    while (state.queue.length && (state.queue[0].shared ? state.holders >= 0 : state.holders === 0))
      state.queue.shift()?.grant();
  };
  if (!wait && (!isFree() || state.queue.length)) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const request = {
      shared: isShared,
      grant() {
        signal?.removeEventListener('abort', abort);
        state.holders = isShared ? state.holders + 1 : -1;
        let isHeld = true;
        resolve(async () => {
          if (!isHeld) return;
          isHeld = false;
          state.holders = isShared ? state.holders - 1 : 0;
          grantNext();
        });
      },
    };
    const abort = () => {
      state.queue.splice(state.queue.indexOf(request), 1);
      reject(signal?.reason);
      grantNext();
    };
    if (signal?.aborted) return reject(signal.reason);
    signal?.addEventListener('abort', abort);
    state.queue.push(request);
    grantNext();
  });
}

/**
 * Takes a lock. Rejects with the reason of the signal.
 * @param {string} name
 * @param {LockOptions} [options]
 * @returns {Promise<Release | null>}  null if the lock is not free, without `wait`
 */
export function lock(name, { shared: isShared = false, wait = false, signal } = {}) {
  const locks = globalThis.navigator?.locks;
  if (!locks) return lockInThread(name, isShared, wait, signal);
  return new Promise((resolve, reject) => {
    const options = {
      mode: /** @type {LockMode} */ (isShared ? 'shared' : 'exclusive'),
      ...(wait ? { signal } : { ifAvailable: true }),
    };
    const finished = locks.request(name, options, (granted) => {
      if (!granted) return resolve(null);
      return new Promise((end) =>
        resolve(async () => {
          end(undefined);
          await finished;
        }),
      );
    });
    finished.catch(reject);
  });
}
