/** Looks for the beginning of a tool call in the free text of an answer. */
/** @import { CallForms } from '../prompt/tool-calls.js' */

/**
 * What a text of an answer contains. `text`: text that belongs to the answer; `held`: text after it that may belong to a
 * call; `beginning`: text of a call, '' if none was found; `isBare`: whether the call is a plain JSON object; null: the
 * text may become one.
 * @typedef {{ text: string, held: string, beginning: string, isBare: boolean | null }} CallSearch
 */

/**
 * Looks for a call in a text of an answer.
 * @param {string} text  text that was not shown yet
 * @param {CallForms} callForms
 * @param {boolean} endsInTrigger  whether the last token of the text is the trigger of a call
 * @param {boolean} mayBeBare  whether the text begins the answer, so that it may be a plain JSON call
 * @returns {CallSearch}
 */
export function findCall(text, callForms, endsInTrigger, mayBeBare) {
  const { trigger } = callForms;
  if (endsInTrigger) return { text: text.replace(trigger, ''), held: '', beginning: trigger, isBare: false };
  const kind = mayBeBare ? callForms.callAtStart(text) : undefined;
  if (kind === 'bare') return { text: '', held: '', beginning: text, isBare: true };
  if (kind === 'form') return { text: '', held: '', beginning: text.trimStart(), isBare: false };
  if (kind === 'undecided') return { text: '', held: text, beginning: '', isBare: null };
  const { at, isCertain } = callForms.findCall(text);
  const [before, rest] = [text.slice(0, at), text.slice(at)];
  return { text: before, held: isCertain ? '' : rest, beginning: isCertain ? rest : '', isBare: false };
}
