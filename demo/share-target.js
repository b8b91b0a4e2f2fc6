/**
 * Receives what another app shares with the installed page: a text for a message, or a link to a model. It arrives in the address
 * that the manifest specifies. Loaded on demand.
 */
import { $, grow, message } from './page/page.js';

/** Matches links to models. */
const MODEL = /^https?:\/\/\S+\.(gguf|bq4)(\?\S*)?$/;

/**
 * Fills a field with the shared text or link; nothing is sent or downloaded without the user.
 * @param {() => Promise<void>} choose  shows the models
 */
export async function takeShared(choose) {
  const query = new URLSearchParams(location.search);
  const parts = ['title', 'text', 'url'].map((name) => query.get(name)?.trim() ?? '').filter(Boolean);
  if (!parts.length) return;
  history.replaceState(null, '', location.pathname); // so that a reload does not share it again
  const link = parts.find((part) => MODEL.test(part));
  if (!link) {
    message.value = [...new Set(parts)].join('\n');
    return grow();
  }
  const field = /** @type {HTMLInputElement} */ ($('link'));
  await choose();
  field.value = link;
  field.focus();
}
