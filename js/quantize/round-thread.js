/** A thread with a hand (hands.js), which does what it is told. In Node. */
import { TYPES } from '../format/bq4/weight-types.js';
import { packError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { Hand } from './rounding-worker.js';

const { parentPort } = nodeModule('worker_threads');
/** @type {Hand} */
let hand;

/** Types come by their ids. @type {Record<string, (...given: any[]) => any>} */
const CALLS = {
  begin: async (task) => void (hand = await Hand.create(task)),
  use: (moments) => hand.use(moments),
  round: (type, ...rest) => hand.round(TYPES[type], .../** @type {[any, any, any, any]} */ (rest)),
  encode: ({ type, bytes }, to, ...rest) =>
    hand.encode({ type: TYPES[type], bytes }, TYPES[to], .../** @type {[any, any, any]} */ (rest)),
  dequantize: (type, ...rest) => hand.dequantize(TYPES[type], .../** @type {[any, any, any, any]} */ (rest)),
};

parentPort.on('message', async (/** @type {{ call: string, given: any[] }} */ { call, given }) => {
  try {
    const result = await CALLS[call](...given);
    const made = result?.bytes ?? result;
    parentPort.postMessage({ result }, made ? [made.buffer] : []);
  } catch (error) {
    parentPort.postMessage({ error: packError(error) });
  }
});
