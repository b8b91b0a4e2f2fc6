/**
 * Conversations as files: JSON contains all chats with all branches, Markdown the shown branch of one chat. Both can be
 * imported.
 */
import { trouble } from '../page/alerts.js';
import { conversationOf, empty, titleOf } from '../storage/local-storage.js';
import { excerptText, splitComposed } from './composed.js';
import { newId, pathTo } from './tree.js';

/** @typedef {import('../storage/local-storage.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Entry} Entry */

/** Headings of messages in Markdown. */
const SPEAKERS = { user: '## You', assistant: '## Model' };

/** Largest file that is imported, in bytes. */
const MAX_BYTES = 50e6;
/** Largest number of messages of an imported conversation: drawing more takes seconds, again after each reload. */
const MAX_MESSAGES = 2000;

/** @param {Conversation[]} all */
export const asJson = (all) =>
  `${JSON.stringify(
    {
      bq4_chats: 1,
      conversations: all.map((one) => ({
        ...one,
        entries: one.entries.map(({ tokens, ...entry }) => entry),
      })),
    },
    null,
    1,
  )}\n`;

/** @param {Conversation} one */
export function asMarkdown(one) {
  const messages = pathTo(one.entries, one.leaf).map(({ role, content }) => `${SPEAKERS[role]}\n\n${content.trim()}\n`);
  const report = one.system.trim() ? [`> ${one.system.trim().replaceAll('\n', '\n> ')}\n`] : [];
  return [`# ${titleOf(one)}\n`, ...report, ...messages].join('\n');
}

/** Returns a file name for a title. @param {string} title */
export const fileName = (title) =>
  title
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60) || 'chat';

/**
 * Reads the conversations of a file.
 * @param {File} file
 * @returns {Promise<Conversation[]>}  with new ids, so that stored ones stay
 */
export async function fromFile(file) {
  if (file.size > MAX_BYTES) throw unknown(file.name);
  const text = await file.text();
  const all = /\.json$/i.test(file.name) || text.trimStart().startsWith('{') ? ofJson(text) : ofMarkdown(text);
  if (!all.length) throw unknown(file.name);
  const long = all.find(({ entries }) => entries.length > MAX_MESSAGES);
  if (long)
    throw trouble(
      'TOO_LONG',
      `a conversation in ${file.name} has ${long.entries.length} messages: at most ${MAX_MESSAGES} are read`,
      'split it into several',
    );
  // The model's text is made again from the passages, which are shown: a file may contain another text.
  for (const { reads, content } of all.flatMap(({ entries }) => entries))
    if (reads) reads.text = excerptText(reads.passages, content);
  return all.map((one) => ({ ...one, id: newId() }));
}

/** @param {string} text @returns {Conversation[]} */
function ofJson(text) {
  try {
    const value = JSON.parse(text);
    const all = Array.isArray(value?.conversations) ? value.conversations : [];
    return all.map(conversationOf).filter((/** @type {Conversation | null} */ one) => one?.entries.length);
  } catch {
    return [];
  }
}

/** @param {string} text @returns {Conversation[]} */
function ofMarkdown(text) {
  const heading = /^## (You|Model)[ \t]*$/m;
  let remaining = text.replaceAll('\r\n', '\n');
  const first = heading.exec(remaining);
  const head = remaining.slice(0, first?.index);
  /** @type {Entry[]} */
  const entries = [];
  for (let found = first; found;) {
    const role = found[1] === 'You' ? 'user' : 'assistant';
    const body = remaining.slice(found.index + found[0].length).trimStart();
    // A heading in an attachment does not begin a message.
    remaining = role === 'user' ? splitComposed(body).text : body;
    const attachedLength = body.length - remaining.length;
    found = heading.exec(remaining);
    const content = body.slice(0, found ? attachedLength + found.index : undefined).trim();
    entries.push({ id: newId(), parent: entries.at(-1)?.id ?? null, role, content, note: '' });
  }
  if (!entries.length) return [];
  const title = /^# (.+)$/m.exec(head)?.[1].trim() ?? '';
  const system = [...head.matchAll(/^> ?(.*)$/gm)].map(([, line]) => line).join('\n');
  return [{ ...empty(), title, system, entries, leaf: entries.at(-1)?.id ?? null }];
}

/** @param {string} name */
const unknown = (name) =>
  trouble('NO_CHATS', `“${name}” isn't an exported chat`, 'choose a JSON or Markdown file that was exported here');
