// js/worker.js with the counters of count-calls.mjs, in Node.
import { workerData } from 'node:worker_threads';
import { countCalls } from './count-calls.mjs';

countCalls(workerData.counters);
await import('../../js/worker.js');
