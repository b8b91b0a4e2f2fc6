/**
 * Reads the text of one PDF with pdf.js. The whole library runs in this worker, which the page ends when a file takes too long: a
 * hostile file reaches neither the page nor the network.
 */
import '../panel/request-reporter.js';
// @ts-ignore: its types are under its name alone
import { getDocument, VerbosityLevel } from '../../node_modules/pdfjs-dist/legacy/build/pdf.min.mjs';
// @ts-ignore
import '../../node_modules/pdfjs-dist/legacy/build/pdf.worker.min.mjs';

/** Tables of old Asian encodings, one of which is fetched when a file has letters in it. */
const CMAPS = '../../node_modules/pdfjs-dist/cmaps/';

/** @typedef {{ page: number, pages: number, text: string }} Page */
/** `offline`: without a table that could not be fetched, letters would be missing. @typedef {Page | { end: 'complete' | 'locked' | 'damaged' | 'offline' }} Answer */

/** The library goes on without a table that it does not get: letters are missing then. */
let isTableMissing = false;
const { fetch } = globalThis;
globalThis.fetch = async (address, options) => {
  // For their looks it would fetch fonts, too.
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

/** The library listens here, too, and answers nothing of ours. @param {MessageEvent<{ bytes: ArrayBuffer, port: MessagePort }>} message */
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
