/** Script of the engine's worker. It serves an engine over the port to the thread that started the worker. */
import { openEngine } from './engine/engine.js';
import { serve } from './remote/port/dispatch.js';
import { isNode, nodeModule } from './shared/node.js';

/**
 * WebKit (2.50) runs the script of a module worker a second time when a module imports it, as the chunks of bundlers do.
 * The second run only exports.
 */
const scope = /** @type {any} */ (globalThis);
if (!scope.bq4) {
  scope.bq4 = true;
  serve(isNode ? nodeModule('worker_threads').parentPort : scope, {
    open: openEngine,
    close: (engine) => engine.close(),
  });
}
