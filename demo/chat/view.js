/**
 * The conversation on the page. Text of a model is untrusted: here and in markdown.js it only becomes text nodes, never markup.
 */
import { Body } from './message-body.js';
import { loadAttachments } from './composer.js';
import { hasAttachments } from './tree.js';
import { showError } from '../page/alerts.js';
import { button, element } from '../page/element.js';
import { SummaryNote } from './summary-note.js';

/** @typedef {import('./tree.js').Entry} Entry */
/**
 * Actions for a message.
 * @typedef {object} Actions
 * @property {(entry: Entry, from: HTMLElement) => void} onCopy
 * @property {(entry: Entry) => void} onRegenerate
 * @property {() => void} onContinue
 * @property {(entry: Entry, text: string) => boolean} onEdit  returns false if the text cannot be sent now
 * @property {() => string} chatId  id of the conversation shown
 * @property {(entry: Entry, step: number) => void} onVersion  shows the version `step` places after this one
 * @property {(entry: Entry, menu: HTMLElement) => void} onMenu  fills in the menu of a message
 * @property {() => void} onSummarize
 * @property {() => void} onUndoSummary
 * @property {() => void} onSearchModel  loads the model that finds passages by meaning
 */

/** Distance in pixels from the end of the log within which it keeps scrolling to new text. */
const NEAR_END = 80;
/** Longer messages of the user, in characters, are folded. */
const MAX_UNFOLDED = 2000;

/** Labels of incomplete replies. @type {Partial<Record<NonNullable<Entry['end']>, string>>} */
const ENDS = {
  length: 'Stopped at the length limit',
  context: 'Stopped: too long for this model',
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
    this.tools.append(this.#versions, copy);
    this.again = button('Regenerate', 'Regenerate the reply', () => actions.onRegenerate(entry));
    this.tools.append(fromUser ? button('Edit', 'Edit your message', () => this.edit()) : this.again);
    this.tools.append(this.#menu(), this.#end, this.#note);
    this.root.append(element('h2', 'hidden-text', fromUser ? 'You' : 'Model'), this.#body.root, this.tools);
    this.#body.plain = fromUser;
    this.#body.show(entry.content, entry.reasoning);
    if (fromUser && hasAttachments(entry.content))
      void loadAttachments().then(({ showMessage }) => showMessage(this.#body.root, entry.content));
    this.#end.textContent = this.endWords;
    if (fromUser && entry.content.length > MAX_UNFOLDED && !hasAttachments(entry.content)) this.#fold();
  }

  /** Menu with further actions, filled when it is first opened. */
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

  /** Shows only the beginning of a long message, with a button that shows all of it. */
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

  /** Whether the message is being written. @param {boolean} writing */
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

  /** Reason why the message is incomplete; undefined if it is complete. @param {Entry['end']} end */
  set end(end) {
    if (end) this.entry.end = end;
    else delete this.entry.end;
    this.#end.textContent = this.endWords;
  }

  /** Label of an incomplete message; '' if it is complete or being written. */
  get endWords() {
    return ENDS[this.entry.end ?? 'writing'] ?? '';
  }

  /** The excerpt of the message that the model read; undefined if it read all of it. @param {Entry['reads']} reads */
  set reads(reads) {
    if (reads === this.#reads) return;
    this.#reads = reads;
    void import('./excerpt-view.js').then((view) => view.showExcerpt(this.root, reads, this.#actions.onSearchModel));
  }

  /**
   * Shows the buttons that switch between versions.
   * @param {number} at  index of this version
   * @param {number} of  number of versions
   */
  place(at, of) {
    if (of < 2) return this.#versions.replaceChildren();
    const step = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {number} */ by) => {
      const output = button(sign, label, () => this.#actions.onVersion(this.entry, by));
      output.disabled = at + by < 0 || at + by >= of;
      return output;
    };
    this.#versions.replaceChildren(
      step('‹', 'Previous version', -1),
      element('span', '', `Version ${at + 1} of ${of}`),
      step('›', 'Next version', 1),
    );
  }

  /**
   * Replaces the message with a field. When its text is sent, it becomes another version of the message.
   * @param {string} [draft]  text of an unsent edit
   */
  edit(draft) {
    void import('./message-editor.js').then(({ editMessage }) => {
      editMessage(this.root, this.#body.root, this.entry, this.#actions, draft);
    }, showError);
  }
}

export class Log {
  /** @type {Message[]} */
  #messages = [];
  #root;
  #actions;
  #more;
  #note;
  #divider = element('div', 'divider');
  #summarize;
  /** Whether the log scrolls to new text: false after the user scrolled away from its end. */
  #following = true;
  /** Last scroll position. */
  #top = 0;
  #scrolling = false;
  #latest = /** @type {HTMLElement} */ (document.getElementById('latest'));

  /** @param {HTMLElement} root @param {Actions} actions */
  constructor(root, actions) {
    this.#root = root;
    this.#actions = actions;
    this.#more = button('Continue', 'Continue the reply', actions.onContinue);
    this.#more.className = 'continue';
    this.#note = new SummaryNote(actions.onUndoSummary);
    this.#summarize = button('Summarize them', 'Summarize the messages above for the model', actions.onSummarize);
    this.#divider.append(element('p', '', 'The model no longer sees the messages above.'), this.#summarize);
    new ResizeObserver(() => this.follow()).observe(root);
    root.addEventListener('scroll', () => {
      // The event is late and more text may have arrived since, so only scrolling back stops the following.
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
   * Shows these messages. Elements of messages that are already shown are kept.
   * @param {Entry[]} entries @param {(entry: Entry) => Entry[]} versionsOf
   * @param {string | null} [from]  id of the first message that the model reads; null if it reads all
   * @param {import('../storage/local-storage.js').Summary | null} [summary]  read in place of the messages above it
   */
  show(entries, versionsOf, from = null, summary = null) {
    const same = entries.findIndex((entry, i) => this.#messages[i]?.entry !== entry);
    const kept = same < 0 ? entries.length : same;
    for (const { root } of this.#messages.splice(kept)) root.remove();
    for (const entry of entries.slice(kept)) {
      const message = new Message(this.#root, entry, this.#actions);
      this.#messages.push(message);
      this.#root.append(message.root);
      // What was above the message field may have disappeared: the position that the browser then corrects is not the user's.
      [this.#following, this.#top] = [true, 0];
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
    if (last?.entry.end && last.entry.end !== 'writing') last.again.after(this.#more);
    else this.#more.remove();
    if (summary) this.summed(summary.upTo, summary.text, false);
    else this.#note.root.remove();
    this.#latest.hidden = this.#following ||= !entries.length;
    this.follow();
  }

  /**
   * Shows the summary of the messages up to `upTo`.
   * @param {string} upTo
   * @param {string} text
   * @param {boolean} [writing]
   */
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

  /** Opens the editor of the user's last message. @returns {boolean}  whether there is one */
  editLast() {
    const message = this.#messages.findLast(({ entry }) => entry.role === 'user');
    message?.edit();
    return message !== undefined;
  }

  /**
   * Opens the editor of a message again, with the text of an unsent edit.
   * @param {ReturnType<typeof import('../storage/local-storage.js').editOf>} edit
   */
  restoreEdit(edit) {
    if (edit) this.#messages.find(({ entry }) => entry.id === edit.entry)?.edit(edit.text);
  }

  /**
   * Focuses the message at an index, or its button with this label if it has one.
   * @param {number} at
   * @param {string} label
   */
  focusAt(at, label) {
    const { root } = this.#messages[at] ?? {};
    const same = /** @type {HTMLButtonElement | null | undefined} */ (
      root?.querySelector(`[aria-label="${label}"]:not(:disabled)`)
    );
    (same ?? root)?.focus();
  }

  /** Removes all messages, so that the next `show` draws them with changed preferences. */
  redraw() {
    const messages = this.#messages.splice(0);
    for (const { root } of messages) root.remove();
  }

  /** Scrolls to new text, at most once per frame: a layout for each token would cost more than the token. */
  follow() {
    if (this.#scrolling || !this.#following) return;
    this.#scrolling = true;
    requestAnimationFrame(() => {
      this.#scrolling = false;
      if (!this.#following) return;
      this.#root.scrollTop = this.#root.scrollHeight;
      this.#top = this.#root.scrollTop;
    });
  }

  /** Whether a reply can be requested now. @param {boolean} can */
  set able(can) {
    this.#more.disabled = this.#summarize.disabled = !can;
    for (const { again } of this.#messages) again.disabled = !can;
    for (const edit of this.#root.querySelectorAll('.tools [aria-label^="Edit"], .versions button'))
      edit.toggleAttribute('data-idle', !can);
  }

  /** Returns the Regenerate button of the message at an index. @param {number} at */
  again(at) {
    return this.#messages[at]?.again;
  }
}
