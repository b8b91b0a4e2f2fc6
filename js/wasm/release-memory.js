/**
 * Makes the garbage collector free the shared memory of a closed model. The memory is freed when no thread has an
 * object for it. But V8 does not count shared memory as memory of a thread, so an idle thread never collects its
 * object. V8 does count ordinary buffers. So some are allocated and dropped until the memory has been freed, which
 * takes milliseconds.
 */

/** Size of each buffer in bytes, and the maximum number of buffers. */
const [BUFFER_BYTES, MAX_BUFFERS] = [8 << 20, 64];

/** @param {WebAssembly.Memory} memory  memory that the caller no longer uses */
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
      // Memory is so scarce that the browser collects garbage anyway.
    }
  };
  const schedule = () => /** @type {any} */ (setTimeout(allocate)).unref?.();
  schedule();
}
