// Notes of a page or worker that is going to be killed. They are made here, in the process of the test, and who makes one
// waits until it is here: what has no note has not been done, however late messages of a browser come.
import { createServer } from 'node:http';
import { inTime } from '../waiting.mjs';

/**
 * In the page or worker: `await fetch(notes.url + text)`.
 * @param {import('node:test').TestContext} t
 */
export async function takeNotes(t) {
  /** @type {string[]} */
  const all = [];
  /** @type {{ matches: (text: string) => boolean, hold: boolean, found: () => void } | null} */
  let awaited = null;
  let closed = false;
  const server = createServer((request, response) => {
    const text = decodeURIComponent(String(request.url).slice(1));
    if (closed) return; // whoever was held, or comes later, never goes on
    all.push(text);
    const answer = () => response.writeHead(200, { 'access-control-allow-origin': '*' }).end();
    if (!awaited?.matches(text)) return void answer();
    closed = true;
    const { hold, found } = awaited;
    if (hold) return found();
    response.on('finish', found);
    answer();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/`,
    /** In the order in which they were made. */
    all,
    /**
     * The note for which this is true; it is the last one that is taken until `again`.
     * @param {string} what  for the error @param {(text: string) => boolean} matches
     * @param {boolean} hold  whoever made it never goes on; else it goes on as it is found
     */
    last(what, matches, hold) {
      return inTime(what, new Promise((resolve) => (awaited = { matches, hold, found: () => resolve(undefined) })), {
        state: () => `the notes ${all.slice(-5).join(', ')}`,
      });
    },
    /** Begins anew. */
    again() {
      [all.length, awaited, closed] = [0, null, false];
    },
  };
}
