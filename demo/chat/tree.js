/**
 * A conversation as a tree: what was edited or given anew stands beside what it replaced. A message names the one that it
 * follows, so two copies of a conversation are united by uniting their messages.
 */

/**
 * Why a reply is not complete: it is being written; it met the length limit; the context was full; the person stopped it; its tab
 * ended meanwhile.
 * @typedef {'writing' | 'length' | 'context' | 'stopped' | 'interrupted'} End
 */
/**
 * @typedef {object} Entry  a message
 * @property {string} id
 * @property {string | null} parent  the message before; null: it is the first
 * @property {'user' | 'assistant'} role
 * @property {string} content
 * @property {string} note       its figures, for people
 * @property {End} [end]         why a reply can be continued; absent: it is complete
 * @property {'bad'} [rating]    the person's mark
 * @property {string} [reasoning]  what the model thought first
 * @property {number[]} [tokens]  as they were generated; not stored
 * @property {import('./excerpts.js').Excerpt} [reads]  what the model reads in place of a message whose attachments are too long
 */

/** An attachment at the beginning of a message: its name, its fence, its text. */
export const ATTACHMENT = /^([^\n`]{1,200}):\n(`{3,})\n([^]*?)\n\2(?:\n+|$)/;

/** Whether a message begins with an attachment. @param {string} text */
export const hasAttachments = (text) => ATTACHMENT.test(text);

export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(36).padStart(2, '0')).join('');

/** The messages from the first to this one. @param {Entry[]} entries @param {string | null} leaf @returns {Entry[]} */
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

/** All that stand in the same place, this one included, the oldest first. @param {Entry[]} entries @param {Entry} entry */
export const versions = (entries, { parent, role }) =>
  entries.filter((other) => other.parent === parent && other.role === role);

/** The end of the newest branch from here on. @param {Entry[]} entries @param {string} id @returns {string} */
export function newestFrom(entries, id) {
  const seen = new Set([id]);
  for (let at = id; ;) {
    const next = entries.findLast(({ parent }) => parent === at);
    if (!next || seen.has(next.id)) return at;
    seen.add(next.id);
    at = next.id;
  }
}

/** Two copies as one. A message only grows, while it is written: of one that both have, the longer is the later, and of two of the same length the one that is not being written. @param {Entry[]} local @param {Entry[]} theirs */
export function united(local, theirs) {
  const others = new Map(theirs.map((entry) => [entry.id, entry]));
  const later = (/** @type {Entry} */ entry) => {
    const other = others.get(entry.id);
    others.delete(entry.id);
    const longer = (other?.content.length ?? 0) - entry.content.length;
    return other && (longer > 0 || (longer === 0 && entry.end === 'writing' && other.end !== 'writing'))
      ? other
      : entry;
  };
  return [...local.map(later), ...others.values()];
}

/**
 * What another tab's deletions leave of a copy: of messages that both have, the other knows which passages are left.
 * @param {Entry[]} local  changed @param {Entry[]} theirs @param {string[]} deleted  ids
 */
export function withoutDeleted(local, theirs, deleted) {
  const parents = new Map([...theirs, ...local].map(({ id, parent }) => [id, parent]));
  const others = new Map(theirs.map((entry) => [entry.id, entry]));
  for (const entry of local) {
    // Each deleted parent is followed once, so that a circle of parents ends.
    const unvisited = new Set(deleted);
    while (entry.parent !== null && unvisited.delete(entry.parent)) entry.parent = parents.get(entry.parent) ?? null;
    if (entry.reads && others.has(entry.id)) entry.reads = others.get(entry.id)?.reads;
  }
  return local.filter(({ id }) => !deleted.includes(id));
}
