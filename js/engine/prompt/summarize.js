/** Summarizes dropped turns with the model itself. Loaded when a context policy needs it. */
import { SUMMARY_REQUEST, summaryTokens, withSummary } from '../../api/chat/summary-prompt.js';

/** @import { GenerateOptions, Message, PromptOptions } from '../../shared/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { Aborted, Replies } from '../generation/replies.js' */

/** Number of cached summaries of a model, so that the next reply need not compute them again. */
const MAX_CACHED = 64;
/** Cached summaries by the summarized messages, the last used at the end. @type {WeakMap<Replies, Map<string, string>>} */
const caches = new WeakMap();

/** Model and options for summaries. @typedef {{ replies: Replies, model: LocalModel, turns: PromptOptions, options: GenerateOptions & { signal?: AbortSignal }, aborted?: Aborted }} SummarySetting */

/** Largest number of tokens of a summary in a prompt. @param {LocalModel} model */
export const reservedTokens = (model) =>
  summaryTokens(model.info.contextTokens) + model.encode(withSummary('', '')).length;

/**
 * Puts the summary into the first message, which is the user's.
 * @param {string} summary @param {Message[]} messages
 * @returns {Message[]}
 */
export const prependSummary = (summary, [first, ...laterMessages]) =>
  summary
    ? [{ ...first, content: withSummary(summary, String(first.content)) }, ...laterMessages]
    : [first, ...laterMessages];

/**
 * Generates or looks up a summary of messages. Empty: the model wrote nothing, or the deadline has passed.
 * @param {SummarySetting} place @param {Message[]} messages
 */
async function writeSummary({ replies, model, turns, options, aborted }, messages) {
  const key = JSON.stringify([messages, options.adapter ?? null]);
  const cache = caches.get(replies) ?? new Map();
  caches.set(replies, cache);
  let text = cache.get(key);
  cache.delete(key);
  if (text === undefined) {
    const { adapter, deadline, maxTokensPerSecond, signal } = options;
    const inherited = { adapter, deadline, maxTokensPerSecond, signal };
    const sampling = { temperature: 0, maxTokens: summaryTokens(model.info.contextTokens) };
    const result = await replies.generate(messages, { ...turns, ...sampling, ...inherited }, aborted).result;
    text = result.text.trim();
    if (result.finishReason === 'deadline') return '';
  }
  cache.set(key, text);
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value ?? '');
  return text;
}

/**
 * Summarizes as many turns at a time as fit into the context, each time together with the summary of the turns before. A turn that is
 * too long by itself is skipped. The result depends only on the messages.
 * @param {SummarySetting} setting
 * @param {Message[]} head  messages before the first turn
 * @param {Message[]} removed  complete turns
 */
export async function summarizeTurns(setting, head, removed) {
  const { model, replies, turns } = setting;
  const { contextTokens: context } = model.info;
  const fits = async (/** @type {Message[]} */ messages) => {
    try {
      return (await replies.tokens(messages, turns)).length + summaryTokens(context) <= context;
    } catch (/** @type {any} */ error) {
      if (error.code === 'CONTEXT_FULL') return false;
      throw error;
    }
  };
  const starts = removed.flatMap(({ role }, i) => (role === 'user' ? [i] : []));
  let summary = '';
  for (let next = 0; next < starts.length;) {
    const summaryRequest = (/** @type {number} */ end) => [
      ...head,
      ...prependSummary(summary, removed.slice(starts[next], starts[end])),
      { role: /** @type {const} */ ('user'), content: SUMMARY_REQUEST },
    ];
    let end = next;
    while (end < starts.length && (await fits(summaryRequest(end + 1)))) end++;
    if (end > next) summary = (await writeSummary(setting, summaryRequest(end))) || summary;
    next = Math.max(end, next + 1);
  }
  return summary;
}
