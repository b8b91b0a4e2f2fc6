// goldenRun in a worker of a page, where threads may wait for each other.
import { goldenRun } from '../golden.mjs';

onmessage = ({ data }) =>
  goldenRun(.../** @type {Parameters<typeof goldenRun>} */ (data)).then(
    (result) => postMessage({ result }),
    (error) => postMessage({ error: `${error}\n${error?.stack}` }),
  );
postMessage('ready');
