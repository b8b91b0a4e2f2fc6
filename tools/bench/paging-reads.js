// A worker that reads a file in OPFS in pieces, discards them and reports the rate.

/** @param {any} handle @param {File} file @param {'handle' | 'blob'} mode @param {number} piece @param {number} ms */
async function rate(handle, file, mode, piece, ms) {
  const buffer = new Uint8Array(piece);
  const sync = mode === 'handle' ? await handle.createSyncAccessHandle({ mode: 'read-only' }) : null;
  const pieces = Math.floor(file.size / piece);
  let bytes = 0;
  const since = performance.now();
  for (let i = 0; performance.now() - since < ms; i = (i + 1) % pieces) {
    if (sync) bytes += sync.read(buffer, { at: i * piece });
    else bytes += (await file.slice(i * piece, (i + 1) * piece).arrayBuffer()).byteLength;
  }
  const seconds = (performance.now() - since) / 1e3;
  sync?.close();
  return bytes / seconds;
}

globalThis.onmessage = async ({ data }) => {
  try {
    globalThis.postMessage({ rate: await rate(data.handle, data.file, data.way, data.piece, data.ms) });
  } catch (error) {
    globalThis.postMessage({ error: String(error) });
  }
};
