// One suite over both engines.
import { createEngine } from '../../js/engine.js';
import { createWorkerEngine } from '../../js/index.js';
import { engineSuite } from './engine-suite.mjs';

engineSuite('in this thread', createEngine);
engineSuite('in a worker', createWorkerEngine);
engineSuite('in a worker with one thread', (options) => createWorkerEngine({ ...options, threads: 1 }));
engineSuite('in a worker with three threads', (options) => createWorkerEngine({ ...options, threads: 3 }));
