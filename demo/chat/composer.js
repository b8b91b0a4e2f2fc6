/**
 * What is being written: the text of the message field and the texts attached to it. As one string, which is what is sent and kept as
 * a draft, attachments come first, each under its name as a block of code.
 */
import { grow, message } from '../page/page.js';
import { hasAttachments } from './tree.js';

/** Loaded with the first attachment. @type {typeof import('./attachments.js') | null} */
let attachments = null;

/** @type {Promise<typeof import('./attachments.js')> | null} */
let loading = null;

/** One promise for all callers, so that they continue in the order of their calls. */
export function loadAttachments() {
  loading ??= import('./attachments.js').then((module) => (attachments = module));
  loading.catch(() => (loading = null));
  return loading;
}

/** Text and attachments as one string. */
export const composedText = () => (attachments ? attachments.withAttachments(message.value) : message.value);

/** Shows what was composed before; '': nothing. @param {string} text */
export function setComposedText(text) {
  if (hasAttachments(text)) void loadAttachments().then(({ showComposed }) => showComposed(text));
  else if (attachments) attachments.showComposed(text);
  else {
    message.value = text;
    grow();
  }
}

/** Whether a file is being read that belongs to what is written. */
export const isReading = () => attachments?.isReading() ?? false;

/** Files that are being read are not attached. */
export const stopReading = () => attachments?.stopReading();
