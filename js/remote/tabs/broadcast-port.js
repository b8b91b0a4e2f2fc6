/** A way between two tabs: one end of a BroadcastChannel that only these two know, in the manner of a MessagePort. */

export class Way {
  #channel;
  #open = true;
  /** @type {((event: { data: any }) => void) | null} */
  onmessage = null;
  /** @type {((event: { message: string }) => void) | null} */
  onerror = null;
  /** @type {(() => void) | null} */
  onclose = null;
  /** The other end is there. */
  onready = () => {};
  /** Something came. */
  onsign = () => {};

  /** @param {string} name  that nobody else uses */
  constructor(name) {
    this.name = name;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = (/** @type {any} */ { data }) => {
      if (!this.#open) return;
      this.onsign();
      if (data.ready) this.onready();
      else if (data.over) this.#fail('the tab that leads could not read a message');
      else this.onmessage?.({ data });
    };
    // What can't be read here can't be answered: the other end is told.
    this.#channel.onmessageerror = () => {
      this.#channel.postMessage({ over: true });
      this.#fail('a message could not be read');
    };
  }

  /** @param {string} message */
  #fail(message) {
    this.onerror?.({ message });
  }

  /** Says that this end is there. */
  ready() {
    this.#channel.postMessage({ ready: true });
  }

  /** @param {any} message */
  postMessage({ flag: _shared, ...message }) {
    // Memory can't be shared with another tab: an abort comes as a message.
    if (this.#open) this.#channel.postMessage(message);
  }

  /** The other end is gone: who listens here hears of it. */
  end() {
    this.close();
    this.onclose?.();
  }

  close() {
    this.#open = false;
    this.#channel.close();
  }
}
