/** The body of a request: JSON of a bounded size. */
import { Refusal } from './refusal.js';

/** @param {number} most */
const tooLarge = (most) => new Refusal(413, 'request_too_large', `the request has more than ${most} bytes`);

/** Times the limit that are read and dropped, so that the client has sent all and hears why; beyond that the connection ends. */
const PATIENCE = 16;

/** All bytes of a request. Refusal: too many. @param {import('node:http').IncomingMessage} request @param {number} most @returns {Promise<Buffer>} */
function collect(request, most) {
  /** @type {Buffer[]} */
  let pieces = [];
  let length = 0;
  return new Promise((resolve, reject) => {
    request.on('data', (/** @type {Buffer} */ piece) => {
      length += piece.length;
      if (length <= most) pieces.push(piece);
      else pieces = [];
      if (length > PATIENCE * most) request.destroy(tooLarge(most));
    });
    request.once('end', () => (length > most ? reject(tooLarge(most)) : resolve(Buffer.concat(pieces))));
    request.once('error', reject);
  });
}

/**
 * Refusal: no JSON, no object, too large.
 * @param {import('node:http').IncomingMessage} request @param {number} most  bytes
 * @returns {Promise<Record<string, any>>}
 */
export async function readBody(request, most) {
  // Pages of anybody may send a form or plain text without asking first; JSON they may not.
  if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
    throw new Refusal(415, 'unsupported_media_type', 'the request is not of type application/json', {
      Connection: 'close',
    });
  const bytes = await collect(request, most);
  let body;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new Refusal(400, 'invalid_json', `the request is no JSON: ${/** @type {Error} */ (error).message}`);
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new Refusal(400, 'invalid_json', 'the request is no JSON object');
  return body;
}
