// Reads a file of the browser's private file system: the minimum cost of a warm load.
const MIB = 1 << 20;

/**
 * Reads the file in pieces of 1 MiB: into the same buffer, or into new memory of the file's size (`keeps`).
 * @param {string} name @param {boolean} keeps
 */
async function read(name, keeps) {
  const since = performance.now();
  const handle = await (
    await navigator.storage.getDirectory()
  )
    .getFileHandle(name)
    .then((file) => /** @type {any} */ (file).createSyncAccessHandle({ mode: 'read-only' }));
  const bytes = handle.getSize();
  const { buffer } = new WebAssembly.Memory({ initial: Math.ceil((keeps ? bytes : MIB) / 65536) });
  for (let at = 0; at < bytes; at += MIB)
    handle.read(new Uint8Array(buffer, keeps ? at : 0, Math.min(MIB, bytes - at)), { at });
  handle.close();
  return performance.now() - since;
}

onmessage = async ({ data: { name, keeps } }) => postMessage(await read(name, keeps));
