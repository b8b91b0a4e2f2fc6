// A worker that runs the operations of store-ops.mjs: each message is a call, each answer its result or error.
import { ops } from './store-ops.mjs';

onmessage = async ({ data: { id, name, args } }) => {
  try {
    postMessage({ id, ok: await ops[name](...args) });
  } catch (error) {
    postMessage({ id, error: String(/** @type {Error} */ (error).stack) });
  }
};
