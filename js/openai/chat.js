/** `model.chat.completions.create`: OpenAI's chat completions. */
import { follow } from '../shared/async.js';
import { checkOptions } from '../shared/options.js';
import { fieldsOf, generateOptions, refuse, wantsUsage } from './request.js';
import { ChunkStream } from './stream.js';
import { answer } from './answer.js';
import { toolsOf } from './tools.js';
import { headOf, logprobsOf, usageOf } from './usage.js';

/** @import { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, FinishReason, MessageLike, Model, Result, ToolCall } from '../shared/types.js' */
/** @import { Piece } from './answer.js' */

/** A request, understood. @typedef {{ model: Model, fields: Record<string, any>, messages: MessageLike[], head: ReturnType<typeof headOf>, usage: boolean }} Asked */

/** Messages as the engine takes them: null is not given, developers speak for the system. @param {any[]} messages @returns {MessageLike[]} */
const said = (messages) =>
  messages.map((message) => {
    const { role, content, ...more } = Object.fromEntries(
      Object.entries(message).filter(([name, value]) => value !== null && name !== 'refusal' && name !== 'annotations'),
    );
    return { role: role === 'developer' ? 'system' : role, content: content ?? '', ...more };
  });

/**
 * A completion, or with `stream` its chunks.
 * @param {Model} model @param {ChatCompletionRequest} body @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<ChatCompletion | ChunkStream<ChatCompletionChunk>>}
 */
export async function chat(model, body, options) {
  const { signal } = checkOptions('create', options);
  const fields = fieldsOf('chat.completions.create', body);
  if (!fields.messages) throw refuse('messages', 'the request has no messages');
  if (fields.top_logprobs !== undefined && !fields.logprobs)
    throw refuse('top_logprobs', 'top_logprobs needs logprobs: true');
  const usage = wantsUsage(fields);
  const head = headOf('chatcmpl', model.info, fields.model);
  const asked = { model, fields, messages: said(fields.messages), head, usage };
  generateOptions(fields); // what is wrong with these is told at once
  toolsOf(fields);
  if (!fields.stream) return whole(asked, signal);
  const life = follow(signal);
  return new ChunkStream(chunks(asked, life), life.controller);
}

/** @param {Asked} asked @param {AbortSignal} [signal] @returns {Promise<ChatCompletion>} */
async function whole({ model, fields, messages, head }, signal) {
  const results = [];
  /** @type {ChatCompletion['choices']} */
  const choices = [];
  const { n = 1, logprobs } = fields;
  for (let index = 0; index < n; index++) {
    /** @type {ReturnType<typeof logprobsOf>} */
    const content = [];
    /** @type {ToolCall[]} */
    const calls = [];
    let text = '';
    let reasoning = '';
    const pieces = answer(model, fields, messages, index, signal);
    for (;;) {
      const step = await pieces.next();
      if (step.done) {
        const { value } = step;
        results.push(value.results);
        choices.push({
          index,
          message: {
            role: 'assistant',
            content: calls.length && !text ? null : text,
            refusal: null,
            ...(reasoning && { reasoning_content: reasoning }),
            ...(calls.length && { tool_calls: calls }),
          },
          logprobs: logprobs ? { content, refusal: null } : null,
          finish_reason: value.finish,
        });
        break;
      }
      const value = /** @type {Piece} */ (step.value);
      calls.push(...(value.calls ?? []));
      if (!value.part) continue;
      text += value.part.text;
      reasoning += value.part.reasoning ?? '';
      content.push(...logprobsOf(value.part));
    }
  }
  return { ...head, object: 'chat.completion', choices, usage: usageOf(results) };
}

/** @param {Asked} asked @param {ReturnType<typeof follow>} life @returns {AsyncGenerator<ChatCompletionChunk, void>} */
async function* chunks(asked, life) {
  const {
    fields: { n = 1 },
    usage,
    head,
  } = asked;
  const chunk = (/** @type {ChatCompletionChunk['choices']} */ choices) =>
    /** @type {ChatCompletionChunk} */ ({
      ...head,
      object: 'chat.completion.chunk',
      choices,
      ...(usage && { usage: null }),
    });
  /** @type {Result[][]} */
  const results = [];
  try {
    for (let index = 0; index < n; index++) results.push(yield* choiceOf(asked, index, life.signal, chunk));
    if (usage) yield { ...chunk([]), usage: usageOf(results) };
  } finally {
    life.release();
  }
}

/**
 * Chunks of one choice; the results of what was generated.
 * @param {Asked} asked @param {number} index @param {AbortSignal} signal @param {(choices: ChatCompletionChunk['choices']) => ChatCompletionChunk} chunk
 * @returns {AsyncGenerator<ChatCompletionChunk, Result[]>}
 */
async function* choiceOf({ model, fields, messages }, index, signal, chunk) {
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
        yield choice({}, step.value.finish);
        return step.value.results;
      }
      const value = /** @type {Piece} */ (step.value);
      if (value.calls) yield choice({ tool_calls: value.calls.map((call) => ({ index: called++, ...call })) });
      if (value.part) {
        const { text, reasoning } = value.part;
        content.push(...logprobsOf(value.part));
        if (text || reasoning)
          yield choice({ ...(reasoning && { reasoning_content: reasoning }), ...(text && { content: text }) });
      }
    }
  } finally {
    await pieces.return(/** @type {any} */ (undefined));
  }
}
