/** The body of a request: JSON of a bounded size and depth. All requests together hold a bounded number of bytes. */
import { Refusal } from './refusal.js';

/** @param {number} most */
const tooLarge = (most) => new Refusal(413, 'request_too_large', `the request has more than ${most} bytes`);

/** Times the limit that are read and dropped, so that the client has sent all and hears why; beyond that the connection ends. */
const PATIENCE = 16;
/** Bodies of the largest size that there is room for at the same time, of requests that arrive, wait and are answered. */
const BODIES = 16;
/** Arrays and objects within each other at most. */
const DEEPEST = 512;

/** Bytes that bodies may take together. */
export class Room {
  #free;

  /** @param {number} most  bytes of one body */
  constructor(most) {
    this.most = most;
    this.#free = BODIES * most;
  }

  /** Refusal: others have it. @param {number} bytes */
  take(bytes) {
    if (bytes > this.#free)
      throw new Refusal(429, 'rate_limit_exceeded', 'other requests take all the room that there is for requests', {
        'Retry-After': '1',
      });
    this.#free -= bytes;
  }

  /** @param {number} bytes */
  release(bytes) {
    this.#free += bytes;
  }
}

/** Bytes of one request, which count until they are released. */
export class Body {
  #room;
  /** What came, and room for more. */
  #bytes = Buffer.alloc(0);
  #length = 0;

  /** @param {Room} room */
  constructor(room) {
    this.#room = room;
  }

  /** Reads all of a request. Refusal: no JSON, too large, no room. @param {import('node:http').IncomingMessage} request */
  async read(request) {
    // Pages of anybody may send a form or plain text without asking first; JSON they may not.
    if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
      throw new Refusal(415, 'unsupported_media_type', 'the request is not of type application/json', {
        Connection: 'close',
      });
    const { most } = this.#room;
    let sent = 0;
    /** Why it is not kept. @type {Refusal | null} */
    let refusal = null;
    await new Promise((resolve, reject) => {
      request.on('data', (/** @type {Buffer} */ piece) => {
        sent += piece.length;
        if (sent > PATIENCE * most) request.destroy(tooLarge(most));
        try {
          if (sent > most) throw tooLarge(most);
          if (!refusal) this.#add(piece);
        } catch (error) {
          refusal = /** @type {Refusal} */ (error);
          this.release();
        }
      });
      request.once('end', () => (refusal ? reject(refusal) : resolve(undefined)));
      request.once('error', reject);
      request.once('close', () => reject(new Refusal(400, 'invalid_json', 'the request ended early')));
    });
  }

  /** @param {Buffer} piece */
  #add(piece) {
    this.#room.take(piece.length);
    const length = this.#length + piece.length;
    // Copied, since a piece of one byte keeps all of the socket's buffer.
    if (length > this.#bytes.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#bytes.length));
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#bytes = grown;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = length;
  }

  /**
   * What it says, read anew each time: objects take many times the bytes that they are written in, and a request that waits keeps
   * only these. Refusal: no JSON, no object, nested too deeply.
   * @returns {Record<string, any>}
   */
  parse() {
    const bytes = this.#bytes.subarray(0, this.#length);
    let body;
    try {
      checkDepth(bytes);
      body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw new Refusal(400, 'invalid_json', `the request is no JSON: ${/** @type {Error} */ (error).message}`);
    }
    if (typeof body !== 'object' || body === null || Array.isArray(body))
      throw new Refusal(400, 'invalid_json', 'the request is no JSON object');
    return body;
  }

  /** Its bytes are needed no more. */
  release() {
    this.#room.release(this.#length);
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }
}

const [QUOTE, BACKSLASH, OPEN_LIST, OPEN_OBJECT, SHUT_LIST, SHUT_OBJECT] = Buffer.from('"\\[{]}');

/** Refusal: more arrays and objects lie within each other than what reads them has a stack for. @param {Buffer} json */
function checkDepth(json) {
  let depth = 0;
  let isText = false;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i];
    if (isText) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) isText = true;
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++;
    else if (byte === SHUT_LIST || byte === SHUT_OBJECT) depth--;
    if (depth > DEEPEST)
      throw new Refusal(
        400,
        'invalid_json',
        `the request has more than ${DEEPEST} arrays and objects within each other`,
      );
  }
}
