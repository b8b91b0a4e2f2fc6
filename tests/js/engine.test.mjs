// One suite over both engines.
import { createEngine, createWorkerEngine } from '../../js/index.js';
import { engineSuite } from './engine-suite.mjs';

engineSuite('in this thread', createEngine);
engineSuite('in a worker', createWorkerEngine);
