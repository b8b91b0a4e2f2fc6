/** Opens a chat at the message in which a search found its words, and marks these words. */
import { loadAttachments } from './composer.js';
import { hasAttachments, newestFrom, pathTo } from './tree.js';

/** @typedef {import('../storage/local-storage.js').Conversation} Conversation */

/** Name of the highlight in the style sheet. */
const HIGHLIGHT = 'found';

/**
 * Returns the message of a chat that contains a text, preferably one of the branch shown; undefined if no message contains it.
 * @param {Conversation} chat @param {string} query  in lower case
 */
export function messageWith({ entries, leaf }, query) {
  const has = (/** @type {import('./tree.js').Entry} */ { content }) => content.toLocaleLowerCase().includes(query);
  return pathTo(entries, leaf).find(has) ?? entries.find(has);
}

/** Returns the range of a text in an element; null if no text node contains all of it. @param {Node} root @param {string} query */
function rangeOf(root, query) {
  const nodes = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
    const start = (node.textContent ?? '').toLocaleLowerCase().indexOf(query);
    if (start < 0) continue;
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, Math.min(start + query.length, node.textContent?.length ?? 0)); // lower case may be longer
    return range;
  }
  return null;
}

const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve));

/**
 * Opens a chat at a message, which gets the focus.
 * @param {Conversation} chat
 * @param {import('./tree.js').Entry} entry
 * @param {string} query  text of the message, in lower case
 * @param {import('./chat-list.js').Page} page
 */
export async function openAt(chat, entry, query, { current, open, log }) {
  if (!pathTo(chat.entries, chat.leaf).includes(entry)) chat.leaf = newestFrom(chat.entries, entry.id);
  await open(chat);
  // The log scrolls to its end in the next frame; formatted messages and attachments are drawn when their modules are loaded.
  if (hasAttachments(entry.content)) await loadAttachments();
  await import('./markdown.js').catch(() => {});
  await nextFrame();
  await nextFrame();
  const at = current.path.indexOf(entry);
  log.focusAt(at, '');
  const root = document.activeElement;
  if (at < 0 || !root) return;
  /** @type {HTMLElement | null} */ (root.querySelector('[aria-label^="Show all"]'))?.click();
  const range = rangeOf(root, query);
  const place = range?.startContainer.parentElement ?? root;
  for (let details = place.closest('details'); details; details = details.parentElement?.closest('details') ?? null)
    details.open = true;
  place.scrollIntoView({ block: 'center' });
  if (!range || !CSS.highlights) return;
  CSS.highlights.set(HIGHLIGHT, new Highlight(range));
  const unmark = () => CSS.highlights.delete(HIGHLIGHT);
  for (const type of ['pointerdown', 'input']) addEventListener(type, unmark, { once: true });
}
