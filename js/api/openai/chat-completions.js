/** `model.chat.completions.create`: OpenAI's chat completions. */
import { textOf } from '../chat/messages.js';
import { follow } from '../../shared/async.js';
import { checkOptions } from '../../shared/options.js';
import { refuse, withoutNulls } from './check-fields.js';
import { checkGenerates, fieldsOf, generateOptions, wantsUsage } from './request.js';
import { several } from './choices.js';
import { ChunkStream } from './stream.js';
import { answer } from './answer.js';
import { callsIn, toolsOf } from './tools.js';
import { extensionsOf, headOf, logprobsOf, usageOf } from './usage.js';

/** @import { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, CreateOptions, FinishReason, MessageLike, Model, Result, ToolCall } from '../../shared/types.js' */
/** @import { Piece } from './answer.js' */

/** A request, understood; `most` of its choices at a time. @typedef {{ model: Model, fields: Record<string, any>, messages: MessageLike[], head: ReturnType<typeof headOf>, usage: boolean, most: number }} Asked */

/** Messages as the engine takes them: null is not given, developers speak for the system, parts are one text. ARGUMENT. @param {any[]} messages @returns {MessageLike[]} */
const said = (messages) =>
  messages.map((message) => {
    // What an answer has besides, of OpenAI's and of its client, when it comes back in a conversation.
    const { role, content, refusal, annotations, parsed, tool_calls, ...more } = withoutNulls(message);
    const calls = tool_calls && callsIn(tool_calls);
    return {
      role: role === 'developer' ? 'system' : role,
      content: textOf(content ?? ''),
      ...more,
      ...(calls?.length && { tool_calls: calls }),
    };
  });

/**
 * A completion, or with `stream` its chunks.
 * @param {Model} model @param {ChatCompletionRequest} body @param {CreateOptions} [options]
 * @returns {Promise<ChatCompletion | ChunkStream<ChatCompletionChunk>>}
 */
export async function chat(model, body, options) {
  const { signal, parallel: most = model.info.sessions } = checkOptions('create', options);
  const fields = fieldsOf('chat.completions.create', body);
  checkGenerates(model);
  if (!fields.messages) throw refuse('messages', 'the request has no messages');
  if (fields.top_logprobs !== undefined && !fields.logprobs)
    throw refuse('top_logprobs', 'top_logprobs needs logprobs: true');
  const usage = wantsUsage(fields);
  const head = headOf('chatcmpl', model.info, fields.model);
  const asked = { model, fields, messages: said(fields.messages), head, usage, most };
  generateOptions(fields); // what is wrong with these is told at once
  toolsOf(fields);
  const life = follow(signal);
  if (!fields.stream) return whole(asked, life);
  return new ChunkStream(chunks(asked, life), life.controller);
}

/** @param {Asked} asked @param {ReturnType<typeof follow>} life @returns {Promise<ChatCompletion>} */
async function whole({ model, fields, messages, head, most }, { signal, controller, release }) {
  const { n = 1, logprobs } = fields;
  const told = Array.from({ length: n }, () => ({
    text: '',
    reasoning: '',
    calls: /** @type {ToolCall[]} */ ([]),
    content: /** @type {ReturnType<typeof logprobsOf>} */ ([]),
  }));
  const pieces = several(
    n,
    most,
    (index) => answer(model, fields, messages, index, signal),
    () => controller.abort(),
  );
  try {
    for (;;) {
      const step = await pieces.next();
      if (step.done) {
        const choices = step.value.map(({ finish }, index) => choiceOf(index, told[index], finish, logprobs));
        const usage = usageOf(step.value.map(({ results }) => results));
        const extensions = extensionsOf(step.value.flatMap(({ results }) => results));
        return { ...head, object: 'chat.completion', choices, usage, ...extensions };
      }
      const [index, { part, calls }] = /** @type {[number, Piece]} */ (step.value);
      const one = told[index];
      one.calls.push(...calls);
      one.text += part.text;
      one.reasoning += part.reasoning ?? '';
      one.content.push(...logprobsOf(part));
    }
  } finally {
    release();
  }
}

/**
 * @param {number} index
 * @param {{ text: string, reasoning: string, calls: ToolCall[], content: ReturnType<typeof logprobsOf> }} told
 * @param {FinishReason} finish_reason @param {boolean} [logprobs]  whether these are asked for
 * @returns {ChatCompletion['choices'][0]}
 */
const choiceOf = (index, { text, reasoning, calls, content }, finish_reason, logprobs) => ({
  index,
  message: {
    role: 'assistant',
    content: calls.length && !text ? null : text,
    refusal: null,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls.length && { tool_calls: calls }),
  },
  logprobs: logprobs ? { content, refusal: null } : null,
  finish_reason,
});

/** @param {Asked} asked @param {ReturnType<typeof follow>} life @returns {AsyncGenerator<ChatCompletionChunk, void>} */
async function* chunks(asked, life) {
  const {
    fields: { n = 1 },
    usage,
    head,
    most,
  } = asked;
  const chunk = (/** @type {ChatCompletionChunk['choices']} */ choices) =>
    /** @type {ChatCompletionChunk} */ ({
      ...head,
      object: 'chat.completion.chunk',
      choices,
      ...(usage && { usage: null }),
    });
  const pieces = several(
    n,
    most,
    (index) => chunksOf(asked, index, life.signal, chunk),
    () => life.controller.abort(),
  );
  try {
    let step = await pieces.next();
    for (; !step.done; step = await pieces.next()) yield /** @type {[number, ChatCompletionChunk]} */ (step.value)[1];
    const results = step.value;
    if (usage) yield { ...chunk([]), usage: usageOf(results) };
  } finally {
    await pieces.return([]);
    life.release();
  }
}

/**
 * Chunks of one choice; the results of what was generated.
 * @param {Asked} asked @param {number} index @param {AbortSignal} signal @param {(choices: ChatCompletionChunk['choices']) => ChatCompletionChunk} chunk
 * @returns {AsyncGenerator<ChatCompletionChunk, Result[]>}
 */
async function* chunksOf({ model, fields, messages }, index, signal, chunk) {
  /** Of parts without a text yet. @type {ReturnType<typeof logprobsOf>} */
  let content = [];
  const choice = (
    /** @type {ChatCompletionChunk['choices'][0]['delta']} */ delta,
    /** @type {FinishReason | null} */ finish_reason = null,
  ) => {
    const told = chunk([
      { index, delta, logprobs: fields.logprobs && content.length ? { content, refusal: null } : null, finish_reason },
    ]);
    content = [];
    return told;
  };
  let begun = false;
  let called = 0;
  const pieces = answer(model, fields, messages, index, signal);
  try {
    for (;;) {
      const step = await pieces.next();
      if (!begun) yield choice({ role: 'assistant', content: '' });
      begun = true;
      if (step.done) {
        const { results, finish } = step.value;
        yield { ...choice({}, finish), ...extensionsOf(results) };
        return results;
      }
      const value = /** @type {Piece} */ (step.value);
      const { text, reasoning } = value.part;
      content.push(...logprobsOf(value.part));
      if (text || reasoning)
        yield choice({ ...(reasoning && { reasoning_content: reasoning }), ...(text && { content: text }) });
      if (value.calls.length) yield choice({ tool_calls: value.calls.map((call) => ({ index: called++, ...call })) });
    }
  } finally {
    await pieces.return(/** @type {any} */ (undefined));
  }
}
