// Lets tools/bench/store.mjs call the worker that measures.
const worker = new Worker(new URL('./store-worker.js', import.meta.url), { type: 'module' });

Object.assign(globalThis, {
  measure: () =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => ('error' in data ? reject(new Error(data.error)) : resolve(data.ok));
      worker.postMessage(0);
    }),
});
