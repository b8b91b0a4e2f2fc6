// The engine's worker, which hangs or exits when it gets a message of the test.
import '../../../js/worker.js';
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', ({ fail }) => {
  if (fail === 'loop') for (;;);
  if (fail === 'close') process.exit();
});
