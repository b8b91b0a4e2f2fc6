/** Turns that a conversation has no room for, summed up by the model itself. Loaded when a policy asks for it. */
import { SUMMARY_REQUEST, summaryTokens, withSummary } from '../../api/chat/summary-prompt.js';

/** @import { GenerateOptions, Message, PromptOptions } from '../../shared/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { Aborted, Replies } from '../generation/replies.js' */

/** Summaries of a model that are kept, so that the next reply need not make them again. */
const KEPT = 64;
/** By what was summed up, the last used last. @type {WeakMap<Replies, Map<string, string>>} */
const known = new WeakMap();

/** Where and how they are made. @typedef {{ replies: Replies, model: LocalModel, turns: PromptOptions, options: GenerateOptions & { signal?: AbortSignal }, aborted?: Aborted }} Place */

/** Tokens that a summary takes of a prompt, at most. @param {LocalModel} model */
export const reserved = (model) => summaryTokens(model.info.contextTokens) + model.encode(withSummary('', '')).length;

/**
 * Messages whose first one, of the user, has the summary in it.
 * @param {string} summary @param {Message[]} messages
 * @returns {Message[]}
 */
export const headed = (summary, [first, ...rest]) =>
  summary ? [{ ...first, content: withSummary(summary, String(first.content)) }, ...rest] : [first, ...rest];

/**
 * A summary of what some messages make of an earlier one. Empty: the model had nothing to say, or no time.
 * @param {Place} place @param {Message[]} asked
 */
async function made({ replies, model, turns, options, aborted }, asked) {
  const key = JSON.stringify([asked, options.adapter ?? null]);
  const kept = known.get(replies) ?? new Map();
  known.set(replies, kept);
  let text = kept.get(key);
  kept.delete(key);
  if (text === undefined) {
    const { adapter, deadline, maxTokensPerSecond, signal } = options;
    const more = { adapter, deadline, maxTokensPerSecond, signal };
    const sampling = { temperature: 0, maxTokens: summaryTokens(model.info.contextTokens) };
    const result = await replies.generate(asked, { ...turns, ...sampling, ...more }, aborted).result;
    text = result.text.trim();
    if (result.finishReason === 'deadline') return '';
  }
  kept.set(key, text);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value ?? '');
  return text;
}

/**
 * As many turns at a time as the model can read together with the question, each time with the summary of those before. A turn that is
 * too long by itself is passed over. What comes of it depends on the messages alone.
 * @param {Place} place
 * @param {Message[]} head  what stands before the first turn
 * @param {Message[]} gone  whole turns
 */
export async function summed(place, head, gone) {
  const { model, replies, turns } = place;
  const { contextTokens: context } = model.info;
  const fits = async (/** @type {Message[]} */ asked) => {
    try {
      return (await replies.tokens(asked, turns)).length + summaryTokens(context) <= context;
    } catch (/** @type {any} */ error) {
      if (error.code === 'CONTEXT_FULL') return false;
      throw error;
    }
  };
  const starts = gone.flatMap(({ role }, i) => (role === 'user' ? [i] : []));
  let summary = '';
  for (let next = 0; next < starts.length;) {
    const asking = (/** @type {number} */ end) => [
      ...head,
      ...headed(summary, gone.slice(starts[next], starts[end])),
      { role: /** @type {const} */ ('user'), content: SUMMARY_REQUEST },
    ];
    let end = next;
    while (end < starts.length && (await fits(asking(end + 1)))) end++;
    if (end > next) summary = (await made(place, asking(end))) || summary;
    next = Math.max(end, next + 1);
  }
  return summary;
}
