/**
 * What a reload keeps: the conversation and the settings, in localStorage. What lies there may be from another
 * version, from another program or damaged: each part is checked, and what isn't understood counts as absent.
 */

const VERSION = 1;
const CHAT = 'bq4.chat';
const SETTINGS = 'bq4.settings';

/** A message as it is kept and shown. @typedef {{ role: 'user' | 'assistant', content: string, note: string }} Entry */

/** @param {string} key @returns {any} */
function read(key) {
  try {
    const value = JSON.parse(localStorage.getItem(key) ?? 'null');
    return value?.version === VERSION ? value : null;
  } catch {
    return null;
  }
}

/** @param {string} key @param {object} value @returns {boolean} whether it was kept: storage can be full or refused */
function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify({ version: VERSION, ...value }));
    return true;
  } catch {
    return false;
  }
}

/** @returns {Entry[]} */
export function loadConversation() {
  const messages = read(CHAT)?.messages;
  /** @type {Entry[]} */
  const entries = [];
  for (const m of Array.isArray(messages) ? messages : []) {
    // The first strange one ends it: what follows would answer something else.
    if (!(m?.role === 'user' || m?.role === 'assistant') || typeof m.content !== 'string') break;
    entries.push({ role: m.role, content: m.content, note: typeof m.note === 'string' ? m.note : '' });
  }
  return entries;
}

/** @param {Entry[]} messages */
export const saveConversation = (messages) => write(CHAT, { messages });

/** @returns {Record<string, unknown>} */
export function loadSettings() {
  const values = read(SETTINGS)?.values;
  return values && typeof values === 'object' ? values : {};
}

/** @param {object} values */
export const saveSettings = (values) => write(SETTINGS, { values });
