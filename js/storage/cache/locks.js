/** Locks by name: Web Locks, which reach all tabs and end with their tab; else only within this thread. */

/** Resolves when it is free for others. @typedef {() => Promise<void>} Release */
/** @typedef {{ shared?: boolean, wait?: boolean, signal?: AbortSignal }} LockOptions */

/** What this thread holds where there are no Web Locks. Holders: -1 for one exclusive.
 * @type {Map<string, { holders: number, queue: { shared: boolean, grant: () => void }[] }>} */
const table = new Map();

/** @param {string} name @param {boolean} isShared @param {boolean} wait @param {AbortSignal} [signal] @returns {Promise<Release | null>} */
function lockHere(name, isShared, wait, signal) {
  const state = table.get(name) ?? { holders: 0, queue: [] };
  table.set(name, state);
  const free = () => (isShared ? state.holders >= 0 : state.holders === 0);
  const serve = () => {
    while (state.queue.length && (state.queue[0].shared ? state.holders >= 0 : state.holders === 0))
      state.queue.shift()?.grant();
  };
  if (!wait && (!free() || state.queue.length)) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const turn = {
      shared: isShared,
      grant() {
        signal?.removeEventListener('abort', abort);
        state.holders = isShared ? state.holders + 1 : -1;
        let isHeld = true;
        resolve(async () => {
          if (!isHeld) return;
          isHeld = false;
          state.holders = isShared ? state.holders - 1 : 0;
          serve();
        });
      },
    };
    const abort = () => {
      state.queue.splice(state.queue.indexOf(turn), 1);
      reject(signal?.reason);
      serve();
    };
    if (signal?.aborted) return reject(signal.reason);
    signal?.addEventListener('abort', abort);
    state.queue.push(turn);
    serve();
  });
}

/**
 * @param {string} name
 * @param {LockOptions} [options]  `wait: false`: null when it isn't free now
 * @returns {Promise<Release | null>}  rejects with the signal's reason
 */
export function lock(name, { shared: isShared = false, wait = false, signal } = {}) {
  const locks = globalThis.navigator?.locks;
  if (!locks) return lockHere(name, isShared, wait, signal);
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
