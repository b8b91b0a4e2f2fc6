/** A thread of an engine: an instance of its module over its memory. The rest of its life is in web/threads.c. */
import { releaseMemory } from './wasm/release-memory.js';
import { isNode, nodeModule } from './shared/node.js';

/** @param {any} port  towards js/wasm/threads.js, or whoever sends the port that it is reached by */
function serve(port) {
  const enter = (
    /** @type {{ port?: MessagePort, module: WebAssembly.Module, memory: WebAssembly.Memory, index: number, stack: number } | null} */ job,
  ) => {
    if (job?.port) return serve(job.port);
    if (!job) return end();
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
  const end = () => {
    if (port.close) port.close();
    else port.unref(); // Deno's has none
    if (!isNode) globalThis.close();
  };
  if (port.on) port.on('message', enter);
  else port.onmessage = (/** @type {MessageEvent} */ { data }) => enter(data);
  port.postMessage('here');
}

serve(isNode ? nodeModule('worker_threads').parentPort : globalThis);
