/** Shortens a conversation or a text that outgrows its context. Loaded when a context policy needs it. */
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

/** Computes the tokens of the prompt of messages. CONTEXT_FULL: a single text is too long. @typedef {(messages: Message[]) => Promise<number[]>} Tokens */

/** The tokens of messages; null: CONTEXT_FULL. @param {Tokens} tokens @param {Message[]} messages */
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
 * if that is less. Messages before the first user message stay. A turn begins with a user message, so replies and
 * tool calls are dropped with the message that they answer. Tokens are dropped in multiples of a quarter of the context, so that the rest is the same
 * for several turns and stays in the KV cache. Which turns are dropped depends only on the messages.
 * @param {Message[]} messages @param {Tokens} tokens @param {number} context @param {number} [maxTokens]
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
  prompt ??= await tokens(remaining); // throws the reason
  const otherPrompt = await tokens([...head, { role: 'user', content: '?' }]);
  let sinks = 0;
  while (sinks < prompt.length && prompt[sinks] === otherPrompt[sinks]) sinks++;
  return {
    messages: remaining,
    sinks,
    shifted: { messages: messages.length - remaining.length, tokens: total - length },
  };
}

/** A function that adds `shifted` and `origin` to a reply's result. @param {GenerateOptions} options @param {NonNullable<Result['shifted']>} [shifted] */
const resultReporter =
  ({ receipt }, shifted) =>
  async (
    /** @type {Result} */ result,
    /** @type {LocalSession} */ session,
    /** @type {number[]} */ prompt,
    /** @type {{ stop: string[], stopTokens: number[], sections: boolean }} */ ends,
  ) => {
    const { tokens: earlierTokens = 0 } = result.shifted ?? {};
    if (shifted?.messages) result.shifted = { ...shifted, tokens: shifted.tokens + earlierTokens };
    if (receipt) result.origin = await originOf(session, prompt, ends);
  };

/**
 * Fits the conversation of a reply into the context, by dropping turns or replacing them by the model's summary. `report` adds this to
 * the result.
 * @param {Replies} replies @param {LocalModel} model @param {Message[]} messages @param {PromptOptions} turns
 * @param {GenerateOptions & { signal?: AbortSignal }} options @param {Aborted} [aborted]
 */
export async function fitConversation(replies, model, messages, turns, options, aborted) {
  const { maxTokens = DEFAULT_MAX_TOKENS, contextPolicy } = options;
  const { contextTokens: context } = model.info;
  const tokens = (/** @type {Message[]} */ list) => replies.tokens(list, turns);
  if ((contextPolicy ?? 'error') === 'error')
    return { messages, generateOptions: options, report: resultReporter(options) };
  const summarizer = contextPolicy === 'summarize' ? await onDemand(import('./summarize.js')) : null;
  const fit = await dropOldTurns(messages, tokens, context - (summarizer?.reservedTokens(model) ?? 0), maxTokens);
  const { sinks } = fit;
  /** @type {NonNullable<Result['shifted']>} */
  const shifted = fit.shifted;
  let remaining = fit.messages;
  // A relative deadline becomes absolute, so that summary and reply share it.
  const due = typeof options.deadline === 'number' ? new Date(Date.now() + options.deadline) : options.deadline;
  if (summarizer && shifted.messages) {
    const first = messages.findIndex(({ role }) => role === 'user');
    const head = messages.slice(0, first);
    const setting = { replies, model, turns, options: { ...options, deadline: due }, aborted };
    const summary = await summarizer.summarizeTurns(setting, head, messages.slice(first, first + shifted.messages));
    const summarized = [...head, ...summarizer.prependSummary(summary, remaining.slice(first))];
    if (summary && ((await tokensOrNull(tokens, summarized))?.length ?? Infinity) + Math.min(maxTokens, 1) <= context) {
      shifted.summary = summary;
      remaining = summarized;
    }
  }
  if (shifted.messages) emit(model.tempo.events, 'shift', shifted);
  return {
    messages: remaining,
    report: resultReporter(options, shifted),
    generateOptions: { sinks, ...options, deadline: due },
  };
}

/**
 * Makes room in a full sequence: its first tokens and the newest half of the others, with one more token, become the new
 * sequence, which is computed again.
 * @param {TokenSequence} sequence @param {number} id  the additional token @param {GenerateOptions} options @param {StopConditions} ends @param {Result} result
 * @param {LocalModel} model
 */
export async function shift(sequence, id, { sinks = DEFAULT_SINKS }, ends, result, model) {
  const allTokens = [...sequence.tokens, id];
  const context = sequence.tokens.length;
  const first = Math.min(sinks, context >> 1);
  const newest = Math.max(1, (context - first) >> 1);
  await sequence.prefill(
    ends,
    undefined,
    Uint32Array.from([...allTokens.slice(0, first), ...allTokens.slice(-newest)]),
  );
  const tokens = allTokens.length - first - newest;
  result.shifted = { messages: 0, tokens: (result.shifted?.tokens ?? 0) + tokens };
  emit(model.tempo.events, 'shift', { messages: 0, tokens });
}
