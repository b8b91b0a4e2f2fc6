// The engine's worker, which hangs or closes itself when it is told to.
import '../../../js/worker.js';
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', ({ fail }) => {
  if (fail === 'loop') for (;;);
  if (fail === 'close') process.exit();
});
