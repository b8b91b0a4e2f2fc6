/** Shows again the messages that a new version of an earlier message hides. Loaded on demand. */
import { showError, showNotice } from '../page/alerts.js';
import { say } from '../page/page.js';

/**
 * Explains in a notice where the hidden messages are, and offers to show them.
 * @param {string | null} leaf  the last hidden message
 * @param {import('./turn.js').Page} page
 * @param {() => Promise<void>} stop  stops the reply that is being written
 */
export function offerHidden(leaf, { current, showState }, stop) {
  const has = (/** @type {import('./tree.js').Entry[]} */ entries) => entries.some(({ id }) => id === leaf);
  // They are shown again if the reply was stopped before its first word. Another chat may be shown.
  if (has(current.path) || !has(current.conversation.entries)) return;
  const show = async () => {
    await stop();
    if (has(current.conversation.entries)) current.change({ leaf });
    say('The earlier version is shown.');
    await showState();
  };
  showNotice('The later messages are kept with the earlier version.', [
    { text: 'Show them', run: () => void show().catch(showError) },
  ]);
}
