/** What another app shares with the installed page, by the address that the manifest names: a text for a message, or a model's link. Loaded on demand. */
import { $, grow, message } from './page/page.js';

/** What a link to a model looks like. */
const MODEL = /^https?:\/\/\S+\.(gguf|bq4)(\?\S*)?$/;

/** Puts it into a field, where the person decides about it: nothing is sent or downloaded by itself. @param {() => Promise<void>} choose  shows the models */
export async function takeShared(choose) {
  const given = new URLSearchParams(location.search);
  const parts = ['title', 'text', 'url'].map((name) => given.get(name)?.trim() ?? '').filter(Boolean);
  if (!parts.length) return;
  history.replaceState(null, '', location.pathname); // a reload is no second share
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
