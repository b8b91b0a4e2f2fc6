/** `model.chat.completions.create`: OpenAI's chat completions. */
import { messagesOf, textOf } from '../chat/messages.js';
import { follow } from '../../shared/async.js';
import { checkOptions } from '../../shared/options.js';
import { isPath, refuse, withoutNulls } from './check-fields.js';
import { checkBiases, checkGenerates, fieldsOf, generateOptions, wantsUsage } from './request.js';
import { generateChoices } from './choices.js';
import { ChunkStream } from './stream.js';
import { answer } from './answer.js';
import { callsIn, toolsOf } from './tools.js';
import { extensionsOf, headOf, logprobsOf, usageOf } from './usage.js';

/** @import { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, CreateOptions, FinishReason, MessageLike, Model, Result, ToolCall } from '../../shared/types.js' */
/** @import { Piece } from './answer.js' */

/**
 * A checked request. `parallel`: number of choices to generate at the same time; `usage`: whether the last chunk
 * contains the usage.
 * @typedef {{ model: Model, fields: Record<string, any>, messages: MessageLike[], head: ReturnType<typeof headOf>,
 *   usage: boolean, parallel: number }} CheckedRequest
 */

/**
 * Converts messages for the engine: nulls are removed, `developer` becomes `system`, text parts are joined. Throws
 * ARGUMENT, which names the message.
 * @param {any[]} messages
 * @returns {MessageLike[]}
 */
const toMessages = (messages) =>
  messages.map((message, i) => {
    const at = `messages[${i}]`;
    // `refusal`, `annotations` and `parsed` are members of earlier answers, which clients send back with the
    // conversation.
    const { role, refusal, annotations, parsed, tool_calls, ...fields } = withoutNulls(message);
    const calls = tool_calls && callsIn(`${at}.tool_calls`, tool_calls);
    // Only an earlier answer may have no content.
    const content = role === 'assistant' ? (message.content ?? '') : message.content;
    try {
      return messagesOf([
        {
          ...fields,
          role: role === 'developer' ? 'system' : role,
          content: textOf(content),
          ...(calls?.length && { tool_calls: calls }),
        },
      ])[0];
    } catch (/** @type {any} */ error) {
      if (error.code !== 'ARGUMENT') throw error;
      const { param } = error.details;
      throw refuse(isPath(param) ? `${at}.${param}` : at, `${at}: ${error.message}`, error.hint);
    }
  });

/**
 * Checks a request without running the model. Throws ARGUMENT, UNSUPPORTED.
 * @param {Model} model @param {unknown} body
 * @returns {Omit<CheckedRequest, 'parallel'>}
 */
export function checkChatRequest(model, body) {
  const fields = fieldsOf('chat.completions.create', body);
  checkGenerates(model);
  checkBiases(fields, model);
  if (!fields.messages?.length) throw refuse('messages', 'the request has no messages');
  if (fields.top_logprobs !== undefined && !fields.logprobs)
    throw refuse('top_logprobs', 'top_logprobs needs logprobs: true');
  const usage = wantsUsage(fields);
  const head = headOf('chatcmpl', model.info, fields.model);
  const request = { model, fields, messages: toMessages(fields.messages), head, usage };
  generateOptions(fields); // throws before the reply starts if an option is invalid
  toolsOf(fields);
  return request;
}

/**
 * Returns a completion, or with `stream` its chunks.
 * @param {Model} model @param {ChatCompletionRequest} body @param {CreateOptions} [options]
 * @returns {Promise<ChatCompletion | ChunkStream<ChatCompletionChunk>>}
 */
export async function chat(model, body, options) {
  const { signal, parallel = model.info.sessions } = checkOptions('create', options);
  const request = { ...checkChatRequest(model, body), parallel };
  const lifetime = follow(signal);
  if (!request.fields.stream) return collectCompletion(request, lifetime);
  return new ChunkStream(chunks(request, lifetime), lifetime.controller);
}

/** @param {CheckedRequest} request @param {ReturnType<typeof follow>} lifetime @returns {Promise<ChatCompletion>} */
async function collectCompletion({ model, fields, messages, head, parallel }, { signal, controller, release }) {
  const { n = 1, logprobs } = fields;
  const collected = Array.from({ length: n }, () => ({
    text: '',
    reasoning: '',
    calls: /** @type {ToolCall[]} */ ([]),
    content: /** @type {ReturnType<typeof logprobsOf>} */ ([]),
  }));
  const pieces = generateChoices(
    n,
    parallel,
    (index) => answer(model, fields, messages, index, signal),
    () => controller.abort(),
  );
  try {
    for (;;) {
      const step = await pieces.next();
      if (step.done) {
        const choices = step.value.map(({ finish }, index) => choiceOf(index, collected[index], finish, logprobs));
        const usage = usageOf(step.value.map(({ results }) => results));
        const extensions = extensionsOf(step.value.flatMap(({ results }) => results));
        return { ...head, object: 'chat.completion', choices, usage, ...extensions };
      }
      const [index, { part, calls }] = /** @type {[number, Piece]} */ (step.value);
      const entry = collected[index];
      entry.calls.push(...calls);
      entry.text += part.text;
      entry.reasoning += part.reasoning ?? '';
      entry.content.push(...logprobsOf(part));
    }
  } finally {
    release();
  }
}

/**
 * @param {number} index
 * @param {{ text: string, reasoning: string, calls: ToolCall[], content: ReturnType<typeof logprobsOf> }} collected
 * @param {FinishReason} finish_reason
 * @param {boolean} [logprobs]  whether the choice contains log probabilities
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

/**
 * @param {CheckedRequest} request
 * @param {ReturnType<typeof follow>} lifetime
 * @returns {AsyncGenerator<ChatCompletionChunk, void>}
 */
async function* chunks(request, lifetime) {
  const {
    fields: { n = 1 },
    usage,
    head,
    parallel,
  } = request;
  const chunk = (/** @type {ChatCompletionChunk['choices']} */ choices) =>
    /** @type {ChatCompletionChunk} */ ({
      ...head,
      object: 'chat.completion.chunk',
      choices,
      ...(usage && { usage: null }),
    });
  const pieces = generateChoices(
    n,
    parallel,
    (index) => chunksOf(request, index, lifetime.signal, chunk),
    () => lifetime.controller.abort(),
  );
  try {
    let step = await pieces.next();
    for (; !step.done; step = await pieces.next()) yield /** @type {[number, ChatCompletionChunk]} */ (step.value)[1];
    const results = step.value;
    if (usage) yield { ...chunk([]), usage: usageOf(results) };
  } finally {
    await pieces.return([]);
    lifetime.release();
  }
}

/**
 * Yields the chunks of one choice and returns the results of its generations.
 * @param {CheckedRequest} request
 * @param {number} index
 * @param {AbortSignal} signal
 * @param {(choices: ChatCompletionChunk['choices']) => ChatCompletionChunk} chunk
 * @returns {AsyncGenerator<ChatCompletionChunk, Result[]>}
 */
async function* chunksOf({ model, fields, messages }, index, signal, chunk) {
  /** Log probabilities of parts whose text is not sent yet. @type {ReturnType<typeof logprobsOf>} */
  let content = [];
  const choice = (
    /** @type {ChatCompletionChunk['choices'][0]['delta']} */ delta,
    /** @type {FinishReason | null} */ finish_reason = null,
  ) => {
    const complete = chunk([
      { index, delta, logprobs: fields.logprobs && content.length ? { content, refusal: null } : null, finish_reason },
    ]);
    content = [];
    return complete;
  };
  let hasStarted = false;
  let callCount = 0;
  const pieces = answer(model, fields, messages, index, signal);
  try {
    for (;;) {
      const step = await pieces.next();
      if (!hasStarted) yield choice({ role: 'assistant', content: '' });
      hasStarted = true;
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
      if (value.calls.length)
        yield choice({ tool_calls: value.calls.map((call) => ({ index: callCount++, ...call })) });
    }
  } finally {
    await pieces.return(/** @type {any} */ (undefined));
  }
}
