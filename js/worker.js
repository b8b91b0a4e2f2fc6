/** Script of the engine's worker. It serves an engine over the port to the thread that started the worker. */
import { openEngine } from './engine/engine.js';
import { serve } from './remote/port/dispatch.js';
import { isNode, nodeModule } from './shared/node.js';

/**
 * Whether this script has run in this thread. WebKit (2.50) runs the script of a module worker a second time when a
 * module imports it, as the chunks of bundlers do. The second run only exports.
 */
const HAS_RUN = Symbol.for('bq4.worker');
const scope = /** @type {any} */ (globalThis);

if (!scope[HAS_RUN]) {
  scope[HAS_RUN] = true;
  serve(isNode ? nodeModule('worker_threads').parentPort : globalThis, {
    open: openEngine,
    close: (engine) => engine.close(),
  });
}
