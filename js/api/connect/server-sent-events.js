/** Server-sent events, as they arrive. */
import { BqError } from '../../shared/errors.js';

/** Characters of one event: more than any chunk has. */
const MAX_EVENT_LENGTH = 2 ** 20;

/**
 * The data of each event. NETWORK: the connection broke, or an event has no end.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{ data: string, whole: boolean }, void>}  `whole`: it has an end
 */
export async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let pendingText = '';
  /** @type {string[]} */
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      // A line ends with CR, LF or both; behind a CR at the end an LF may still come.
      const lines = (pendingText + (done ? decoder.decode() : decoder.decode(value, { stream: true }))).split(
        /\r\n|\n|\r(?!$)/,
      );
      pendingText = lines.pop() ?? '';
      for (const line of lines) {
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        else if (!line && data.length) {
          yield { data: data.join('\n').trim(), whole: true };
          data = [];
        }
      }
      if (done) {
        // Some servers leave out the empty line behind the last event. What is cut in the middle looks the same.
        if (pendingText.startsWith('data:')) data.push(pendingText.slice(5));
        if (data.length) yield { data: data.join('\n').trim(), whole: false };
        return;
      }
      if (pendingText.length + data.reduce((sum, line) => sum + line.length, 0) > MAX_EVENT_LENGTH)
        throw new BqError('NETWORK', 'the server sends an event without an end', {
          hint: 'check the address of the server',
        });
    }
  } finally {
    // Whoever leaves early ends the request, too.
    await reader.cancel().catch(() => {});
  }
}
