// js/worker.js whose threads never come because starting them blocks, as was seen in Firefox.
import { Threads } from '../../../js/wasm/threads.js';

Threads.prototype.attach = function () {
  this.onStart();
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};
await import('../../../js/worker.js');
