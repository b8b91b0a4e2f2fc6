/** A thread of an engine: an instance of its module over its memory. The rest of its life is in web/threads.c. */
import { releaseMemory } from './wasm/release-memory.js';
import { isNode, nodeModule } from './shared/node.js';

/** @param {any} port  towards js/wasm/threads.js */
function serve(port) {
  const enter = (
    /** @type {{ module: WebAssembly.Module, memory: WebAssembly.Memory, index: number, stack: number } | null} */ job,
  ) => {
    if (!job) return port.close ? port.close() : port.unref(); // Deno's has none
    const { module, memory, index, stack } = job;
    const exports = /** @type {any} */ (
      new WebAssembly.Instance(module, { env: { memory, now: () => performance.now(), stop: Number } }).exports
    ); // who asks to stop is the caller's thread
    exports.__stack_pointer.value = stack;
    port.postMessage('ready');
    try {
      exports.bqw_thread_main(index);
      port.postMessage('left');
      releaseMemory(memory);
    } catch (error) {
      exports.bqw_thread_failed(index);
      throw error;
    }
  };
  if (port.on) port.on('message', enter);
  else port.onmessage = (/** @type {MessageEvent} */ { data }) => enter(data);
  port.postMessage('here');
}

serve(isNode ? nodeModule('worker_threads').parentPort : globalThis);
