/** The conversation that this tab shows: its branch, its changes, and its way into storage. */
import { draftOf, empty, isEmpty, onOther, opened, read, remember, save, saveDraft } from '../storage/local-storage.js';
import { withSummary } from './summary-prompt.js';
import { newestFrom, newId, pathTo, united, versions, withoutDeleted } from './tree.js';

/** @typedef {import('../storage/local-storage.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Entry} Entry */

/** Held by the tab that writes a reply of a conversation. @param {string} id */
export const writingLock = (id) => `bq4.writing.${id}`;

export class Current {
  /** @type {Conversation} */
  #it = opened();
  /** Messages that were taken back here, whatever another tab has. @type {Set<string>} */
  #gone = new Set();
  /** Messages that were deleted in this tab (true) or restored: a tab that has not read of it may overwrite it. @type {Map<string, boolean>} */
  #deletions = new Map();
  /** Another tab has written. */
  #behind = false;
  #log;
  #onChange;

  /**
   * @param {import('./view.js').Log} log
   * @param {() => void} onChange  another conversation, or what another tab wrote
   * @param {() => boolean} busy  a reply is being written: changes of other tabs wait until it is complete
   */
  constructor(log, onChange, busy) {
    this.#log = log;
    this.#onChange = onChange;
    remember(this.#it.id);
    onOther((id) => {
      this.#behind ||= id === this.#it.id;
      if (!busy()) this.catchUp();
    });
  }

  get it() {
    return this.#it;
  }

  /** What is shown, from the first message on. */
  get path() {
    return pathTo(this.#it.entries, this.#it.leaf);
  }

  /** Where the model begins to read a branch word for word, and what it reads in place of what stands before. @param {Entry[]} path */
  reads(path) {
    const { from, summaries } = this.#it;
    const at = (/** @type {string | null} */ id) => path.findIndex((entry) => entry.id === id);
    const summary = summaries.findLast(({ upTo }) => at(upTo) >= 0) ?? null;
    return { summary, begin: Math.max(0, at(from), summary ? at(summary.upTo) + 1 : 0) };
  }

  /** What the model reads of a branch. @param {Entry[]} path @param {boolean} hasSystem  its chat template has a place for a system prompt @returns {import('../../js/shared/types.js').Message[]} */
  messages(path, hasSystem) {
    const { system } = this.#it;
    const { summary, begin } = this.reads(path);
    const messages = path.slice(begin).map(({ role, content, reads, tokens }) => ({
      role,
      content: reads?.text ?? content,
      ...(tokens && { tokens }),
    }));
    if (summary && messages.length) messages[0].content = withSummary(summary.text, messages[0].content);
    return hasSystem && system.trim() ? [{ role: 'system', content: system.trim() }, ...messages] : messages;
  }

  show() {
    const { entries, from } = this.#it;
    const { path } = this;
    const { summary, begin } = this.reads(path);
    this.#log.show(path, (entry) => versions(entries, entry), path[begin]?.id === from ? from : null, summary);
  }

  /** @param {Conversation} [conversation]  none: a new one */
  open(conversation = empty()) {
    this.#it = conversation;
    this.#gone.clear();
    this.#deletions.clear();
    remember(conversation.id);
    this.show();
    this.#onChange();
    void this.settle();
  }

  /**
   * Marks replies whose tab ended while it wrote them. Of one without a word nothing stays, and its message is a draft again. A tab
   * that is writing holds a lock.
   * @returns {Promise<void>}
   */
  async settle() {
    const it = this.#it;
    if (!it.entries.some(({ end }) => end === 'writing')) return;
    const { held = [] } = (await navigator.locks?.query()) ?? {};
    if (it !== this.#it || held.some(({ name }) => name === writingLock(it.id))) return;
    const cut = it.entries.filter(({ end }) => end === 'writing');
    const blank = cut.filter(({ content, reasoning }) => !content && !reasoning);
    for (const entry of cut) entry.end = 'interrupted';
    for (const entry of blank) {
      const asked = it.entries.find(({ id }) => id === entry.parent);
      const alone = asked && versions(it.entries, entry).length === 1;
      const leaf = alone ? asked.parent : entry.parent;
      if (alone && it.leaf === entry.id && !draftOf(it.id)) saveDraft(it.id, asked.content);
      this.takeBack(alone ? [entry, asked] : [entry], it.leaf === entry.id ? leaf : it.leaf);
    }
    this.show();
    this.save();
    this.#onChange();
  }

  /** Shows a message after the last one, or after another. @param {'user' | 'assistant'} role @param {string} content @param {string | null} [parent] */
  add(role, content, parent = this.#it.leaf) {
    const entry = { id: newId(), parent, role, content, note: '' };
    this.#it.entries.push(entry);
    this.#it.leaf = entry.id;
    this.show();
    return entry;
  }

  /** As it was before these messages. @param {Entry[]} entries @param {string | null} leaf */
  takeBack(entries, leaf) {
    for (const { id } of entries) this.#gone.add(id);
    this.#it.entries = this.#it.entries.filter((entry) => !entries.includes(entry));
    this.#it.leaf = leaf;
    this.show();
  }

  /**
   * Deletes messages, or restores them.
   * @param {string[]} ids @param {boolean} isDeleted @param {Pick<Conversation, 'entries' | 'leaf'>} change
   */
  setDeleted(ids, isDeleted, change) {
    for (const id of ids) this.#deletions.set(id, isDeleted);
    const others = this.#it.deleted.filter((id) => !ids.includes(id));
    this.change({ ...change, deleted: isDeleted ? [...others, ...ids] : others });
    this.#onChange();
  }

  /** Another version of a message, and what followed it. @param {Entry} entry @param {number} step */
  step(entry, step) {
    const all = versions(this.#it.entries, entry);
    const next = all[all.indexOf(entry) + step];
    if (!next) return;
    this.#it.leaf = newestFrom(this.#it.entries, next.id);
    this.show();
    this.save();
  }

  /** @param {import('../storage/local-storage.js').Summary} summary  of older turns, which stay as they are */
  sumUp(summary) {
    this.change({ summaries: [...this.#it.summaries, summary] });
  }

  /** What it stood for is read again. */
  takeBackSummary() {
    const { summary } = this.reads(this.path);
    this.change({ summaries: this.#it.summaries.filter((one) => one !== summary) });
  }

  /** Ends a branch at this message. @param {string | null} id */
  endAt(id) {
    this.#it.leaf = id;
    this.show();
  }

  /** @param {Partial<Conversation>} change */
  change(change) {
    Object.assign(this.#it, change);
    this.show();
    this.save();
  }

  /** Of some messages those that were deleted or restored here. @param {string[]} ids @param {boolean} isDeleted */
  #decided = (ids, isDeleted) => ids.filter((id) => this.#deletions.get(id) === isDeleted);

  /** @returns {boolean}  whether it was kept; an empty one needn't be */
  save() {
    const it = this.#it;
    if (isEmpty(it) && !it.deleted.length) return true;
    it.at = Date.now();
    return save(it, this.#gone, this.#decided([...this.#deletions.keys()], false));
  }

  /** Tokens of another model mean nothing to this one. */
  forgetTokens() {
    for (const entry of this.#it.entries) delete entry.tokens;
  }

  /** What another tab has added; if it went on from here, so does this one. What it has overwritten is stored again. */
  catchUp() {
    const other = this.#behind && read(this.#it.id);
    this.#behind = false;
    if (!other) return;
    const local = this.#it;
    const restored = this.#decided(other.deleted, false);
    const lost = this.#decided(local.deleted, true).filter((id) => !other.deleted.includes(id));
    if (lost.length) other.entries = withoutDeleted(other.entries, local.entries, lost);
    other.deleted = [...other.deleted.filter((id) => !restored.includes(id)), ...lost];
    const hasChanged = String(local.deleted) !== String(other.deleted);
    if (hasChanged) {
      // What was deleted or restored there decides what stands behind what.
      const parents = new Map(other.entries.map(({ id, parent }) => [id, parent]));
      for (const entry of local.entries) entry.parent = parents.get(entry.id) ?? entry.parent;
    }
    const entries = united(
      hasChanged ? withoutDeleted(local.entries, other.entries, other.deleted) : local.entries,
      other.entries.filter(({ id }) => !this.#gone.has(id)),
    );
    const ends = entries.some(({ id }) => id === local.leaf);
    const further = !ends || pathTo(entries, other.leaf).some(({ id }) => id === local.leaf);
    this.#it = { ...other, entries, leaf: further ? other.leaf : local.leaf };
    const stored = new Map(other.entries.map(({ id, content }) => [id, content]));
    if (restored.length || lost.length || entries.some(({ id, content }) => stored.get(id) !== content)) this.save();
    this.show();
    this.#onChange();
  }
}
