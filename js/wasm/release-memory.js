/**
 * Makes the garbage collector free the shared memory of a closed model. The memory is freed once no thread has an object for it, but V8
 * doesn't count shared memory among what a thread uses, so an idle thread never collects its object. It does count ordinary buffers:
 * some are allocated and dropped until the memory is gone, which takes milliseconds.
 */

/** Size of each buffer in bytes, and the maximum number of them. */
const [BUFFER_BYTES, MAX_BUFFERS] = [8 << 20, 64];

/** @param {WebAssembly.Memory} memory  which the caller uses no more */
export function releaseMemory(memory) {
  let remaining = MAX_BUFFERS;
  const registry = new FinalizationRegistry(() => (remaining = 0));
  const token = {};
  registry.register(memory, 0, token);
  const allocate = () => {
    if (!remaining--) return void registry.unregister(token);
    try {
      new ArrayBuffer(BUFFER_BYTES);
      schedule();
    } catch {
      // Memory is so short that the browser collects without help.
    }
  };
  const schedule = () => /** @type {any} */ (setTimeout(allocate)).unref?.();
  schedule();
}
