/**
 * A thread of an engine: an instance of its module over its memory. The rest of its life is in web/threads.c. Or, where memory can't
 * be shared, a worker that computes parts of products.
 */
import { linkOptionalKernels } from './wasm/link-optional-kernels.js';
import { releaseMemory } from './wasm/release-memory.js';
import { isNode, nodeModule } from './shared/node.js';

/** @param {any} port  towards js/wasm/threads.js, or whoever sends the port that it is reached by */
function serve(port) {
  /** @type {((ask: any) => void) | null} */
  let compute = null;
  const enter = (
    /** @type {{ port?: MessagePort, spread?: any, module: WebAssembly.Module, rare?: WebAssembly.Module, memory: WebAssembly.Memory, index: number, stack: number } | null} */ job,
  ) => {
    if (job?.port) return serve(job.port);
    if (!job) return end();
    if (compute) return compute(job);
    if (job.spread) return void begin(/** @type {any} */ (job));
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
  const begin = async (/** @type {import('./wasm/tensor-parallel-worker.js').Begin} */ job) => {
    try {
      compute = await (await import('./wasm/tensor-parallel-worker.js')).computeParts(port, job, linkOptionalKernels);
      port.postMessage('ready');
    } catch (error) {
      port.postMessage({ error: String(error) });
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
