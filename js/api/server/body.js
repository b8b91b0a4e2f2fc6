/** The body of a request: JSON of a bounded size and depth. All requests together hold a bounded number of bytes. */
import { Refusal } from './refusal.js';

/** @param {number} limit */
const tooLarge = (limit) => new Refusal(413, 'request_too_large', `the request has more than ${limit} bytes`);

/** Up to this many times the limit is read and dropped, so that the client can finish sending and read the answer. Then the connection ends. */
const MAX_DISCARDED_BODIES = 16;
/** Bodies of the largest size that fit into memory at once: of requests that arrive, wait or are answered. */
const MAX_BODIES = 16;
/** Largest nesting of arrays and objects. */
const MAX_DEPTH = 512;

/** The bytes that bodies of all requests may take together. */
export class BodyBudget {
  #freeBytes;

  /** @param {number} bodyLimit  bytes of one body */
  constructor(bodyLimit) {
    this.bodyLimit = bodyLimit;
    this.#freeBytes = MAX_BODIES * bodyLimit;
  }

  /** Refusal: other requests use all of it. @param {number} bytes */
  take(bytes) {
    if (bytes > this.#freeBytes)
      throw new Refusal(429, 'rate_limit_exceeded', 'other requests use all the memory for request bodies', {
        'Retry-After': '1',
      });
    this.#freeBytes -= bytes;
  }

  /** @param {number} bytes */
  release(bytes) {
    this.#freeBytes += bytes;
  }
}

/** The bytes of one request, which count in the budget until they are released. */
export class Body {
  #budget;
  /** Received bytes, and capacity for more. */
  #bytes = Buffer.alloc(0);
  #length = 0;

  /** @param {BodyBudget} budget */
  constructor(budget) {
    this.#budget = budget;
  }

  /** Reads a request. Refusal: not JSON, too large, or the budget is used up. @param {import('node:http').IncomingMessage} request */
  async read(request) {
    // A page of any origin may send a form or plain text without a CORS preflight, but not JSON.
    if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
      throw new Refusal(415, 'unsupported_media_type', 'expected a request of type application/json', {
        Connection: 'close',
      });
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    if (encoding.toLowerCase() !== 'identity')
      throw new Refusal(415, 'unsupported_media_type', 'expected a body without Content-Encoding', {
        'Accept-Encoding': 'identity',
        Connection: 'close',
      });
    const { bodyLimit } = this.#budget;
    let receivedBytes = 0;
    /** The reason why the body is dropped. @type {Refusal | null} */
    let refusal = null;
    await new Promise((resolve, reject) => {
      request.on('data', (/** @type {Buffer} */ piece) => {
        receivedBytes += piece.length;
        if (receivedBytes > MAX_DISCARDED_BODIES * bodyLimit) request.destroy(tooLarge(bodyLimit));
        try {
          if (receivedBytes > bodyLimit) throw tooLarge(bodyLimit);
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
    this.#budget.take(piece.length);
    const length = this.#length + piece.length;
    // Copied, because even a piece of one byte would keep the socket's whole buffer alive.
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = length;
  }

  /**
   * Parses the body, anew at each call: objects take many times the bytes of their JSON, and a request that waits keeps
   * only the bytes. Refusal: not JSON, not an object, or nested too deeply.
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
      throw new Refusal(400, 'invalid_json', `the request is not JSON: ${/** @type {Error} */ (error).message}`);
    }
    if (typeof body !== 'object' || body === null || Array.isArray(body))
      throw new Refusal(400, 'invalid_json', 'expected a JSON object');
    return body;
  }

  /** Frees the bytes. */
  release() {
    this.#budget.release(this.#length);
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }
}

const [QUOTE, BACKSLASH, OPEN_LIST, OPEN_OBJECT, SHUT_LIST, SHUT_OBJECT] = Buffer.from('"\\[{]}');

/** Refuses arrays and objects that are nested so deeply that a parser could run out of stack. @param {Buffer} json */
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
    if (depth > MAX_DEPTH)
      throw new Refusal(400, 'invalid_json', `expected at most ${MAX_DEPTH} nested arrays and objects, found more`);
  }
}
