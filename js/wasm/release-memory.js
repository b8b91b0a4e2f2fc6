/**
 * Gets a closed model's shared memory collected. It goes when the last thread has no object for it any more, but V8
 * doesn't count it as memory that a thread holds: one that does nothing keeps it for ever. Buffers that nobody wants are
 * counted, so some are made until it is gone, which takes milliseconds.
 */

/** Bytes of a buffer, and how many at most. */
const [BYTES, MOST] = [8 << 20, 64];

/** @param {WebAssembly.Memory} memory  the caller's last use of it */
export function releaseMemory(memory) {
  let left = MOST;
  const registry = new FinalizationRegistry(() => (left = 0));
  const token = {};
  registry.register(memory, 0, token);
  const press = () => {
    if (!left--) return void registry.unregister(token);
    try {
      new ArrayBuffer(BYTES);
      later();
    } catch {
      // So little memory is left that the browser collects by itself.
    }
  };
  const later = () => /** @type {any} */ (setTimeout(press)).unref?.();
  later();
}
