/** Parses server-sent events while they arrive. */
import { BqError } from '../../shared/errors.js';

/** Largest number of characters of an event, which is more than any chunk has. */
const MAX_EVENT_LENGTH = 2 ** 20;

/**
 * Yields the data of each event. `isComplete` is false for an event without the empty line at its end. Throws the error
 * of a broken connection, and NETWORK for an event that is too long.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{ data: string, isComplete: boolean }, void>}
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
      // A line ends with CR, LF or both. A CR at the end of the received text may be followed by an LF.
      const lines = (pendingText + (done ? decoder.decode() : decoder.decode(value, { stream: true }))).split(
        /\r\n|\n|\r(?!$)/,
      );
      pendingText = lines.pop() ?? '';
      for (const line of lines) {
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        else if (!line && data.length) {
          yield { data: data.join('\n').trim(), isComplete: true };
          data = [];
        }
      }
      if (done) {
        // Some servers omit the empty line after the last event. An event that was cut looks the same.
        if (pendingText.startsWith('data:')) data.push(pendingText.slice(5));
        if (data.length) yield { data: data.join('\n').trim(), isComplete: false };
        return;
      }
      if (pendingText.length + data.reduce((sum, line) => sum + line.length, 0) > MAX_EVENT_LENGTH)
        throw new BqError('NETWORK', 'the server sent an event that is too long', {
          hint: 'check the address of the server',
        });
    }
  } finally {
    // If the caller leaves early, this ends the request.
    await reader.cancel().catch(() => {});
  }
}
