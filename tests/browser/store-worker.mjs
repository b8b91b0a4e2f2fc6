// The operations of store-ops.mjs in a worker.
import { ops } from './store-ops.mjs';

onmessage = async ({ data: { id, name, args } }) => {
  try {
    postMessage({ id, ok: await ops[name](...args) });
  } catch (error) {
    postMessage({ id, error: String(/** @type {Error} */ (error).stack) });
  }
};
