/**
 * A port between two tabs, with the interface of a MessagePort. It is one end of a BroadcastChannel that only these
 * tabs use.
 */

export class BroadcastPort {
  #channel;
  #isOpen = true;
  /** @type {((event: { data: any }) => void) | null} */
  onmessage = null;
  /** @type {((event: { message: string }) => void) | null} */
  onerror = null;
  /** @type {(() => void) | null} */
  onclose = null;
  /** Called when the other end is ready. */
  onReady = () => {};
  /** Called for every message, which shows that the other end is alive. */
  onSign = () => {};

  /** @param {string} name  unique among the channels of the origin */
  constructor(name) {
    this.name = name;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = (/** @type {any} */ { data }) => {
      if (!this.#isOpen) return;
      this.onSign();
      if (data.ready) this.onReady();
      else if (data.over) this.#fail('the leading tab could not read a message');
      else this.onmessage?.({ data });
    };
    // A message that can't be read has no answer, so the other end is informed.
    this.#channel.onmessageerror = () => {
      this.#channel.postMessage({ over: true });
      this.#fail('a message could not be read');
    };
  }

  /** @param {string} message */
  #fail(message) {
    this.onerror?.({ message });
  }

  /** Announces that this end is ready. */
  ready() {
    this.#channel.postMessage({ ready: true });
  }

  /** @param {any} message */
  postMessage({ flag: _shared, ...message }) {
    // Memory can't be shared with another tab, so aborts are sent as messages.
    if (this.#isOpen) this.#channel.postMessage(message);
  }

  /** Closes the port because the other tab was closed, and calls `onclose`. */
  end() {
    this.close();
    this.onclose?.();
  }

  close() {
    this.#isOpen = false;
    this.#channel.close();
  }
}
