/** Shortens a conversation or a text that exceeds its context. Loaded when a context policy requires it. */
import { BqError, onDemand } from '../../shared/errors.js';
import { emit } from '../../shared/events.js';
import { DEFAULT_MAX_TOKENS } from '../../shared/generation.js';
import { DEFAULT_SINKS } from '../plan/plan.js';
import { originOf } from '../generation/receipt-origin.js';

/** @import { GenerateOptions, Message, PromptOptions, Result } from '../../shared/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Aborted, Replies } from '../generation/replies.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/**
 * Computes the tokens of the prompt of messages. Throws CONTEXT_FULL if a single text is too long.
 * @typedef {(messages: Message[]) => Promise<number[]>} Tokens
 */

/**
 * Returns the tokens of messages; null instead of the error CONTEXT_FULL.
 * @param {Tokens} tokens @param {Message[]} messages
 */
async function tokensOrNull(tokens, messages) {
  try {
    return await tokens(messages);
  } catch (error) {
    if (error instanceof BqError && error.code === 'CONTEXT_FULL') return null;
    throw error;
  }
}

/**
 * Drops the oldest turns, so that the prompt leaves room for a reply: a quarter of the context, or `maxTokens`
 * if that is less. Messages before the first user message are not dropped. A turn begins with a user message, so
 * replies and tool calls are dropped with the message that they answer. Tokens are dropped in multiples of a quarter of
 * the context, so that the remaining prompt is the same for several turns and stays in the KV cache. The choice of
 * turns depends only on the messages.
 * @param {Message[]} messages @param {Tokens} tokens @param {number} context  tokens @param {number} [maxTokens]
 */
async function dropOldTurns(messages, tokens, context, maxTokens = Infinity) {
  const quarter = Math.max(1, context >> 2);
  const room = Math.min(maxTokens, quarter);
  let prompt = await tokensOrNull(tokens, messages);
  const total = prompt?.length ?? Infinity;
  const excess = total + room - context;
  const starts = messages.flatMap(({ role }, i) => (role === 'user' ? [i] : []));
  const [first = messages.length] = starts;
  const head = messages.slice(0, first);
  let remaining = messages;
  let length = total;
  if (excess > 0)
    for (const at of starts.slice(1)) {
      remaining = [...head, ...messages.slice(at)];
      prompt = await tokensOrNull(tokens, remaining);
      length = prompt?.length ?? Infinity;
      const isEnough =
        total === Infinity
          ? length + room + quarter <= context
          : total - length >= Math.ceil(excess / quarter) * quarter;
      if (isEnough) break;
    }
  prompt ??= await tokens(remaining); // throws CONTEXT_FULL with its message
  const otherPrompt = await tokens([...head, { role: 'user', content: '?' }]);
  let sinks = 0;
  while (sinks < prompt.length && prompt[sinks] === otherPrompt[sinks]) sinks++;
  return {
    messages: remaining,
    sinks,
    shifted: { messages: messages.length - remaining.length, tokens: total - length },
  };
}

/**
 * Returns a function that adds `shifted` and `origin` to a reply's result.
 * @param {GenerateOptions} options @param {NonNullable<Result['shifted']>} [shifted]
 */
const resultReporter =
  ({ receipt }, shifted) =>
  async (
    /** @type {Result} */ result,
    /** @type {LocalSession} */ session,
    /** @type {number[]} */ prompt,
    /** @type {{ stop: string[], stopTokens: number[], sections: boolean }} */ stops,
  ) => {
    const { tokens: earlierTokens = 0 } = result.shifted ?? {};
    if (shifted?.messages) result.shifted = { ...shifted, tokens: shifted.tokens + earlierTokens };
    if (receipt) result.origin = await originOf(session, prompt, stops);
  };

/**
 * Fits the conversation of a reply into the context: drops turns, or replaces them by a summary of the model. `report`
 * of the returned object adds the changes to the result.
 * @param {Replies} replies @param {LocalModel} model @param {Message[]} messages @param {PromptOptions} promptOptions
 * @param {GenerateOptions & { signal?: AbortSignal }} options @param {Aborted} [aborted]
 */
export async function fitConversation(replies, model, messages, promptOptions, options, aborted) {
  const { maxTokens = DEFAULT_MAX_TOKENS, contextPolicy } = options;
  const { contextTokens: context } = model.info;
  const tokens = (/** @type {Message[]} */ list) => replies.tokens(list, promptOptions);
  if ((contextPolicy ?? 'error') === 'error')
    return { messages, generateOptions: options, report: resultReporter(options) };
  const summarizer = contextPolicy === 'summarize' ? await onDemand(import('./summarize.js')) : null;
  const fit = await dropOldTurns(messages, tokens, context - (summarizer?.reservedTokens(model) ?? 0), maxTokens);
  const { sinks } = fit;
  /** @type {NonNullable<Result['shifted']>} */
  const shifted = fit.shifted;
  let remaining = fit.messages;
  // A relative deadline becomes absolute, so that the summary and the reply share it.
  const due = typeof options.deadline === 'number' ? new Date(Date.now() + options.deadline) : options.deadline;
  if (summarizer && shifted.messages) {
    const first = messages.findIndex(({ role }) => role === 'user');
    const head = messages.slice(0, first);
    const setting = { replies, model, promptOptions, options: { ...options, deadline: due }, aborted };
    const summary = await summarizer.summarizeTurns(setting, head, messages.slice(first, first + shifted.messages));
    const summarized = [...head, ...summarizer.prependSummary(summary, remaining.slice(first))];
    if (summary && ((await tokensOrNull(tokens, summarized))?.length ?? Infinity) + Math.min(maxTokens, 1) <= context) {
      shifted.summary = summary;
      remaining = summarized;
    }
  }
  if (shifted.messages) emit(model.paceState.events, 'shift', shifted);
  return {
    messages: remaining,
    report: resultReporter(options, shifted),
    generateOptions: { sinks, ...options, deadline: due },
  };
}

/**
 * Makes room in a full sequence. The new sequence has the first tokens (`sinks`), the newest half of the others, and an
 * additional token. It is computed again.
 * @param {TokenSequence} sequence @param {number} id  the additional token @param {GenerateOptions} options
 * @param {StopConditions} stopConditions @param {Result} result  output: `shifted` is set @param {LocalModel} model
 */
export async function shift(sequence, id, { sinks = DEFAULT_SINKS }, stopConditions, result, model) {
  const allTokens = [...sequence.tokens, id];
  const context = sequence.tokens.length;
  const first = Math.min(sinks, context >> 1);
  const newest = Math.max(1, (context - first) >> 1);
  await sequence.prefill(
    stopConditions,
    undefined,
    Uint32Array.from([...allTokens.slice(0, first), ...allTokens.slice(-newest)]),
  );
  const tokens = allTokens.length - first - newest;
  result.shifted = { messages: 0, tokens: (result.shifted?.tokens ?? 0) + tokens };
  emit(model.paceState.events, 'shift', { messages: 0, tokens });
}
