/**
 * The conversation on the page. What a model writes is untrusted: it only ever becomes text nodes, here and in markdown.js.
 */
import { Body } from './message-body.js';
import { button, element } from '../page/element.js';
import { SummaryNote } from './summary-note.js';

/** @typedef {import('./tree.js').Entry} Entry */
/**
 * What can be done with a message.
 * @typedef {object} Actions
 * @property {(entry: Entry) => void} onCopy
 * @property {() => void} onRegenerate
 * @property {(entry: Entry, text: string) => void} onEdit
 * @property {(entry: Entry, step: number) => void} onVersion  shows the one that stands so many places on
 * @property {() => void} onUndoSummary
 */

/** How close to its end, in pixels, the log must be scrolled to follow what is written. */
const NEAR_END = 80;

/** One message. */
export class Message {
  #log;
  #actions;
  #body = new Body();
  #note;
  #versions = element('span', 'versions');

  /** @param {HTMLElement} log @param {Entry} entry @param {Actions} actions */
  constructor(log, entry, actions) {
    const mine = entry.role === 'user';
    this.#log = log;
    this.#actions = actions;
    this.entry = entry;
    this.root = element('article', `message ${entry.role}`);
    this.root.tabIndex = -1;
    this.tools = element('div', 'tools');
    this.#note = element('span', 'note', entry.note);
    this.tools.append(button('Copy', mine ? 'Copy your message' : 'Copy the reply', () => actions.onCopy(entry)));
    if (mine) this.tools.append(button('Edit', 'Edit your message', () => this.#edit()));
    this.tools.append(this.#versions, this.#note);
    this.root.append(element('h2', 'hidden-text', mine ? 'You' : 'Model'), this.#body.root, this.tools);
    this.#body.plain = mine;
    this.#body.show(entry.content, entry.reasoning);
  }

  /** @param {{ text: string, reasoning?: string }} part */
  append({ text, reasoning }) {
    this.entry.content += text;
    if (reasoning) this.entry.reasoning = (this.entry.reasoning ?? '') + reasoning;
    this.#body.show(this.entry.content, this.entry.reasoning, true);
  }

  /** While it is written. @param {boolean} writing */
  set writing(writing) {
    this.root.classList.toggle('writing', writing);
    this.#log.setAttribute('aria-busy', String(writing));
    if (!writing) this.#body.show(this.entry.content, this.entry.reasoning);
  }

  /** @param {string} note */
  set note(note) {
    this.entry.note = note;
    this.#note.textContent = note;
  }

  /** Which of its versions it is. @param {number} at @param {number} of */
  place(at, of) {
    if (of < 2) return this.#versions.replaceChildren();
    const step = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {number} */ by) => {
      const made = button(sign, label, () => this.#actions.onVersion(this.entry, by));
      made.disabled = at + by < 0 || at + by >= of;
      return made;
    };
    this.#versions.replaceChildren(
      step('‹', 'Version before', -1),
      element('span', '', `${at + 1} of ${of}`),
      step('›', 'Next version', 1),
    );
  }

  /** A field in the place of what is said; sent, it is another version of it. */
  #edit() {
    const form = element('form', 'edit');
    const field = element('textarea');
    field.value = this.entry.content;
    field.setAttribute('aria-label', 'Your message, anew');
    const end = () => {
      form.replaceWith(this.#body.root);
      this.root.classList.remove('editing');
      /** @type {HTMLElement | null} */ (this.tools.querySelector('[aria-label^="Edit"]'))?.focus();
    };
    const send = button('Send', 'Send it anew', () => {
      const text = field.value;
      end();
      if (text.trim()) this.#actions.onEdit(this.entry, text);
    });
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') end();
      else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send.click();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    form.append(field, send, button('Cancel', 'Cancel', end));
    this.#body.root.replaceWith(form);
    this.root.classList.add('editing');
    field.style.height = `${field.scrollHeight + 2}px`;
    field.focus();
  }
}

export class Log {
  /** @type {Message[]} */
  #messages = [];
  #root;
  #actions;
  #again;
  #note;
  /** The log stays at its end unless the person scrolled away from it. */
  #following = true;
  /** Where it was scrolled to last. */
  #top = 0;
  #scrolling = false;

  /** @param {HTMLElement} root @param {Actions} actions */
  constructor(root, actions) {
    this.#root = root;
    this.#actions = actions;
    this.#again = button('Regenerate', 'Regenerate the reply', actions.onRegenerate);
    this.#note = new SummaryNote(actions.onUndoSummary);
    new ResizeObserver(() => this.follow()).observe(root);
    root.addEventListener('scroll', () => {
      // It is told late, when more may have been written: only who goes back leaves the end.
      if (root.scrollHeight - root.scrollTop - root.clientHeight < NEAR_END) this.#following = true;
      else if (root.scrollTop < this.#top) this.#following = false;
      this.#top = root.scrollTop;
    });
  }

  /**
   * Shows these messages; what was shown before and is among them stays as it is.
   * @param {Entry[]} entries @param {(entry: Entry) => Entry[]} versionsOf
   * @param {string | null} [from]  the first one that the model reads, if not all
   * @param {import('../storage/local-storage.js').Summary | null} [summary]  read in place of what stands above it
   */
  show(entries, versionsOf, from = null, summary = null) {
    const same = entries.findIndex((entry, i) => this.#messages[i]?.entry !== entry);
    const kept = same < 0 ? entries.length : same;
    for (const { root } of this.#messages.splice(kept)) root.remove();
    for (const entry of entries.slice(kept)) {
      const message = new Message(this.#root, entry, this.#actions);
      this.#messages.push(message);
      this.#root.append(message.root);
      this.#following = true;
    }
    for (const message of this.#messages) {
      const all = versionsOf(message.entry);
      message.place(all.indexOf(message.entry), all.length);
      message.root.classList.toggle('first-read', message.entry.id === from && message !== this.#messages[0]);
    }
    const last = this.last;
    if (last?.entry.role === 'assistant') last.tools.firstElementChild?.after(this.#again);
    else this.#again.remove();
    if (summary) this.summed(summary.upTo, summary.text, false);
    else this.#note.root.remove();
    this.follow();
  }

  /** What the messages up to this one are summed up to. @param {string} upTo @param {string} text @param {boolean} [writing] */
  summed(upTo, text, writing = true) {
    const { root } = this.#note;
    const above = this.#messages.find(({ entry }) => entry.id === upTo)?.root;
    if (above && above.nextElementSibling !== root) above.after(root);
    this.#note.show(text, writing);
    if (writing) root.scrollIntoView({ block: 'nearest' });
  }

  get last() {
    return this.#messages.at(-1);
  }

  /** The keyboard goes on in what stands at this place now. @param {number} at @param {string} label  of a button that it may have */
  focusAt(at, label) {
    const { root } = this.#messages[at] ?? {};
    const same = /** @type {HTMLButtonElement | null | undefined} */ (
      root?.querySelector(`[aria-label="${label}"]:not(:disabled)`)
    );
    (same ?? root)?.focus();
  }

  /** All texts anew: how they are shown has changed. */
  redraw() {
    const messages = this.#messages.splice(0);
    for (const { root } of messages) root.remove();
  }

  /** Scrolls to what was written, once per frame however many tokens came: a layout for each would cost more than they do. */
  follow() {
    if (this.#scrolling || !this.#following) return;
    this.#scrolling = true;
    requestAnimationFrame(() => {
      this.#scrolling = false;
      if (this.#following) this.#root.scrollTop = this.#root.scrollHeight;
    });
  }

  /** Whether replies can be asked for. @param {boolean} can */
  set able(can) {
    this.#again.disabled = !can;
    for (const edit of this.#root.querySelectorAll('.tools [aria-label^="Edit"], .versions button'))
      edit.toggleAttribute('data-idle', !can);
  }

  /** Where the keyboard is to go on: the button for another reply. */
  get again() {
    return this.#again;
  }
}
