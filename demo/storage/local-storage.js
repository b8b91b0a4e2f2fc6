/**
 * Data that survives a reload, in localStorage: conversations, each under its own key, and settings. Stored data may come from
 * another version or another program, or be damaged: each part is checked, and invalid parts count as absent.
 */
import { ATTACHMENT, mergeEntries, newId, withoutDeleted } from '../chat/tree.js';

/** @typedef {import('../chat/tree.js').Entry} Entry */

/**
 * A summary that the model wrote of all messages up to and including the one with id `upTo`.
 * @typedef {{ upTo: string, text: string }} Summary
 */
/**
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title      name given by the user; '' if none: its first words are shown instead
 * @property {number} at         time of the last change, in milliseconds since 1970
 * @property {Entry[]} entries   messages of all branches
 * @property {string[]} deleted  ids of messages that were deleted in any tab
 * @property {string | null} leaf  id of the last message of the branch shown
 * @property {string | null} from  id of the first message that the model reads; null if it reads all
 * @property {Summary[]} summaries  the last one that ends on the branch shown is read in place of the messages up to there
 * @property {string} system     system prompt
 * @property {Record<string, unknown> | null} sampling  settings chosen for it; null for the settings used last
 */

const VERSION = 2;
const CHAT = 'bq4.chat.';
const SETTINGS = 'bq4.settings';
const LOOKS = 'bq4.looks';
/** Prefix of the keys of unsent messages. */
const DRAFT = 'bq4.draft.';
/** Prefix of the keys of unsent edits. */
export const EDIT = 'bq4.edit.';
const ENDS = ['writing', 'length', 'context', 'stopped', 'interrupted'];
/** Ways to choose passages (excerpts.js). */
const CHOICES = ['meaning', 'words', 'start'];
/** Key in sessionStorage: the conversation of this tab. */
const OPEN = 'bq4.open';

/** Returns a stored value; null if it is invalid. @param {string | null} text @returns {any} */
export function parsed(text) {
  try {
    const value = JSON.parse(text ?? 'null');
    return value?.version === VERSION ? value : null;
  } catch {
    return null;
  }
}

/**
 * Runs an access to storage.
 * @template T
 * @param {() => T} work
 * @param {T} otherwise  returned if storage is blocked or full
 * @returns {T}
 */
export function allowed(work, otherwise) {
  try {
    return work();
  } catch {
    return otherwise;
  }
}

/**
 * @param {string} key
 * @param {object} value
 * @returns {boolean} whether it was stored: storage can be full or blocked
 */
export const write = (key, value) =>
  allowed(() => (localStorage.setItem(key, JSON.stringify({ version: VERSION, ...value })), true), false);

/** @param {any} value @returns {string} */
const text = (value) => (typeof value === 'string' ? value : '');

/**
 * Returns the excerpt that the model read in place of a message, if it is valid.
 * @param {any} m
 * @returns {Pick<Entry, 'reads'>}
 */
function readsOf({ role, reads }) {
  const { passages, by, of, offer } = Object(reads);
  const isShown =
    role === 'user' &&
    text(reads?.text) &&
    Array.isArray(passages) &&
    passages.every((one) => ['file', 'place', 'text'].every((key) => typeof one?.[key] === 'string')) &&
    CHOICES.includes(by) &&
    Number.isSafeInteger(of);
  return isShown ? { reads: { text: reads.text, passages, by, of, offer: offer === true } } : {};
}

/** @param {any} m @returns {Entry | null} */
function entryOf(m) {
  if (!(m?.role === 'user' || m?.role === 'assistant') || typeof m.content !== 'string' || typeof m.id !== 'string')
    return null;
  if (!(m.parent === null || typeof m.parent === 'string')) return null;
  return {
    id: m.id,
    parent: m.parent,
    role: m.role,
    content: m.content,
    note: text(m.note),
    ...(text(m.reasoning) && { reasoning: m.reasoning }),
    ...(ENDS.includes(m.end) && { end: m.end }),
    ...readsOf(m),
    ...(m.rating === 'bad' && { rating: /** @type {'bad'} */ ('bad') }),
  };
}

/** @returns {Conversation} */
export const empty = () => ({
  id: newId(),
  title: '',
  at: Date.now(),
  entries: [],
  deleted: [],
  leaf: null,
  from: null,
  summaries: [],
  system: '',
  sampling: null,
});

/**
 * Returns the valid parts of a stored or imported conversation; null if it is invalid.
 * @param {any} value
 * @returns {Conversation | null}
 */
export function conversationOf(value) {
  if (!value || typeof value !== 'object' || !Array.isArray(value.entries)) return null;
  /** @type {Entry[]} */
  const entries = value.entries.map(entryOf).filter(Boolean);
  const ids = new Set(entries.map(({ id }) => id));
  const has = (/** @type {any} */ id) => ids.has(id);
  const leaf = has(value.leaf) ? value.leaf : (entries.at(-1)?.id ?? null);
  const settings = Object.entries(Object(value.sampling)).filter(([, setting]) => typeof setting !== 'object');
  const sampling = settings.length ? Object.fromEntries(settings) : null;
  return {
    ...empty(),
    ...(text(value.id) && { id: value.id }),
    title: text(value.title),
    system: text(value.system),
    entries,
    deleted: Array.isArray(value.deleted) ? value.deleted.filter(text) : [],
    leaf,
    sampling,
    from: has(value.from) ? value.from : null,
    summaries: (Array.isArray(value.summaries) ? value.summaries : [])
      .filter((/** @type {any} */ one) => has(one?.upTo) && text(one.text))
      .map((/** @type {Summary} */ { upTo, text }) => ({ upTo, text })),
    at: Number.isFinite(value.at) ? value.at : 0,
  };
}

/** @param {string} id @returns {Conversation | null} */
export function read(id) {
  const found = conversationOf(parsed(allowed(() => localStorage.getItem(CHAT + id), null)));
  return found && { ...found, id };
}

/** Whether a conversation has nothing to be listed for. @param {Conversation} conversation */
export const isEmpty = ({ entries, title, system }) => !entries.length && !title && !system;

/** Returns all stored conversations, the last changed one first. */
export function list() {
  const keys = allowed(() => Object.keys(localStorage), []);
  const all = keys.filter((key) => key.startsWith(CHAT)).map((key) => read(key.slice(CHAT.length)));
  return all
    .filter((one) => one !== null)
    .filter((one) => !isEmpty(one))
    .sort((a, b) => b.at - a.at);
}

/**
 * Stores a conversation. Messages that another tab has added or deleted meanwhile stay so, except those in `removedHere` and `restored`.
 * @param {Conversation} conversation @param {Set<string>} [removedHere]  ids of messages @param {string[]} [restored]  ids of messages
 * @returns {boolean}  whether it was stored
 */
export function save(conversation, removedHere = new Set(), restored = []) {
  const { entries, deleted, leaf } = read(conversation.id) ?? empty();
  const before = conversation.deleted;
  const added = deleted.filter((id) => !before.includes(id) && !restored.includes(id));
  conversation.deleted = [...before, ...added];
  const local = added.length ? withoutDeleted(conversation.entries, entries, added) : conversation.entries;
  // Messages added by the other tab may follow messages deleted in this one.
  const others = withoutDeleted(entries, local, conversation.deleted);
  conversation.entries = mergeEntries(
    local,
    others.filter(({ id }) => !removedHere.has(id)),
  );
  const has = (/** @type {string | null} */ entryId) => conversation.entries.some(({ id }) => id === entryId);
  if (conversation.leaf !== null && !has(conversation.leaf))
    conversation.leaf = has(leaf) ? leaf : (conversation.entries.at(-1)?.id ?? null);
  return write(CHAT + conversation.id, {
    ...conversation,
    entries: conversation.entries.map(({ tokens, ...entry }) => entry),
  });
}

/** Removes a conversation and its unsent edit. @param {string} id */
export const remove = (id) =>
  allowed(() => [CHAT, EDIT].forEach((prefix) => localStorage.removeItem(prefix + id)), undefined);

/** Returns the unsent message of a conversation. @param {string} id */
export const draftOf = (id) => allowed(() => localStorage.getItem(DRAFT + id), null) ?? '';

/** Stores the unsent message of a conversation. @param {string} id @param {string} text  '' removes it */
export const saveDraft = (id, text) =>
  allowed(() => (text ? localStorage.setItem(DRAFT + id, text) : localStorage.removeItem(DRAFT + id)), undefined);

/**
 * Returns the unsent edit of a message in a conversation; null if there is none.
 * @param {string} id
 * @returns {{ entry: string, text: string } | null}  `entry`: id of the message
 */
export function editOf(id) {
  const edit = parsed(allowed(() => localStorage.getItem(EDIT + id), null));
  return text(edit?.entry) && typeof edit.text === 'string' ? { entry: edit.entry, text: edit.text } : null;
}

/** Calls `onChange` when another tab has changed or deleted a conversation. @param {(id: string) => void} onChange */
export const onOther = (onChange) =>
  addEventListener('storage', ({ key }) => {
    if (key?.startsWith(CHAT)) onChange(key.slice(CHAT.length));
  });

/** Returns the conversation that this tab showed last; in a new tab, the last changed one. @returns {Conversation} */
export function opened() {
  const id = allowed(() => sessionStorage.getItem(OPEN), null);
  return (id === null ? list()[0] : read(id)) ?? { ...empty(), ...(id !== null && { id }) };
}

/** Remembers the conversation that this tab shows, for a reload. @param {string} id */
export const remember = (id) => allowed(() => sessionStorage.setItem(OPEN, id), undefined);

/** Returns the title of a conversation: its name, else its first words. @param {Conversation} conversation */
export function titleOf({ title, entries }) {
  let text = entries.find(({ role }) => role === 'user')?.content.trim() ?? '';
  const file = ATTACHMENT.exec(text)?.[1];
  while (ATTACHMENT.test(text)) text = text.replace(ATTACHMENT, '');
  const first = text.trim().split('\n', 1)[0] || file || '';
  return title || (first.length > 60 ? `${first.slice(0, 60).trimEnd()}…` : first) || 'New chat';
}

/** @returns {Record<string, unknown>} */
export function loadSettings() {
  const values = parsed(allowed(() => localStorage.getItem(SETTINGS), null))?.values;
  return values && typeof values === 'object' ? values : {};
}

/** @param {object} values */
export const saveSettings = (values) => write(SETTINGS, { values });

/** Returns the preferences for showing messages. @returns {{ plain?: unknown, size?: unknown }} */
export const loadLooks = () => parsed(allowed(() => localStorage.getItem(LOOKS), null)) ?? {};

/** @param {{ plain: boolean, size: string }} looks */
export const saveLooks = (looks) => write(LOOKS, looks);
