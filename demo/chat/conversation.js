/** The conversation that this tab shows: its branch, its changes and how they are stored. */
import { empty, isEmpty, onOther, opened, read, remember, remove, save } from '../storage/local-storage.js';
import { withSummary } from './summary-prompt.js';
import { isWordless, mergeEntries, newestFrom, newId, pathTo, versions, withoutDeleted } from './tree.js';

/** @typedef {import('../storage/local-storage.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Entry} Entry */

/** Returns the name of the lock that a tab holds while it writes a reply of a conversation. @param {string} id */
export const writingLock = (id) => `bq4.writing.${id}`;

/**
 * Returns the ids of messages that another tab stored at the beginning of a turn and removed before the first word of the
 * reply.
 * @param {Entry[]} local @param {Entry[]} stored
 */
function takenBackTurn(local, stored) {
  const kept = new Set(stored.map(({ id }) => id));
  const missingEntries = local.filter(({ id }) => !kept.has(id));
  const replies = missingEntries.filter((entry) => entry.end === 'writing' && isWordless(entry));
  const questions = missingEntries.filter(({ id }) => {
    const next = local.filter(({ parent }) => parent === id);
    return next.length > 0 && next.every((entry) => replies.includes(entry));
  });
  return new Set([...replies, ...questions].map(({ id }) => id));
}

export class Current {
  /** @type {Conversation} */
  #conversation = opened();
  /** Ids of messages that this tab has withdrawn; copies in storage are ignored. @type {Set<string>} */
  #withdrawn = new Set();
  /**
   * Ids of messages that this tab has deleted (true) or restored (false). Another tab may overwrite that before it has
   * read it.
   * @type {Map<string, boolean>}
   */
  #deletions = new Map();
  /** Whether another tab has stored changes that this tab has not read. */
  #isBehind = false;
  #log;
  #onChange;

  /**
   * @param {import('./view.js').Log} log
   * @param {() => void} onChange  called for another conversation, and for changes of another tab
   * @param {() => boolean} busy  whether a reply is being written: changes of other tabs wait until it is complete
   */
  constructor(log, onChange, busy) {
    this.#log = log;
    this.#onChange = onChange;
    remember(this.#conversation.id);
    onOther((id) => {
      this.#isBehind ||= id === this.#conversation.id;
      if (!busy()) this.catchUp();
    });
  }

  get conversation() {
    return this.#conversation;
  }

  /** The messages shown, the first one first. */
  get path() {
    return pathTo(this.#conversation.entries, this.#conversation.leaf);
  }

  /**
   * Returns the index of the first message that the model reads, and the summary that it reads in place of the earlier
   * ones.
   * @param {Entry[]} path
   */
  reads(path) {
    const { from, summaries } = this.#conversation;
    const at = (/** @type {string | null} */ id) => path.findIndex((entry) => entry.id === id);
    const summary = summaries.findLast(({ upTo }) => at(upTo) >= 0) ?? null;
    return { summary, begin: Math.max(0, at(from), summary ? at(summary.upTo) + 1 : 0) };
  }

  /**
   * Returns the messages that the model reads of a branch.
   * @param {Entry[]} path
   * @param {boolean} hasSystem  whether the chat template supports a system prompt
   * @returns {import('../../js/shared/types.js').Message[]}
   */
  messages(path, hasSystem) {
    const { system } = this.#conversation;
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
    const { entries, from } = this.#conversation;
    const { path } = this;
    const { summary, begin } = this.reads(path);
    this.#log.show(path, (entry) => versions(entries, entry), path[begin]?.id === from ? from : null, summary);
  }

  /** Shows a conversation. @param {Conversation} [conversation]  default: a new one */
  open(conversation = empty()) {
    this.#conversation = conversation;
    this.#withdrawn.clear();
    this.#deletions.clear();
    remember(conversation.id);
    this.show();
    this.#onChange();
    void this.settle();
  }

  /**
   * Marks replies whose tab was closed while it wrote them (interrupted.js).
   * @returns {Promise<void>}
   */
  async settle() {
    const { id, entries } = this.#conversation;
    if (!entries.some(({ end }) => end === 'writing')) return;
    const { markInterrupted } = await import('./interrupted.js');
    if (this.#conversation.id !== id || !(await markInterrupted(this, writingLock(id)))) return;
    this.show();
    this.save();
    this.#onChange();
  }

  /**
   * Adds a message after the last one, or after `parent`.
   * @param {'user' | 'assistant'} role
   * @param {string} content
   * @param {string | null} [parent]
   */
  add(role, content, parent = this.#conversation.leaf) {
    const entry = { id: newId(), parent, role, content, note: '' };
    this.#conversation.entries.push(entry);
    this.#conversation.leaf = entry.id;
    this.show();
    return entry;
  }

  /**
   * Removes messages that were added by a failed turn.
   * @param {Entry[]} entries
   * @param {string | null} leaf  of the branch shown then
   */
  takeBack(entries, leaf) {
    for (const { id } of entries) this.#withdrawn.add(id);
    this.#conversation.entries = this.#conversation.entries.filter((entry) => !entries.includes(entry));
    this.#conversation.leaf = leaf;
    this.show();
  }

  /**
   * Deletes messages, or restores them.
   * @param {string[]} ids @param {boolean} isDeleted @param {Pick<Conversation, 'entries' | 'leaf'>} change
   */
  setDeleted(ids, isDeleted, change) {
    for (const id of ids) this.#deletions.set(id, isDeleted);
    const others = this.#conversation.deleted.filter((id) => !ids.includes(id));
    this.change({ ...change, deleted: isDeleted ? [...others, ...ids] : others });
    this.#onChange();
  }

  /**
   * Shows another version of a message and the messages after it.
   * @param {Entry} entry
   * @param {number} step  1: the next version, -1: the previous one
   */
  step(entry, step) {
    const all = versions(this.#conversation.entries, entry);
    const next = all[all.indexOf(entry) + step];
    if (!next) return;
    this.#conversation.leaf = newestFrom(this.#conversation.entries, next.id);
    this.show();
    this.save();
  }

  /**
   * Adds a summary of older messages, which stay unchanged.
   * @param {import('../storage/local-storage.js').Summary} summary
   */
  sumUp(summary) {
    this.change({ summaries: [...this.#conversation.summaries, summary] });
  }

  /** Removes the summary that is in use: the model reads the older messages again. */
  takeBackSummary() {
    const { summary } = this.reads(this.path);
    this.change({ summaries: this.#conversation.summaries.filter((one) => one !== summary) });
  }

  /** Ends a branch at this message. @param {string | null} id */
  endAt(id) {
    this.#conversation.leaf = id;
    this.show();
  }

  /** @param {Partial<Conversation>} change */
  change(change) {
    Object.assign(this.#conversation, change);
    this.show();
    this.save();
  }

  /**
   * Returns the ids of messages that this tab has deleted, or restored.
   * @param {string[]} ids
   * @param {boolean} isDeleted
   */
  #decided = (ids, isDeleted) => ids.filter((id) => this.#deletions.get(id) === isDeleted);

  /** Stores the conversation. @returns {boolean}  whether it is stored, or is empty and need not be */
  save() {
    const conversation = this.#conversation;
    if (isEmpty(conversation) && !conversation.deleted.length) {
      // Its only messages may be those of a turn that failed. Messages of another tab are not removed.
      if (!read(conversation.id)?.entries.some(({ id }) => !this.#withdrawn.has(id))) remove(conversation.id);
      return true;
    }
    conversation.at = Date.now();
    return save(conversation, this.#withdrawn, this.#decided([...this.#deletions.keys()], false));
  }

  /** Forgets the tokens of replies, which are only valid for the model that wrote them. */
  forgetTokens() {
    for (const entry of this.#conversation.entries) delete entry.tokens;
  }

  /**
   * Takes over what another tab has stored. If that tab continued the branch shown, its end is shown. Stores again what
   * it has overwritten.
   */
  catchUp() {
    const other = this.#isBehind && read(this.#conversation.id);
    this.#isBehind = false;
    if (!other) return;
    const local = this.#conversation;
    const takenBack = takenBackTurn(local.entries, other.entries);
    local.entries = local.entries.filter(({ id }) => !takenBack.has(id));
    const restored = this.#decided(other.deleted, false);
    const lost = this.#decided(local.deleted, true).filter((id) => !other.deleted.includes(id));
    if (lost.length) other.entries = withoutDeleted(other.entries, local.entries, lost);
    other.deleted = [...other.deleted.filter((id) => !restored.includes(id)), ...lost];
    const hasChanged = String(local.deleted) !== String(other.deleted);
    if (hasChanged) {
      // Deletions change the previous message of those that follow.
      const parents = new Map(other.entries.map(({ id, parent }) => [id, parent]));
      for (const entry of local.entries) entry.parent = parents.get(entry.id) ?? entry.parent;
    }
    const entries = mergeEntries(
      hasChanged ? withoutDeleted(local.entries, other.entries, other.deleted) : local.entries,
      other.entries.filter(({ id }) => !this.#withdrawn.has(id)),
    );
    const ends = entries.some(({ id }) => id === local.leaf);
    const further = !ends || pathTo(entries, other.leaf).some(({ id }) => id === local.leaf);
    this.#conversation = { ...other, entries, leaf: further ? other.leaf : local.leaf };
    const stored = new Map(other.entries.map(({ id, content }) => [id, content]));
    if (restored.length || lost.length || entries.some(({ id, content }) => stored.get(id) !== content)) this.save();
    this.show();
    this.#onChange();
  }
}
