// Starts the worker that measures for tools/bench/store.mjs, and calls it.
const worker = new Worker(new URL('./store-worker.js', import.meta.url), { type: 'module' });

Object.assign(globalThis, {
  measure: () =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => ('error' in data ? reject(new Error(data.error)) : resolve(data.rates));
      worker.postMessage(0);
    }),
});
