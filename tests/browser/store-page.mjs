// Script of a page in which a test calls the operations of store-ops.mjs, in the page (`ops`) or in its worker (`inWorker`).
import { ops } from './store-ops.mjs';

const worker = new Worker(new URL('./store-worker.mjs', import.meta.url), { type: 'module' });
/** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void }>} */
const calls = new Map();
let last = 0;

worker.onmessage = ({ data: { id, ok, error } }) => {
  const call = calls.get(id);
  if (error) call?.reject(new Error(error));
  else call?.resolve(ok);
};

Object.assign(globalThis, {
  ops,
  inWorker: (/** @type {string} */ name, /** @type {any[]} */ args) =>
    new Promise((resolve, reject) => {
      calls.set(++last, { resolve, reject });
      worker.postMessage({ id: last, name, args });
    }),
});
