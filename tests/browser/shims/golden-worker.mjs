// `goldenRun` in a worker, where threads may be waited for.
import { goldenRun } from '../golden.mjs';

onmessage = async ({ data }) => {
  try {
    postMessage(await goldenRun(...data));
  } catch (error) {
    postMessage({ error: String(error.stack) });
  }
};
