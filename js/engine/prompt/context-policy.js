/** What is left out where a conversation, or a text, outgrows its context. Loaded when a policy asks for it. */
import { BqError, onDemand } from '../../shared/errors.js';
import { emit } from '../../shared/events.js';
import { DEFAULT_MAX_TOKENS } from '../../shared/generation.js';
import { SINKS } from '../plan/plan.js';
import { originOf } from '../generation/receipt-origin.js';

/** @import { GenerateOptions, Message, PromptOptions, Result } from '../../shared/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Aborted, Replies } from '../generation/replies.js' */
/** @import { Ends, Timeline } from '../session/token-sequence.js' */

/** Tokens of the prompt of messages. CONTEXT_FULL: a text alone is too long. @typedef {(messages: Message[]) => Promise<number[]>} Tokens */

/** null: there are too many. @param {Tokens} tokens @param {Message[]} messages */
async function tried(tokens, messages) {
  try {
    return await tokens(messages);
  } catch (error) {
    if (error instanceof BqError && error.code === 'CONTEXT_FULL') return null;
    throw error;
  }
}

/**
 * A conversation without its oldest turns, so that the prompt leaves room for a reply: a quarter of the context, or fewer tokens
 * where fewer may come. What stands before the first turn of the user stays. A turn begins with what the user says, so a reply and
 * calls of tools go with what they answer. Left out are multiples of a quarter of the context: what stays is the same for
 * some turns, and its keys and values are found in the cache. Which turns go depends on the messages alone.
 * @param {Message[]} messages @param {Tokens} tokens @param {number} context @param {number} [maxTokens]
 */
async function fitting(messages, tokens, context, maxTokens = Infinity) {
  const quarter = Math.max(1, context >> 2);
  const room = Math.min(maxTokens, quarter);
  let whole = await tried(tokens, messages);
  const total = whole?.length ?? Infinity;
  const over = total + room - context;
  const starts = messages.flatMap(({ role }, i) => (role === 'user' ? [i] : []));
  const [first = messages.length] = starts;
  const head = messages.slice(0, first);
  let left = messages;
  let length = total;
  if (over > 0)
    for (const at of starts.slice(1)) {
      left = [...head, ...messages.slice(at)];
      whole = await tried(tokens, left);
      length = whole?.length ?? Infinity;
      const enough =
        total === Infinity ? length + room + quarter <= context : total - length >= Math.ceil(over / quarter) * quarter;
      if (enough) break;
    }
  whole ??= await tokens(left); // which says why not
  const other = await tokens([...head, { role: 'user', content: '?' }]);
  let sinks = 0;
  while (sinks < whole.length && whole[sinks] === other[sinks]) sinks++;
  return { messages: left, sinks, shifted: { messages: messages.length - left.length, tokens: total - length } };
}

/** Says in a reply's result what was left out, and what it was made from, where that was asked for. @param {GenerateOptions} options @param {NonNullable<Result['shifted']>} [shifted] */
const toldBy =
  ({ receipt }, shifted) =>
  async (
    /** @type {Result} */ result,
    /** @type {LocalSession} */ session,
    /** @type {number[]} */ prompt,
    /** @type {{ stop: string[], stopTokens: number[] }} */ ends,
  ) => {
    const { tokens: more = 0 } = result.shifted ?? {};
    if (shifted?.messages) result.shifted = { ...shifted, tokens: shifted.tokens + more };
    if (receipt) result.origin = await originOf(session, prompt, ends);
  };

/**
 * The conversation of a reply without turns that its context has no room for, or with the model's summary of them; `tell` says so in
 * the result.
 * @param {Replies} replies @param {LocalModel} model @param {Message[]} messages @param {PromptOptions} turns
 * @param {GenerateOptions & { signal?: AbortSignal }} options @param {Aborted} [aborted]
 */
export async function fitted(replies, model, messages, turns, options, aborted) {
  const { maxTokens = DEFAULT_MAX_TOKENS, contextPolicy } = options;
  const { contextTokens: context } = model.info;
  const tokens = (/** @type {Message[]} */ some) => replies.tokens(some, turns);
  if ((contextPolicy ?? 'error') === 'error') return { messages, more: options, tell: toldBy(options) };
  const sums = contextPolicy === 'summarize' ? await onDemand(import('./summarize.js')) : null;
  const made = await fitting(messages, tokens, context - (sums?.reserved(model) ?? 0), maxTokens);
  const { sinks } = made;
  /** @type {NonNullable<Result['shifted']>} */
  const shifted = made.shifted;
  let left = made.messages;
  // A deadline in so many milliseconds is one for both.
  const due = typeof options.deadline === 'number' ? new Date(Date.now() + options.deadline) : options.deadline;
  if (sums && shifted.messages) {
    const first = messages.findIndex(({ role }) => role === 'user');
    const head = messages.slice(0, first);
    const place = { replies, model, turns, options: { ...options, deadline: due }, aborted };
    const summary = await sums.summed(place, head, messages.slice(first, first + shifted.messages));
    const whole = [...head, ...sums.headed(summary, left.slice(first))];
    if (summary && ((await tried(tokens, whole))?.length ?? Infinity) + Math.min(maxTokens, 1) <= context) {
      shifted.summary = summary;
      left = whole;
    }
  }
  if (shifted.messages) emit(model.tempo.events, 'shift', shifted);
  return { messages: left, tell: toldBy(options, shifted), more: { sinks, ...options, deadline: due } };
}

/**
 * Makes room in a full timeline: its first tokens and the newest half of the others, with one more token, are the timeline from now
 * on, computed anew.
 * @param {Timeline} timeline @param {number} id  the one more @param {GenerateOptions} options @param {Ends} ends @param {Result} result
 * @param {LocalModel} model
 */
export async function shift(timeline, id, { sinks = SINKS }, ends, result, model) {
  const all = [...timeline.ids, id];
  const context = timeline.ids.length;
  const first = Math.min(sinks, context >> 1);
  const newest = Math.max(1, (context - first) >> 1);
  await timeline.prefill(ends, undefined, Uint32Array.from([...all.slice(0, first), ...all.slice(-newest)]));
  const tokens = all.length - first - newest;
  result.shifted = { messages: 0, tokens: (result.shifted?.tokens ?? 0) + tokens };
  emit(model.tempo.events, 'shift', { messages: 0, tokens });
}
