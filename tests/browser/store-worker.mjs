// The operations of store-ops.mjs in a worker.
import { ops } from './store-ops.mjs';

onmessage = async ({ data: { id, name, args } }) => {
  try {
    const say = (/** @type {string} */ text) => postMessage({ say: text });
    postMessage({ id, ok: await ops[name](...args, ...(name === 'write' ? [say] : [])) });
  } catch (error) {
    postMessage({ id, error: String(/** @type {Error} */ (error).stack) });
  }
};
