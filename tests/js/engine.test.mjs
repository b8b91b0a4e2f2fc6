// Runs one suite with every kind of engine.
import { createEngine } from '../../js/node.js';
import { connectEngine, createWorkerEngine } from '../../js/index.js';
import { engineSuite } from './engine-suite.mjs';

engineSuite('in this thread', createEngine);
engineSuite('in a worker', createWorkerEngine);
engineSuite('in a worker with one thread', (options) => createWorkerEngine({ ...options, threads: 1 }));
engineSuite('in a worker with three threads', (options) => createWorkerEngine({ ...options, threads: 3 }));

/** An engine over one more port of it; closed with it. @param {Promise<import('../../js/shared/types.js').Engine>} opening */
async function overPort(opening) {
  const engine = await opening;
  const far = await connectEngine(await engine.openPort());
  const { close } = far;
  return Object.assign(far, {
    close: async () => {
      await close();
      await engine.close();
    },
  });
}
engineSuite('over a MessagePort of a worker', (options) => overPort(createWorkerEngine({ ...options, threads: 1 })));
engineSuite('over a MessagePort of this thread', (options) => overPort(createEngine({ ...options, threads: 1 })));
