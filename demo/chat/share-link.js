/**
 * A chat as a link: the shown branch, compressed, after the # of this page's address. Browsers do not send this part to servers.
 * Loaded on demand.
 */
import { showNotice, trouble } from '../page/alerts.js';
import { conversationOf, empty, list } from '../storage/local-storage.js';
import { newId, pathTo } from './tree.js';

/** @typedef {import('../storage/local-storage.js').Conversation} Conversation */

const PREFIX = '#chat=';
/** Largest length of a link, in characters: browsers and messengers cut longer ones. */
const MAX_LINK = 60_000;
/** Largest number of bytes of a decompressed chat, and of its messages. */
const [MAX_BYTES, MAX_MESSAGES] = [2_000_000, 2000];

/** @param {Uint8Array} bytes */
const toBase64Url = (bytes) =>
  btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');

/** @param {string} text */
const fromBase64Url = (text) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));

/**
 * Reads a stream as text. Throws a RangeError if it has more than `most` bytes.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {number} most
 */
async function readAll(stream, most) {
  /** @type {Uint8Array[]} */
  const parts = [];
  let length = 0;
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(/** @type {BlobPart[]} */ (parts)).text();
    parts.push(value);
    length += value.length;
    if (length > most) throw new RangeError('too long');
  }
}

/** Returns the system prompt and the messages of the shown branch as JSON. @param {Conversation} chat */
const messagesOf = ({ system, entries, leaf }) =>
  JSON.stringify([system, pathTo(entries, leaf).map(({ role, content }) => [role, content])]);

/** @param {Conversation} chat @returns {Promise<string>} */
export async function linkTo(chat) {
  const messages = pathTo(chat.entries, chat.leaf).map(({ role, content }) => [role === 'user' ? 0 : 1, content]);
  const json = JSON.stringify({ title: chat.title, system: chat.system, messages });
  const packed = new Blob([json]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  const link = location.origin + location.pathname + PREFIX + toBase64Url(bytes);
  if (link.length > MAX_LINK)
    throw trouble(
      'TOO_LONG',
      `this chat is too long for a link: ${link.length} characters, at most ${MAX_LINK}`,
      'export it as a file',
    );
  return link;
}

/** @param {string} hash  of the page's address @returns {Promise<Conversation>}  a new one */
export async function chatOf(hash) {
  try {
    const bytes = fromBase64Url(hash.slice(PREFIX.length));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    const { title, system, messages } = JSON.parse(await readAll(stream, MAX_BYTES));
    if (!Array.isArray(messages) || !messages.length || messages.length > MAX_MESSAGES) throw new TypeError();
    /** @type {import('./tree.js').Entry[]} */
    const entries = [];
    for (const [role, content] of messages)
      entries.push({
        id: newId(),
        parent: entries.at(-1)?.id ?? null,
        role: role ? 'assistant' : 'user',
        content,
        note: '',
      });
    const chat = conversationOf({ ...empty(), title, system, entries, leaf: entries.at(-1)?.id, at: Date.now() });
    if (chat?.entries.length !== messages.length) throw new TypeError();
    return chat;
  } catch (error) {
    throw trouble(
      'NO_CHATS',
      'the link contains no readable chat',
      'ask for the link again: it may have been cut off',
      error,
    );
  }
}

/**
 * @param {string} hash  of the page's address
 * @param {(chat: Conversation) => Promise<void>} open
 * @param {import('./conversation.js').Current} current
 */
export async function openLink(hash, open, current) {
  history.replaceState(null, '', location.pathname + location.search); // so that a reload adds no second copy
  const chat = await chatOf(hash);
  const messages = messagesOf(chat);
  const stored = list().find((other) => messagesOf(other) === messages);
  await open(stored ?? chat);
  if (stored) return void showNotice('This chat is already stored in this browser.');
  current.save();
  showNotice('This chat came with the link. It is now stored in this browser, and was sent to no server.');
}
