/** Script of the engine's worker. It serves an engine over the port to the thread that started the worker. */
import { openEngine } from './engine/engine.js';
import { serve } from './remote/port/dispatch.js';
import { isNode, nodeModule } from './shared/node.js';

serve(isNode ? nodeModule('worker_threads').parentPort : globalThis, {
  open: openEngine,
  close: (engine) => engine.close(),
});
