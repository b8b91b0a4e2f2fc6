/** Summarizes dropped turns with the model itself. Loaded when a context policy requires it. */
import { SUMMARY_REQUEST, summaryTokens, withSummary } from '../../api/chat/summary-prompt.js';

/** @import { GenerateOptions, Message, PromptOptions } from '../../shared/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { Aborted, Replies } from '../generation/replies.js' */

/** Largest number of cached summaries of a model. A cached summary is not computed again for the next reply. */
const MAX_CACHED = 64;
/**
 * Cached summaries by the summarized messages; the most recently used one is the last.
 * @type {WeakMap<Replies, Map<string, string>>}
 */
const caches = new WeakMap();

/**
 * Model and options for summaries.
 * @typedef {object} SummarySetting
 * @property {Replies} replies
 * @property {LocalModel} model
 * @property {PromptOptions} promptOptions
 * @property {GenerateOptions & { signal?: AbortSignal }} options
 * @property {Aborted} [aborted]
 */

/** Returns the largest number of tokens of a summary in a prompt. @param {LocalModel} model */
export const reservedTokens = (model) =>
  summaryTokens(model.info.contextTokens) + model.encode(withSummary('', '')).length;

/**
 * Adds the summary to the first message, which has the role user.
 * @param {string} summary @param {Message[]} messages
 * @returns {Message[]}
 */
export const prependSummary = (summary, [first, ...laterMessages]) =>
  summary
    ? [{ ...first, content: withSummary(summary, String(first.content)) }, ...laterMessages]
    : [first, ...laterMessages];

/**
 * Returns a summary of messages, generated or from the cache; '' if the model wrote nothing or the deadline has passed.
 * @param {SummarySetting} setting @param {Message[]} messages
 */
async function writeSummary({ replies, model, promptOptions, options, aborted }, messages) {
  const key = JSON.stringify([messages, options.adapter ?? null]);
  const cache = caches.get(replies) ?? new Map();
  caches.set(replies, cache);
  let text = cache.get(key);
  cache.delete(key);
  if (text === undefined) {
    const { adapter, deadline, maxTokensPerSecond, signal } = options;
    const inherited = { adapter, deadline, maxTokensPerSecond, signal };
    const sampling = { temperature: 0, maxTokens: summaryTokens(model.info.contextTokens) };
    const result = await replies.generate(messages, { ...promptOptions, ...sampling, ...inherited }, aborted).result;
    text = result.text.trim();
    if (result.finishReason === 'deadline') return '';
  }
  cache.set(key, text);
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value ?? '');
  return text;
}

/**
 * Summarizes turns. Each summary covers as many turns as fit into the context, and the summary of the turns before. A
 * turn that is too long by itself is skipped. The result depends only on the messages.
 * @param {SummarySetting} setting
 * @param {Message[]} head  messages before the first turn
 * @param {Message[]} removed  complete turns
 */
export async function summarizeTurns(setting, head, removed) {
  const { model, replies, promptOptions } = setting;
  const { contextTokens: context } = model.info;
  const fits = async (/** @type {Message[]} */ messages) => {
    try {
      return (await replies.tokens(messages, promptOptions)).length + summaryTokens(context) <= context;
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
