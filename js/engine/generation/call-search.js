/** Looks for the beginning of a tool call in the free text of an answer. */
import { overlap } from '../../api/chat/stop-strings.js';

/** @import { CallWriter } from '../prompt/tool-calls.js' */

/**
 * What a text of an answer contains. `text`: text that belongs to the answer; `held`: text after it that may belong to a
 * call; `beginning`: text of a call, '' if none was found; `isBare`: whether the call is a plain JSON object; null: the
 * text may become one.
 * @typedef {{ text: string, held: string, beginning: string, isBare: boolean | null }} CallSearch
 */

/**
 * Looks for a call in a text of an answer.
 * @param {string} text  text that was not shown yet
 * @param {CallWriter} writer
 * @param {boolean} endsInTrigger  whether the last token of the text is the trigger of a call
 * @param {boolean} mayBeBare  whether the text begins the answer, so that it may be a plain JSON call
 * @returns {CallSearch}
 */
export function findCall(text, writer, endsInTrigger, mayBeBare) {
  const { trigger } = writer;
  if (endsInTrigger) return { text: text.replace(trigger, ''), held: '', beginning: trigger, isBare: false };
  const isBare = mayBeBare && writer.isBare(text);
  if (isBare === true) return { text: '', held: '', beginning: text, isBare };
  if (isBare === null) return { text: '', held: text, beginning: '', isBare };
  const at = trigger ? text.indexOf(trigger) : -1;
  if (at >= 0) return { text: text.slice(0, at), held: '', beginning: text.slice(at), isBare };
  const end = text.length - (trigger ? overlap(text, trigger) : 0);
  return { text: text.slice(0, end), held: text.slice(end), beginning: '', isBare };
}
