// goldenRun in a worker of a page: Atomics.wait is allowed there, but not in the page.
import { goldenRun } from '../golden.mjs';

onmessage = ({ data }) =>
  goldenRun(.../** @type {Parameters<typeof goldenRun>} */ (data)).then(
    (result) => postMessage({ result }),
    (error) => postMessage({ error: `${error}\n${error?.stack}` }),
  );
postMessage('ready');
