// Notes of a page or worker that the test will kill. A page sends a note by a request to the process of the test and waits for the response.
// So the page has not started any work after the last note, even if messages of the browser are late.
import { createServer } from 'node:http';
import { inTime } from '../waiting.mjs';

/**
 * Starts a server of notes. The page or worker sends a note with `await fetch(notes.url + text)`.
 * @param {import('node:test').TestContext} t
 */
export async function takeNotes(t) {
  /** @type {string[]} */
  const all = [];
  /** The note that ends the recording. @type {{ matches: (text: string) => boolean, hold: boolean, resolve: () => void } | null} */
  let lastNote = null;
  let closed = false;
  const server = createServer((request, response) => {
    const text = decodeURIComponent(String(request.url).slice(1));
    if (closed) return; // Without a response, the sender waits until it is killed.
    all.push(text);
    const respond = () => response.writeHead(200, { 'access-control-allow-origin': '*' }).end();
    if (!lastNote?.matches(text)) return void respond();
    closed = true;
    const { hold, resolve } = lastNote;
    if (hold) return resolve();
    response.on('finish', resolve);
    respond();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/`,
    /** All notes, in the order in which they were sent. */
    all,
    /**
     * Waits for a note that matches; it is the last one that is recorded until `reset`.
     * @param {string} what  the note, for the error @param {(text: string) => boolean} matches
     * @param {boolean} hold  whether the sender gets no response, so that it waits until it is killed
     */
    waitForLast(what, matches, hold) {
      return inTime(what, new Promise((resolve) => (lastNote = { matches, hold, resolve: () => resolve(undefined) })), {
        state: () => `the notes ${all.slice(-5).join(', ')}`,
      });
    },
    /** Deletes all notes; new ones are recorded. */
    reset() {
      [all.length, lastNote, closed] = [0, null, false];
    },
  };
}
