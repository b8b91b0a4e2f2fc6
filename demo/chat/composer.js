/**
 * The message being written: the text of the field and the attached texts. Sent and stored as one string, which begins with the
 * attachments, each as a name and a code block.
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

/** Returns text and attachments as one string. */
export const composedText = () => (attachments ? attachments.withAttachments(message.value) : message.value);

/** Replaces text and attachments. @param {string} text  as of `composedText`; '' clears both */
export function setComposedText(text) {
  if (hasAttachments(text)) void loadAttachments().then(({ showComposed }) => showComposed(text));
  else if (attachments) attachments.showComposed(text);
  else {
    message.value = text;
    grow();
  }
}

/** Whether a file is being read for the message. */
export const isReading = () => attachments?.isReading() ?? false;

/** Stops reading files, which are then not attached. */
export const stopReading = () => attachments?.stopReading();
