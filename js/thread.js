/**
 * Script of an engine's thread. The thread instantiates the engine's module with the shared memory and then runs the
 * loop in web/threads.c. If memory can't be shared, it is a worker of tensor parallelism instead.
 */
import { linkOptionalKernels } from './wasm/link-optional-kernels.js';
import { releaseMemory } from './wasm/release-memory.js';
import { isNode, nodeModule } from './shared/node.js';

/**
 * Handles the messages of a port.
 * @param {any} port  to js/wasm/threads.js. If the first message contains another port, that port is used instead
 */
function serve(port) {
  /** Computes parts of products, in a worker of tensor parallelism. @type {((request: any) => void) | null} */
  let compute = null;
  const receive = (
    /** @type {{ port?: MessagePort, spread?: any, module: WebAssembly.Module, rare?: WebAssembly.Module, memory: WebAssembly.Memory, index: number, stack: number } | null} */ job,
  ) => {
    if (job?.port) return serve(job.port);
    if (!job) return end();
    if (compute) return compute(job);
    if (job.spread) return void startTensorParallel(/** @type {any} */ (job));
    const { module, rare, memory, index, stack } = job;
    const exports = /** @type {any} */ (
      new WebAssembly.Instance(module, { env: { memory, now: () => performance.now(), stop: Number } }).exports
    ); // only the caller's thread decides whether to stop
    exports.__stack_pointer.value = stack;
    if (rare) new WebAssembly.Instance(rare, linkOptionalKernels(exports, memory).imports);
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
  const startTensorParallel = async (/** @type {import('./wasm/tensor-parallel-worker.js').Begin} */ job) => {
    try {
      compute = await (await import('./wasm/tensor-parallel-worker.js')).computeParts(port, job, linkOptionalKernels);
      port.postMessage('ready');
    } catch (error) {
      port.postMessage({ error: String(error) });
    }
  };
  const end = () => {
    if (port.close) port.close();
    else port.unref(); // Deno's port has no close()
    if (!isNode) globalThis.close();
  };
  if (port.on) port.on('message', receive);
  else port.onmessage = (/** @type {MessageEvent} */ { data }) => receive(data);
  port.postMessage('here');
}

serve(isNode ? nodeModule('worker_threads').parentPort : globalThis);
