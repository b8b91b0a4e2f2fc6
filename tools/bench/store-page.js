// Calls the measuring worker for tools/bench/store.mjs.
const worker = new Worker(new URL('./store-worker.js', import.meta.url), { type: 'module' });

Object.assign(globalThis, {
  measure: () =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => ('error' in data ? reject(new Error(data.error)) : resolve(data.ok));
      worker.postMessage(0);
    }),
});
