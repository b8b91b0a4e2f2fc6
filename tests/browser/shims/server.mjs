// tests/server/faults.mjs for a page. The servers run in the process of the test; the page controls them with requests (host.mjs).

/** @param {string} path @param {RequestInit} [init] */
const request = async (path, init) => (await fetch(`/control/${path}`, init)).json();

/** @param {Uint8Array<ArrayBuffer>} file @param {object} [fault] */
export async function faultServer(file, fault = {}) {
  const query = encodeURIComponent(JSON.stringify(fault));
  const { id, url } = await request(`serve?${query}`, { method: 'POST', body: file });
  return { url, asked: () => request(`asked?${id}`), close: () => request(`close?${id}`) };
}
