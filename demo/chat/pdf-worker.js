/**
 * Reads the text of one PDF with pdf.js. All of the library runs in this worker, which the page terminates after a timeout. So a
 * malicious file has access neither to the page nor to the network.
 */
import '../panel/request-reporter.js';
// @ts-ignore: its types are under its name alone
import { getDocument, VerbosityLevel } from '../../node_modules/pdfjs-dist/legacy/build/pdf.min.mjs';
// @ts-ignore
import '../../node_modules/pdfjs-dist/legacy/build/pdf.worker.min.mjs';

/** Tables of old Asian encodings, fetched for files that use them. */
const CMAPS = '../../node_modules/pdfjs-dist/cmaps/';

/** @typedef {{ page: number, pages: number, text: string }} Page */
/**
 * `offline`: a table could not be fetched, so characters would be missing.
 * @typedef {Page | { end: 'complete' | 'locked' | 'damaged' | 'offline' }} Answer
 */

/** Whether a table could not be fetched. The library would continue, and characters would be missing. */
let isTableMissing = false;
const { fetch } = globalThis;
globalThis.fetch = async (address, options) => {
  // The library would also fetch fonts, which are not needed for the text.
  if (!String(address).endsWith('.bcmap')) return Response.error();
  const response = await fetch(address, options).catch(() => Response.error());
  isTableMissing ||= !response.ok;
  return response;
};

/** @param {{ items: { str?: string, hasEOL?: boolean }[] }} content */
const textOf = ({ items }) =>
  items
    .map(({ str = '', hasEOL }) => (hasEOL ? `${str}\n` : str))
    .join('')
    .replace(/[ \t]+\n/g, '\n')
    .trim();

/**
 * Reads a PDF and reports on `port`: the library has its own listener for messages of this worker.
 * @param {MessageEvent<{ bytes: ArrayBuffer, port: MessagePort }>} message
 */
async function read({ data: { bytes, port } }) {
  const answer = (/** @type {Answer} */ of) => port.postMessage(of);
  try {
    const pdf = await getDocument({
      data: new Uint8Array(bytes),
      cMapUrl: new URL(CMAPS, import.meta.url).href,
      cMapPacked: true,
      useWorkerFetch: true,
      disableFontFace: true,
      useSystemFonts: false,
      isOffscreenCanvasSupported: false,
      useWasm: false,
      verbosity: VerbosityLevel.ERRORS,
    }).promise;
    for (let page = 1; page <= pdf.numPages; page++) {
      const one = await pdf.getPage(page);
      const text = textOf(await one.getTextContent());
      if (isTableMissing) return answer({ end: 'offline' });
      answer({ page, pages: pdf.numPages, text });
      one.cleanup();
    }
    answer({ end: 'complete' });
  } catch (error) {
    answer({ end: /** @type {any} */ (error)?.name === 'PasswordException' ? 'locked' : 'damaged' });
  }
}
addEventListener('message', (message) => {
  if (message.data?.port) void read(message);
});
