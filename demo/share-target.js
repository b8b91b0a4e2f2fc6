/** What another app shares with the installed page, by the address that the manifest names: words to say, or a model's link. */
import { $, grow, message } from './page/page.js';

/** What a link to a model looks like. */
const MODEL = /^https?:\/\/\S+\.(gguf|bq4)(\?\S*)?$/;

/** Puts it where the person decides what becomes of it: nothing is sent or downloaded by itself. */
export function takeShared() {
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
  $('model-name').click(); // the list of models, where links are checked
  field.value = link;
  field.focus();
}
