/**
 * Attached files and texts: as chips above the message field, and in messages of the log. Loaded with the first
 * attachment.
 */
import { showNotice } from '../page/alerts.js';
import { decodeText } from '../page/decode-text.js';
import { button, element } from '../page/element.js';
import * as format from '../page/format.js';
import { grow, message, say } from '../page/page.js';
import { blockOf, splitComposed } from './composed.js';

/** @typedef {import('./composed.js').Attachment} Attachment */

/**
 * Characters of one attachment: the browser's storage has room for ten such texts. Longer ones are cut, with a notice.
 */
const MAX_CHARACTERS = 500_000;
/** Largest text file that can be attached, in bytes. */
const MAX_BYTES = 20e6;
/** Largest number of files whose reasons are shown at once. */
const MAX_REPORTS = 3;

/** @type {Attachment[]} */
let attached = [];
const list = element('ul', 'attachments');
list.setAttribute('aria-label', 'Attachments');
list.hidden = true;
/** Line with the name of the file that is being read, and a button that stops it. */
const reading = element('p', 'hint reading');
reading.hidden = true;
message.before(list, reading);
/** Each aborts the reading of files that were chosen together. @type {Set<AbortController>} */
const readings = new Set();

export const isReading = () => readings.size > 0;

/** Stops reading files, because another chat is shown: they were chosen for the message of the previous one. */
export function stopReading() {
  for (const controller of readings) controller.abort();
}

/** @param {string} text */
export const withAttachments = (text) => attached.map(blockOf).join('') + text;

/** @param {Attachment} attachment */
const sizeOf = ({ text }) => format.counted(text.split(/\s+/).length, 'word');

function draw() {
  list.replaceChildren(
    ...attached.map((attachment) => {
      const chip = element('li', 'attachment');
      chip.append(
        element('b', '', attachment.name),
        element('small', '', sizeOf(attachment)),
        button('×', `Remove ${attachment.name}`, () => {
          change(attached.filter((other) => other !== attachment));
          message.focus();
        }),
      );
      chip.title = attachment.text.slice(0, 400);
      return chip;
    }),
  );
  list.hidden = !attached.length;
}

/** @param {Attachment[]} next */
function change(next) {
  attached = next;
  draw();
  grow();
  message.dispatchEvent(new Event('input', { bubbles: true })); // stores the draft
}

/** Replaces text and attachments of the message. @param {string} composed */
export function showComposed(composed) {
  const { attachments, text } = splitComposed(composed);
  attached = attachments;
  message.value = text;
  draw();
  grow();
}

/** Returns a name that no other attachment has. @param {string} name */
function freeName(name) {
  const clean = name.replace(/[\n`]/g, ' ').slice(0, 190);
  let free = clean;
  for (let n = 2; attached.some((other) => other.name === free); n++) free = `${clean} (${n})`;
  return free;
}

/** Reasons why files were not, or not completely, attached. @type {string[]} */
let reports = [];
/** The notice with the reports. @type {HTMLElement | null} */
let notice = null;

/** Adds a reason to the notice. @param {string} text */
function report(text) {
  reports.push(text);
  const count = reports.length - MAX_REPORTS;
  const summary = count > 0 ? ` ${format.counted(count, 'more file')} could not be attached completely.` : '';
  notice = showNotice(reports.slice(0, MAX_REPORTS).join(' ') + summary);
}

/** Removes the notice about files that were chosen before. */
function forgetReports() {
  reports = [];
  notice?.remove();
}

/** Attaches a pasted text. @param {string} name @param {string} text */
export function attachText(name, text) {
  forgetReports();
  const trimmed = text.trim();
  if (trimmed) add(name, trimmed);
  else report(`“${name}” is empty.`);
}

/** @param {string} name @param {string} text */
function add(name, text) {
  const free = freeName(name);
  const percent = Math.floor((100 * MAX_CHARACTERS) / text.length);
  if (percent < 100) report(`“${free}” is very long: the first ${percent} % are attached.`);
  change([...attached, { name: free, text: text.slice(0, MAX_CHARACTERS) }]);
  say(`${free} is attached.`);
}

/** Appended to attribute names to disable them. A noncharacter, so texts do not contain it. */
const MARK = '\ufdd0';

/**
 * Removes style elements, in one pass for any number of them. Of an unclosed element only the beginning of the tag is
 * removed.
 * @param {string} html
 */
function withoutStyles(html) {
  let [plain, from, open] = ['', 0, -1];
  for (const { 0: tag, index } of html.matchAll(/<\/?style(?=[\s/>])/gi)) {
    if (open < 0 && tag[1] !== '/') open = index;
    if (open < 0 || tag[1] !== '/') continue;
    plain += `${html.slice(from, open)} `;
    [from, open] = [html.indexOf('>', index) + 1 || html.length, -1];
  }
  return plain + (open < 0 ? html.slice(from) : html.slice(from).replace(/<style(?=[\s/>])/gi, ' '));
}

/** Returns the visible text of an HTML file. @param {string} html */
function textOfHtml(html) {
  // The page's content security policy also applies to parsed documents: styles in them would be reported as violations.
  const plain = withoutStyles(html).replace(/([\s"'/])style(?=\s*=)/gi, `$1style${MARK}`);
  const { body } = new DOMParser().parseFromString(plain, 'text/html');
  for (const hidden of body.querySelectorAll('script, style, noscript, template')) hidden.remove();
  for (const block of body.querySelectorAll('p, div, li, tr, br, h1, h2, h3, h4, h5, h6')) block.append('\n');
  return (body.textContent ?? '')
    .replaceAll(MARK, '')
    .replace(/[ \t]+/g, ' ')
    .replace(/\s*\n\s*/g, '\n');
}

/**
 * Returns the text of a file. Throws an error whose message continues a sentence that begins with the file's name.
 * @param {File} file
 * @param {AbortSignal} signal
 * @param {(progress: string) => void} onProgress
 */
async function textOfFile(file, signal, onProgress) {
  const { name, size } = file;
  if (/\.pdf$/i.test(name) || file.type === 'application/pdf') {
    const { textOfPdf } = await import('./pdf.js');
    const { text, pages, read, cut } = await textOfPdf(file, MAX_CHARACTERS, signal, (page, all) =>
      onProgress(`: page ${page} of ${all}`),
    );
    if (cut) report(`“${name}” is very long: the beginning of its first page is attached.`);
    else if (read < pages) report(`“${name}” is very long: its first ${read} of ${pages} pages are attached.`);
    return text;
  }
  const content = size <= MAX_BYTES ? decodeText(new Uint8Array(await file.arrayBuffer())) : '';
  const text = (/\.x?html?$/i.test(name) ? textOfHtml(content) : content).trim();
  if (!size) throw new Error('is empty.');
  if (!text || text.includes('\0')) throw new Error("isn't a text file or PDF that can be attached.");
  return text;
}

/** Settles when the files chosen so far are read: attachments keep the order in which they were chosen. */
let filesRead = Promise.resolve();

/** @param {File[]} files */
export function attachFiles(files) {
  if (!isReading()) forgetReports();
  const stop = new AbortController();
  readings.add(stop);
  filesRead = filesRead.then(() => readFiles(files, stop));
  return filesRead;
}

/** @param {File[]} files @param {AbortController} stop */
async function readFiles(files, stop) {
  const { signal } = stop;
  for (const file of files) {
    const { name } = file;
    const words = element('span', '', `Reading ${name}…`);
    reading.replaceChildren(
      words,
      button('Stop', `Stop reading ${name}`, () => stop.abort()),
    );
    reading.hidden = false;
    say(`Reading ${name}…`);
    try {
      const text = await textOfFile(file, signal, (progress) => (words.textContent = `Reading ${name}${progress}`));
      signal.throwIfAborted();
      add(name, text);
    } catch (error) {
      const reason = signal.aborted ? 'was not attached.' : /** @type {Error} */ (error).message;
      say(`${name} was not attached.`);
      report(`“${name}” ${reason}`);
    }
  }
  readings.delete(stop);
  if (!readings.size) reading.hidden = true;
  if (!signal.aborted) message.focus();
}

/**
 * Shows a message of the log: attachments that can be unfolded, then its text.
 * @param {HTMLElement} place
 * @param {string} content
 */
export function showMessage(place, content) {
  const { attachments, text } = splitComposed(content);
  place.replaceChildren(
    ...attachments.map((attachment) => {
      const details = element('details', 'attachment');
      const summary = element('summary');
      summary.append(element('b', '', attachment.name), element('small', '', sizeOf(attachment)));
      details.append(summary, element('pre', '', attachment.text));
      return details;
    }),
    document.createTextNode(text),
  );
}
