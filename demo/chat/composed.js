/** Attachments within a message: a message begins with them, each as a name and a code block. Loaded on demand. */
import { ATTACHMENT, pathTo } from './tree.js';

/** @typedef {import('./tree.js').Entry} Entry */
/** @typedef {{ name: string, text: string }} Attachment */

/**
 * Returns an attachment as a name and a code block, whose fence is longer than any in the text.
 * @param {Attachment} attachment
 */
export function blockOf({ name, text }) {
  let longest = 2;
  for (const [ticks] of text.matchAll(/`+/g)) longest = Math.max(longest, ticks.length);
  const fence = '`'.repeat(longest + 1);
  return `${name}:\n${fence}\n${text}\n${fence}\n\n`;
}

/**
 * Splits a message into its attachments and the text after them.
 * @param {string} composed
 * @returns {{ attachments: Attachment[], text: string }}
 */
export function splitComposed(composed) {
  /** @type {Attachment[]} */
  const attachments = [];
  let text = composed;
  for (let found; (found = ATTACHMENT.exec(text));) {
    attachments.push({ name: found[1], text: found[3] });
    text = text.slice(found[0].length);
  }
  return { attachments, text };
}

/**
 * Returns the text that a model reads in place of a message with long attachments: passages of each file, then the message's own text.
 * @param {import('./excerpts.js').Passage[]} passages @param {string} content
 */
export function excerptText(passages, content) {
  let blocks = '';
  for (let i = 0; i < passages.length;) {
    const { file, document } = passages[i];
    const parts = [];
    for (; passages[i]?.file === file && passages[i].document === document; i++)
      parts.push(`[${passages[i].place}]\n${passages[i].text}`);
    blocks += blockOf({ name: `${file}, passages`, text: parts.join('\n\n') });
  }
  return blocks + splitComposed(content).text;
}

/** @param {Entry[]} entries */
const documentsOf = (entries) =>
  entries.flatMap(({ content }) => splitComposed(content).attachments).map(({ text }) => text);

/**
 * Returns messages without the passages whose attachments are in deleted messages.
 * @param {Entry[]} entries @param {Entry[]} removed @returns {Entry[]}
 */
export function withoutPassages(entries, removed) {
  const deleted = documentsOf(removed);
  if (!deleted.length) return entries;
  return entries.map((entry) => {
    const { reads, ...others } = entry;
    if (!reads) return entry;
    const present = documentsOf(pathTo(entries, entry.id));
    const passages = reads.passages.filter(
      ({ text }) => present.some((one) => one.includes(text)) || !deleted.some((one) => one.includes(text)),
    );
    if (passages.length === reads.passages.length) return entry;
    return passages.length
      ? { ...others, reads: { ...reads, passages, text: excerptText(passages, entry.content) } }
      : others;
  });
}
