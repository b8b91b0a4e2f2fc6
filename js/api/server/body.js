/** Reads request bodies: JSON of limited size and depth. The total number of bytes of all requests is limited too. */
import { Refusal } from './refusal.js';

/** @param {number} limit */
const tooLarge = (limit) => new Refusal(413, 'request_too_large', `the request has more than ${limit} bytes`);

/**
 * Largest size of a request whose body is read and discarded, as a multiple of the limit. This allows the client to
 * finish sending and to read the answer. Beyond it the connection is closed.
 */
const MAX_DISCARDED_BODIES = 16;
/**
 * Memory for all bodies of requests that arrive, wait or are being answered, as a multiple of the limit of one body.
 */
const MAX_BODIES = 16;
/** Largest depth of nested arrays and objects. */
const MAX_DEPTH = 512;

/** Memory budget for the bodies of all requests. */
export class BodyBudget {
  #freeBytes;

  /** @param {number} bodyLimit  largest number of bytes of one body */
  constructor(bodyLimit) {
    this.bodyLimit = bodyLimit;
    this.#freeBytes = MAX_BODIES * bodyLimit;
  }

  /** Reserves bytes. Throws a Refusal if other requests use the budget. @param {number} bytes */
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

/** The bytes of one request. They count in the budget until they are released. */
export class Body {
  #budget;
  /** Buffer with the received bytes and capacity for more. */
  #bytes = Buffer.alloc(0);
  #length = 0;

  /** @param {BodyBudget} budget */
  constructor(budget) {
    this.#budget = budget;
  }

  /**
   * Reads the body of a request. Throws a Refusal if its type is not JSON, if it is too large, or if the budget is used
   * up.
   * @param {import('node:http').IncomingMessage} request
   */
  async read(request) {
    // Without a CORS preflight, a page of another origin can send a form or plain text, but not JSON.
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
    /** Why the body is discarded; null if it is not. @type {Refusal | null} */
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
    // The bytes are copied, because even a piece of one byte would keep the socket's entire buffer alive.
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = length;
  }

  /**
   * Parses the body. Each call parses again, because objects take many times the memory of their JSON, and a waiting
   * request should only hold the bytes. Throws a Refusal if it is not JSON, not an object, or nested too deeply.
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

const [QUOTE, BACKSLASH, OPEN_LIST, OPEN_OBJECT, CLOSE_LIST, CLOSE_OBJECT] = Buffer.from('"\\[{]}');

/**
 * Throws a Refusal if arrays and objects are nested so deeply that a parser could run out of stack.
 * @param {Buffer} json
 */
function checkDepth(json) {
  let depth = 0;
  let isString = false;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i];
    if (isString) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) isString = false;
    } else if (byte === QUOTE) isString = true;
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth--;
    if (depth > MAX_DEPTH)
      throw new Refusal(400, 'invalid_json', `expected at most ${MAX_DEPTH} nested arrays and objects, found more`);
  }
}
