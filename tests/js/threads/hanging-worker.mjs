// js/worker.js in which starting threads blocks forever, as it happened in Firefox.
import { Threads } from '../../../js/wasm/threads.js';

Threads.prototype.attach = function () {
  this.onStart();
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};
await import('../../../js/worker.js');
