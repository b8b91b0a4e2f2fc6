// A simulated worker of an engine that opens when the test sends 'end', as if its module had been loading until then. It computes nothing.
import { parentPort } from 'node:worker_threads';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
let openId = 0;
port.on('message', (message) => {
  if (message === 'end') port.postMessage({ id: openId, value: { info: { threads: 2 }, store: null } });
  else if (message.method === 'open') {
    openId = message.id;
    for (const progress of ['threads', 'compile']) port.postMessage({ id: openId, progress });
  } else if (message.id !== undefined) port.postMessage({ id: message.id, value: undefined });
});
