/** The engine's worker: an engine behind the port to whoever started it. */
import { openEngine } from './engine/engine.js';
import { serve } from './remote/port/dispatch.js';
import { isNode, nodeModule } from './shared/node.js';

serve(isNode ? nodeModule('worker_threads').parentPort : globalThis, {
  open: openEngine,
  close: (engine) => engine.close(),
});
