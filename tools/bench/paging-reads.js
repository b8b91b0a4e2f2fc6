// A worker that reads a file in pieces, discards them and reports the rate.

/** @param {any} handle @param {File} file @param {'handle' | 'blob'} mode @param {number} pieceBytes @param {number} durationMs */
async function measureRate(handle, file, mode, pieceBytes, durationMs) {
  const buffer = new Uint8Array(pieceBytes);
  const accessHandle = mode === 'handle' ? await handle.createSyncAccessHandle({ mode: 'read-only' }) : null;
  const pieceCount = Math.floor(file.size / pieceBytes);
  let bytes = 0;
  const start = performance.now();
  for (let i = 0; performance.now() - start < durationMs; i = (i + 1) % pieceCount) {
    if (accessHandle) bytes += accessHandle.read(buffer, { at: i * pieceBytes });
    else bytes += (await file.slice(i * pieceBytes, (i + 1) * pieceBytes).arrayBuffer()).byteLength;
  }
  const seconds = (performance.now() - start) / 1e3;
  accessHandle?.close();
  return bytes / seconds;
}

globalThis.onmessage = async ({ data }) => {
  try {
    globalThis.postMessage({
      rate: await measureRate(data.handle, data.file, data.mode, data.pieceBytes, data.durationMs),
    });
  } catch (error) {
    globalThis.postMessage({ error: String(error) });
  }
};
