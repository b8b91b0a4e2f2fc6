// A worker that reads a file in OPFS: the smallest cost of a warm load.
const MIB = 1 << 20;

/**
 * Returns the milliseconds of reading a file in pieces of 1 MiB: into one buffer, or into new memory of the file's size (`keeps`).
 * @param {string} name @param {boolean} usesNewMemory
 */
async function measureRead(name, usesNewMemory) {
  const start = performance.now();
  const handle = await (
    await navigator.storage.getDirectory()
  )
    .getFileHandle(name)
    .then((file) => /** @type {any} */ (file).createSyncAccessHandle({ mode: 'read-only' }));
  const bytes = handle.getSize();
  const { buffer } = new WebAssembly.Memory({ initial: Math.ceil((usesNewMemory ? bytes : MIB) / 65536) });
  for (let at = 0; at < bytes; at += MIB)
    handle.read(new Uint8Array(buffer, usesNewMemory ? at : 0, Math.min(MIB, bytes - at)), { at });
  handle.close();
  return performance.now() - start;
}

onmessage = async ({ data: { name, usesNewMemory } }) => postMessage(await measureRead(name, usesNewMemory));
