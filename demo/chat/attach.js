/** Text files that become part of the message: each under its name, as a block of code. Loaded on demand. */
import { showNotice } from '../page/alerts.js';
import { grow, message, say } from '../page/page.js';

/** A file larger than this is no text that a small model could be given. */
const MAX_BYTES = 2e6;

/** @param {File[]} files */
export async function attach(files) {
  for (const file of files) {
    const text = file.size <= MAX_BYTES ? await file.text() : '';
    if (!text.trim() || text.includes('\0')) {
      showNotice(`“${file.name}” isn't a text file that can be attached.`);
      continue;
    }
    // A longer fence than any in the text.
    const fence = '`'.repeat(Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length)) + 1);
    message.value = `${message.value.replace(/\n*$/, message.value && '\n\n')}${file.name}:\n${fence}\n${text.trimEnd()}\n${fence}\n`;
    say(`${file.name} is attached.`);
  }
  grow();
  message.dispatchEvent(new Event('input', { bubbles: true }));
  message.focus();
}
