// tests/server/faults.mjs for a page: the servers run in the process of the test, which is asked for them.

/** @param {string} path @param {RequestInit} [init] */
const ask = async (path, init) => (await fetch(`/control/${path}`, init)).json();

/** @param {Uint8Array<ArrayBuffer>} file @param {object} [fault] */
export async function faultServer(file, fault = {}) {
  const { id, url } = await ask(`serve?${encodeURIComponent(JSON.stringify(fault))}`, { method: 'POST', body: file });
  return { url, asked: () => ask(`asked?${id}`), close: () => ask(`close?${id}`) };
}
