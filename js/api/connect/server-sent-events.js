/** Server-sent events, as they arrive. */
import { BqError } from '../../shared/errors.js';

/** Characters of one event: more than any chunk has. */
const MOST = 2 ** 20;

/**
 * The data of each event. NETWORK: the connection broke, or an event has no end.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{ data: string, whole: boolean }, void>}  `whole`: it has an end
 */
export async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  /** @type {string[]} */
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      // A line ends with CR, LF or both; behind a CR at the end an LF may still come.
      const lines = (rest + (done ? decoder.decode() : decoder.decode(value, { stream: true }))).split(
        /\r\n|\n|\r(?!$)/,
      );
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        else if (!line && data.length) {
          yield { data: data.join('\n').trim(), whole: true };
          data = [];
        }
      }
      if (done) {
        // Some servers leave out the empty line behind the last event. What is cut in the middle looks the same.
        if (rest.startsWith('data:')) data.push(rest.slice(5));
        if (data.length) yield { data: data.join('\n').trim(), whole: false };
        return;
      }
      if (rest.length + data.reduce((sum, one) => sum + one.length, 0) > MOST)
        throw new BqError('NETWORK', 'the server sends an event without an end', {
          hint: 'check the address of the server',
        });
    }
  } finally {
    // Whoever leaves early ends the request, too.
    await reader.cancel().catch(() => {});
  }
}
