/**
 * A conversation as a tree: an edited message or a regenerated reply is a sibling of the version that it replaced. Each message has
 * the id of the previous one, so two copies of a conversation are merged by merging their messages.
 */

/**
 * Why a reply is incomplete: it is being written; it reached the length limit; the context was full; the user stopped it; its tab was
 * closed.
 * @typedef {'writing' | 'length' | 'context' | 'stopped' | 'interrupted'} End
 */
/**
 * @typedef {object} Entry  a message
 * @property {string} id
 * @property {string | null} parent  id of the previous message; null for the first one
 * @property {'user' | 'assistant'} role
 * @property {string} content
 * @property {string} note       speed of the reply, to be shown
 * @property {End} [end]         why a reply is incomplete; absent if it is complete
 * @property {'bad'} [rating]    the user's rating
 * @property {string} [reasoning]  the model's reasoning before its answer
 * @property {number[]} [tokens]  generated tokens; not stored
 * @property {import('./excerpts.js').Excerpt} [reads]  excerpt that the model reads in place of a message with long attachments
 */

/** An attachment at the beginning of a message: its name, its fence, its text. */
export const ATTACHMENT = /^([^\n`]{1,200}):\n(`{3,})\n([^]*?)\n\2(?:\n+|$)/;

/** Whether a message begins with an attachment. @param {string} text */
export const hasAttachments = (text) => ATTACHMENT.test(text);

export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(36).padStart(2, '0')).join('');

/**
 * Returns the messages from the first to `leaf`.
 * @param {Entry[]} entries
 * @param {string | null} leaf
 * @returns {Entry[]}
 */
export function pathTo(entries, leaf) {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  /** @type {Set<Entry>} */
  const path = new Set();
  for (let at = leaf; at !== null;) {
    const entry = byId.get(at);
    if (!entry || path.has(entry)) break;
    path.add(entry);
    at = entry.parent;
  }
  return [...path].reverse();
}

/**
 * Returns all versions of a message, itself included, the oldest first.
 * @param {Entry[]} entries
 * @param {Entry} entry
 */
export const versions = (entries, { parent, role }) =>
  entries.filter((other) => other.parent === parent && other.role === role);

/**
 * Returns the id of the last message of the newest branch below a message.
 * @param {Entry[]} entries
 * @param {string} id
 * @returns {string}
 */
export function newestFrom(entries, id) {
  const seen = new Set([id]);
  for (let at = id; ;) {
    const next = entries.findLast(({ parent }) => parent === at);
    if (!next || seen.has(next.id)) return at;
    seen.add(next.id);
    at = next.id;
  }
}

/** Replies that this tab is writing, or continues: their stored copies are older. @type {WeakSet<Entry>} */
export const writtenHere = new WeakSet();

/**
 * Merges two copies of a conversation. Messages only grow, so of two copies of a message the longer one is newer; of two with the same
 * length the one that is no longer being written is newer.
 * @param {Entry[]} local @param {Entry[]} theirs
 */
export function mergeEntries(local, theirs) {
  const others = new Map(theirs.map((entry) => [entry.id, entry]));
  const later = (/** @type {Entry} */ entry) => {
    const other = others.get(entry.id);
    others.delete(entry.id);
    const longer = (other?.content.length ?? 0) - entry.content.length;
    const hasEnded = entry.end === 'writing' && other?.end !== 'writing' && !writtenHere.has(entry);
    return other && (longer > 0 || (longer === 0 && hasEnded)) ? other : entry;
  };
  return [...local.map(later), ...others.values()];
}

/**
 * Removes messages that another tab has deleted from a copy, and takes over the excerpts of that tab's messages.
 * @param {Entry[]} local  its entries are changed @param {Entry[]} theirs @param {string[]} deleted  ids
 */
export function withoutDeleted(local, theirs, deleted) {
  const parents = new Map([...theirs, ...local].map(({ id, parent }) => [id, parent]));
  const others = new Map(theirs.map((entry) => [entry.id, entry]));
  for (const entry of local) {
    // Each deleted parent is followed once, so that a cycle of parents ends.
    const unvisited = new Set(deleted);
    while (entry.parent !== null && unvisited.delete(entry.parent)) entry.parent = parents.get(entry.parent) ?? null;
    if (entry.reads && others.has(entry.id)) entry.reads = others.get(entry.id)?.reads;
  }
  return local.filter(({ id }) => !deleted.includes(id));
}

/** Whether a reply has no word yet, neither text nor reasoning. @param {Entry} entry */
export const isWordless = ({ content, reasoning }) => !content && !reasoning;
