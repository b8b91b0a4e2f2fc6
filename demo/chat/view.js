/**
 * The conversation on the page. What a model writes is untrusted: it only ever becomes text nodes, here and in markdown.js.
 */
import { Body } from './message-body.js';
import { loadAttachments } from './composer.js';
import { hasAttachments } from './tree.js';
import { showError } from '../page/alerts.js';
import { button, element } from '../page/element.js';
import { SummaryNote } from './summary-note.js';

/** @typedef {import('./tree.js').Entry} Entry */
/**
 * What can be done with a message.
 * @typedef {object} Actions
 * @property {(entry: Entry, from: HTMLElement) => void} onCopy
 * @property {() => void} onRegenerate
 * @property {() => void} onContinue
 * @property {(entry: Entry, text: string) => boolean} onEdit  false: it can't be sent now
 * @property {(entry: Entry, step: number) => void} onVersion  shows the version that is so many places further
 * @property {(entry: Entry, menu: HTMLElement) => void} onMenu  fills in the menu of a message
 * @property {() => void} onSummarize
 * @property {() => void} onUndoSummary
 * @property {() => void} onSearchModel  loads the model that finds passages by meaning
 */

/** How close to its end, in pixels, the log must be scrolled to follow what is written. */
const NEAR_END = 80;
/** Characters of a message of the person that is folded. */
const LONG = 2000;

/** Why a reply is not complete. @type {Partial<Record<NonNullable<Entry['end']>, string>>} */
const ENDS = {
  length: 'Stopped at the length limit',
  context: 'Ran out of room',
  stopped: 'Stopped',
  interrupted: 'Interrupted',
};

/** One message. */
export class Message {
  #log;
  #actions;
  #body = new Body();
  #end = element('span', 'end');
  #note;
  #versions = element('span', 'versions');
  /** @type {Entry['reads']} */
  #reads;

  /** @param {HTMLElement} log @param {Entry} entry @param {Actions} actions */
  constructor(log, entry, actions) {
    const fromUser = entry.role === 'user';
    this.#log = log;
    this.#actions = actions;
    this.entry = entry;
    this.root = element('article', `message ${entry.role}`);
    this.root.tabIndex = -1;
    this.tools = element('div', 'tools');
    this.#note = element('span', 'note', entry.note);
    const copy = button('Copy', fromUser ? 'Copy your message' : 'Copy the reply', () => actions.onCopy(entry, copy));
    this.tools.append(copy);
    if (fromUser) this.tools.append(button('Edit', 'Edit your message', () => this.edit()));
    this.tools.append(this.#versions, this.#menu(), this.#end, this.#note);
    this.root.append(element('h2', 'hidden-text', fromUser ? 'You' : 'Model'), this.#body.root, this.tools);
    this.#body.plain = fromUser;
    this.#body.show(entry.content, entry.reasoning);
    if (fromUser && hasAttachments(entry.content))
      void loadAttachments().then(({ showMessage }) => showMessage(this.#body.root, entry.content));
    this.#end.textContent = ENDS[entry.end ?? 'writing'] ?? '';
    if (fromUser && entry.content.length > LONG && !hasAttachments(entry.content)) this.#fold();
  }

  /** More that can be done with it, made when it is opened. */
  #menu() {
    const menu = element('div', 'menu');
    const details = element('details', 'message-menu');
    const summary = element('summary', '', '⋯');
    summary.setAttribute('aria-label', `More for ${this.entry.role === 'user' ? 'your message' : 'the reply'}`);
    details.append(summary, menu);
    details.addEventListener('toggle', () => {
      if (details.open && !menu.firstChild) this.#actions.onMenu(this.entry, menu);
    });
    return details;
  }

  /** A long message shows its beginning, until the person wants all of it. */
  #fold() {
    const { root } = this.#body;
    root.classList.add('folded');
    const more = button('Show all', 'Show all of your message', () => {
      const folded = root.classList.toggle('folded');
      more.textContent = folded ? 'Show all' : 'Show less';
    });
    this.tools.prepend(more);
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

  /** Why it is not complete; undefined: it is. @param {Entry['end']} end */
  set end(end) {
    if (end) this.entry.end = end;
    else delete this.entry.end;
    this.#end.textContent = ENDS[end ?? 'writing'] ?? '';
  }

  /** What the model read of it; undefined: all. @param {Entry['reads']} reads */
  set reads(reads) {
    if (reads === this.#reads) return;
    this.#reads = reads;
    void import('./excerpt-view.js').then((view) => view.showExcerpt(this.root, reads, this.#actions.onSearchModel));
  }

  /** Which of its versions it is. @param {number} at @param {number} of */
  place(at, of) {
    if (of < 2) return this.#versions.replaceChildren();
    const step = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {number} */ by) => {
      const output = button(sign, label, () => this.#actions.onVersion(this.entry, by));
      output.disabled = at + by < 0 || at + by >= of;
      return output;
    };
    this.#versions.replaceChildren(
      step('‹', 'Previous version', -1),
      element('span', '', `${at + 1} of ${of}`),
      step('›', 'Next version', 1),
    );
  }

  /** A field in the place of the message; sent, it is another version of it. */
  edit() {
    void import('./message-editor.js').then(({ editMessage }) => {
      editMessage(this.root, this.#body.root, this.entry, this.#actions.onEdit);
    }, showError);
  }
}

export class Log {
  /** @type {Message[]} */
  #messages = [];
  #root;
  #actions;
  #again;
  #more;
  #note;
  #divider = element('div', 'divider');
  #summarize;
  /** The log stays at its end unless the person scrolled away from it. */
  #following = true;
  /** Where it was scrolled to last. */
  #top = 0;
  #scrolling = false;
  #latest = /** @type {HTMLElement} */ (document.getElementById('latest'));

  /** @param {HTMLElement} root @param {Actions} actions */
  constructor(root, actions) {
    this.#root = root;
    this.#actions = actions;
    this.#again = button('Regenerate', 'Regenerate the reply', actions.onRegenerate);
    this.#more = button('Continue', 'Continue the reply', actions.onContinue);
    this.#more.className = 'continue';
    this.#note = new SummaryNote(actions.onUndoSummary);
    this.#summarize = button('Summarize them', 'Summarize the messages above for the model', actions.onSummarize);
    this.#divider.append(element('p', '', 'The model no longer sees the messages above.'), this.#summarize);
    new ResizeObserver(() => this.follow()).observe(root);
    root.addEventListener('scroll', () => {
      // The event comes late, when more may have been written: only scrolling back leaves the end.
      if (root.scrollHeight - root.scrollTop - root.clientHeight < NEAR_END) this.#following = true;
      else if (root.scrollTop < this.#top) this.#following = false;
      this.#top = root.scrollTop;
      this.#latest.hidden = this.#following;
    });
    this.#latest.addEventListener('click', () => {
      this.#following = true;
      this.#latest.hidden = true;
      this.follow();
      root.focus();
    });
  }

  /** Whether the model can write summaries. @param {boolean} can */
  set summarizes(can) {
    this.#summarize.hidden = !can;
  }

  /**
   * Shows these messages; what was shown before and is among them stays as it is.
   * @param {Entry[]} entries @param {(entry: Entry) => Entry[]} versionsOf
   * @param {string | null} [from]  the first message that the model is given, if not all
   * @param {import('../storage/local-storage.js').Summary | null} [summary]  given in place of the messages above it
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
      message.end = message.entry.end;
      message.reads = message.entry.reads;
    }
    const first = this.#messages.find(({ entry }) => entry.id === from)?.root;
    if (first && first !== this.#messages[0].root) first.before(this.#divider);
    else this.#divider.remove();
    const { last } = this;
    const reply = last?.entry.role === 'assistant' ? last : undefined;
    // An element that is moved loses the keyboard.
    if (!reply) this.#again.remove();
    else if (this.#again.parentElement !== reply.tools) reply.tools.firstElementChild?.after(this.#again);
    if (reply?.entry.end && reply.entry.end !== 'writing') this.#again.after(this.#more);
    else this.#more.remove();
    if (summary) this.summed(summary.upTo, summary.text, false);
    else this.#note.root.remove();
    this.#latest.hidden = this.#following;
    this.follow();
  }

  /** The summary of the messages up to this one. @param {string} upTo @param {string} text @param {boolean} [writing] */
  summed(upTo, text, writing = true) {
    const { root } = this.#note;
    const above = this.#messages.find(({ entry }) => entry.id === upTo)?.root;
    if (above && above.nextElementSibling !== root) above.after(root);
    if (root.nextElementSibling === this.#divider) this.#divider.remove();
    this.#note.show(text, writing);
    if (writing) root.scrollIntoView({ block: 'nearest' });
  }

  get last() {
    return this.#messages.at(-1);
  }

  /** Opens the editor of the last message of the person. @returns {boolean}  whether there is one */
  editLast() {
    const message = this.#messages.findLast(({ entry }) => entry.role === 'user');
    message?.edit();
    return message !== undefined;
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
    this.#again.disabled = this.#more.disabled = this.#summarize.disabled = !can;
    for (const edit of this.#root.querySelectorAll('.tools [aria-label^="Edit"], .versions button'))
      edit.toggleAttribute('data-idle', !can);
  }

  /** Where the keyboard is to go on: the button for another reply. */
  get again() {
    return this.#again;
  }
}
