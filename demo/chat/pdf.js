/** Reads the text of a PDF, with page numbers. Loaded with the first PDF. */

/** Largest file that is read, in bytes. */
const MAX_BYTES = 100e6;
/** Timeout in milliseconds for one page, and for the start of the library. */
const PAGE_TIMEOUT = 60_000;

/** Reasons why a file cannot be attached; each continues a sentence that begins with the file's name. */
const REASONS = {
  large: 'is too large: PDF files of up to 100 MB can be read.',
  locked: 'is protected by a password. Save a copy without the password and attach that.',
  damaged: "can't be read: it is damaged, or no PDF.",
  slow: 'takes too long to read.',
  unread: "can't be read here: the part of this page that reads PDF files could not be loaded.",
  offline:
    'needs a table of characters that is not on this device yet. Connect to the internet and attach it again: from then on such files can be read offline, too.',
  scanned: 'has no text, only pictures of pages, as a scanner makes them.',
};

/**
 * @param {File} file @param {number} most  characters: a longer text ends with the last complete page; a longer first page is cut
 * @param {AbortSignal} signal
 * @param {(page: number, pages: number) => void} onPage
 * @returns {Promise<{ text: string, pages: number, read: number, cut: boolean }>}  text of the first `read` of `pages` pages, each with its number; `cut`: the last one is incomplete
 */
export async function textOfPdf(file, most, signal, onPage) {
  if (file.size > MAX_BYTES) throw refusal('large');
  const bytes = await file.arrayBuffer();
  signal.throwIfAborted();
  const worker = new Worker(new URL('./pdf-worker.js', import.meta.url), { type: 'module' });
  const { port1, port2 } = new MessageChannel();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  try {
    return await new Promise((resolve, reject) => {
      let [text, read, pages, cut] = ['', 0, 0, false];
      const wait = () => {
        clearTimeout(timer);
        timer = setTimeout(() => reject(refusal('slow')), PAGE_TIMEOUT);
      };
      const end = () => (/\S/.test(text) ? resolve({ text, pages, read, cut }) : reject(refusal('scanned')));
      wait();
      signal.addEventListener('abort', () => reject(signal.reason));
      worker.addEventListener('error', () => reject(refusal('unread')));
      port1.onmessage = ({ data }) => {
        if (data.end) return data.end === 'complete' ? end() : reject(refusal(data.end));
        wait();
        pages = data.pages;
        const isTooMuch = text.length + data.text.length > most;
        if (isTooMuch && text) return end();
        read = data.page;
        if (data.text) text += `${text && '\n\n'}[Page ${read}]\n${data.text.slice(0, most)}`;
        cut = isTooMuch;
        if (cut) return end();
        onPage(read, pages);
      };
      worker.postMessage({ bytes, port: port2 }, [bytes, port2]);
    });
  } finally {
    clearTimeout(timer);
    port1.close();
    worker.terminate();
  }
}

/** @param {keyof typeof REASONS} reason */
const refusal = (reason) => new Error(REASONS[reason]);
