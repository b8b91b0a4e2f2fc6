/**
 * A call that is answered over a port, with the flow control of its parts: the reader grants a number of parts, confirms
 * those that it has read, and may leave.
 */
import { BqError, unpackError } from '../../shared/errors.js';
import { WINDOW } from '../../shared/protocol.js';

/** @import { Generation } from '../../shared/generation.js' */

export class RunningCall {
  #port;
  #id;
  #controller = new AbortController();
  /** Number of parts that may be sent before a grant. */
  #window = WINDOW;
  /** Number of parts that the reader has confirmed as read. */
  #confirmedCount = -1;
  /** Number of parts that the reader had read when it left; null: it has not left. @type {number | null} */
  #readCount = null;
  #isClosed = false;
  /** Continues a generation that waits for its reader. */
  #wake = () => {};

  /**
   * @param {any} port @param {number} id
   * @param {number | string} target  number of the object of the call, or of the object that it has created
   */
  constructor(port, id, target) {
    this.#port = port;
    this.#id = id;
    this.target = target;
  }

  /** Aborts when the caller aborts, or when the engine is closed. */
  get signal() {
    return this.#controller.signal;
  }

  /** Posts a message about the call. @param {object} message */
  post(message) {
    this.#port.postMessage({ id: this.#id, ...message });
  }

  /** Handles an abort, a confirmation or a grant of the reader. @param {any} message */
  receive({ abort, readCount, synced, grant }) {
    if (abort) {
      this.#readCount = readCount ?? Infinity;
      this.#controller.abort(unpackError(abort));
    } else if (grant) this.#window += grant;
    else this.#confirmedCount = synced;
    if (!grant || this.#window > 0) this.#wake();
  }

  /** Wakes a generation that waits for its reader, so that it notices that its object is closed. */
  release() {
    this.#window = Infinity;
    this.#wake();
  }

  /** Aborts the call, because the engine is closed. */
  close() {
    this.#isClosed = true;
    this.#controller.abort(new BqError('CLOSED', 'the engine was closed'));
    this.release();
  }

  #waitForReader() {
    return new Promise((resolve) => (this.#wake = () => resolve(undefined)));
  }

  /**
   * Sends the parts of a generation and returns its result.
   * @param {Generation} generation
   * @param {Int32Array} [flag]  shared memory: whether the reader has left (1), and the number of parts that it had read
   */
  async stream(generation, flag) {
    let sentCount = 0;
    const readCount = () => this.#readCount ?? (flag && Atomics.load(flag, 0) ? Atomics.load(flag, 1) : null);
    generation.readBy({
      get readCount() {
        return readCount();
      },
      caughtUp: async () => {
        this.post({ sync: sentCount });
        while (this.#confirmedCount < sentCount && this.#readCount === null && this.#window < Infinity)
          await this.#waitForReader();
      },
    });
    try {
      for await (const part of generation) {
        sentCount++;
        this.post({ part });
        if (--this.#window === 0) await this.#waitForReader();
      }
    } catch (error) {
      if (this.#isClosed) throw error;
    }
    return await generation.result;
  }
}
