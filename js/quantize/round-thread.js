/** Entry of a worker thread with a rounding worker (worker-pool.js), whose methods it calls by messages. Node only. */
import { TYPES } from '../format/bq4/weight-types.js';
import { packError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { RoundingWorker } from './rounding-worker.js';

const { parentPort } = nodeModule('worker_threads');
/** @type {RoundingWorker} */
let worker;

/** Methods by name. Weight types are sent as ids. @type {Record<string, (...args: any[]) => any>} */
const CALLS = {
  begin: async (task) => void (worker = await RoundingWorker.create(task)),
  use: (moments) => worker.use(moments),
  round: (type, ...args) => worker.round(TYPES[type], .../** @type {[any, any, any, any]} */ (args)),
  encode: ({ type, bytes }, to, ...args) =>
    worker.encode({ type: TYPES[type], bytes }, TYPES[to], .../** @type {[any, any, any]} */ (args)),
  dequantize: (type, ...args) => worker.dequantize(TYPES[type], .../** @type {[any, any, any, any]} */ (args)),
};

parentPort.on('message', async (/** @type {{ call: string, args: any[] }} */ { call, args }) => {
  try {
    const result = await CALLS[call](...args);
    const array = result?.bytes ?? result;
    parentPort.postMessage({ result }, array ? [array.buffer] : []);
  } catch (error) {
    parentPort.postMessage({ error: packError(error) });
  }
});
