/**
 * The conversation on the page. What a model writes is untrusted: it only ever becomes text nodes.
 */

/** @typedef {import('./store.js').Entry} Entry */

/** How close to its end, in pixels, the log must be scrolled to follow what is written. */
const NEAR_END = 80;

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [className]
 * @param {string} [text]
 */
export function element(tag, className = '', text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

/** @param {string} text @param {string} label @param {() => void} onClick */
export function button(text, label, onClick) {
  const made = element('button', 'quiet', text);
  made.type = 'button';
  made.setAttribute('aria-label', label);
  made.addEventListener('click', onClick);
  return made;
}

/** One message. */
export class Message {
  #text = document.createTextNode('');
  #note;
  #log;

  /** @param {HTMLElement} log @param {Entry} entry @param {(entry: Entry) => void} onCopy */
  constructor(log, entry, onCopy) {
    const mine = entry.role === 'user';
    this.#log = log;
    this.entry = entry;
    this.root = element('article', `message ${entry.role}`);
    const body = element('p', 'text');
    body.append(this.#text);
    this.tools = element('div', 'tools');
    this.#note = element('span', 'note', entry.note);
    this.tools.append(button('Copy', mine ? 'Copy your message' : 'Copy the reply', () => onCopy(entry)), this.#note);
    this.root.append(element('h2', 'hidden-text', mine ? 'You' : 'Model'), body, this.tools);
    this.#text.data = entry.content;
  }

  /** @param {string} text */
  append(text) {
    this.entry.content += text;
    this.#text.appendData(text);
  }

  /** While it is written; a screen reader hears the whole at its end rather than every token. @param {boolean} writing */
  set writing(writing) {
    this.root.classList.toggle('writing', writing);
    this.#log.setAttribute('aria-busy', String(writing));
  }

  /** @param {string} note */
  set note(note) {
    this.entry.note = note;
    this.#note.textContent = note;
  }
}

export class Conversation {
  /** @type {Message[]} */
  #messages = [];
  #log;
  #onCopy;
  #again;
  /** The log stays at its end unless the person scrolled away from it. */
  #following = true;
  #scrolling = false;

  /**
   * @param {HTMLElement} log
   * @param {{ onCopy: (entry: Entry) => void, onRegenerate: () => void }} actions
   */
  constructor(log, { onCopy, onRegenerate }) {
    this.#log = log;
    this.#onCopy = onCopy;
    this.#again = button('Regenerate', 'Regenerate the reply', onRegenerate);
    log.addEventListener('scroll', () => {
      this.#following = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END;
    });
  }

  /** @returns {Entry[]} */
  get entries() {
    return this.#messages.map((m) => m.entry);
  }

  /** Shows a message at the end. @param {Entry} entry */
  add(entry) {
    const message = new Message(this.#log, entry, this.#onCopy);
    this.#messages.push(message);
    this.#log.append(message.root);
    this.#placeAgain();
    this.#following = true;
    this.follow();
    return message;
  }

  /** Scrolls to what was written, once per frame however many tokens came: a layout for each would cost more than they do. */
  follow() {
    if (this.#scrolling || !this.#following) return;
    this.#scrolling = true;
    requestAnimationFrame(() => {
      this.#scrolling = false;
      if (this.#following) this.#log.scrollTop = this.#log.scrollHeight;
    });
  }

  /** Takes messages off the end. @param {number} [n] */
  drop(n = 1) {
    for (const { root } of this.#messages.splice(-n)) root.remove();
    this.#placeAgain();
  }

  clear() {
    if (this.#messages.length) this.drop(this.#messages.length);
  }

  /** @param {boolean} can */
  set canRegenerate(can) {
    this.#again.disabled = !can;
  }

  /** Only the last reply can be given anew. */
  #placeAgain() {
    const last = this.#messages.at(-1);
    if (last?.entry.role === 'assistant') last.tools.firstElementChild?.after(this.#again);
    else this.#again.remove();
  }
}
