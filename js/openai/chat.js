/** `model.chat.completions.create`: OpenAI's chat completions. */
import { follow } from '../shared/async.js';
import { checkOptions } from '../shared/options.js';
import { fieldsOf, generateOptions, refuse, wantsUsage } from './request.js';
import { ChunkStream } from './stream.js';
import { finished, headOf, logprobsOf, usageOf } from './usage.js';

/** @import { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, CompleteOptions, MessageLike, Model, Result } from '../shared/types.js' */

/** A request, understood. @typedef {{ model: Model, fields: Record<string, any>, messages: MessageLike[], head: ReturnType<typeof headOf>, usage: boolean }} Asked */

/** Messages as the engine takes them: null is not given, developers speak for the system. @param {any[]} messages @returns {MessageLike[]} */
const said = (messages) => messages.map((message) => {
  const { role, content, ...more } = Object.fromEntries(Object.entries(message).filter(([name, value]) => value !== null && name !== 'refusal' && name !== 'annotations'));
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
  if (fields.top_logprobs !== undefined && !fields.logprobs) throw refuse('top_logprobs', 'top_logprobs needs logprobs: true');
  const usage = wantsUsage(fields);
  const head = headOf('chatcmpl', model.info, fields.model);
  const asked = { model, fields, messages: said(fields.messages), head, usage };
  generateOptions(fields); // what is wrong with it is told at once
  if (!fields.stream) return whole(asked, signal);
  const life = follow(signal);
  return new ChunkStream(chunks(asked, life), life.controller);
}

/** The choice of this number, as it is generated. @param {Asked} asked @param {number} index @param {AbortSignal} [signal] */
function run({ model, fields, messages }, index, signal) {
  const { logprobs, top_logprobs = 0, tools, chat_template_kwargs: variables } = fields;
  return model.reply(messages, { ...generateOptions(fields, index), logprobs: logprobs ? top_logprobs : undefined, tools, variables, signal });
}

/** @param {Asked} asked @param {AbortSignal} [signal] @returns {Promise<ChatCompletion>} */
async function whole(asked, signal) {
  const results = [];
  /** @type {ChatCompletion['choices']} */
  const choices = [];
  const { n = 1, logprobs } = asked.fields;
  for (let index = 0; index < n; index++) {
    const parts = run(asked, index, signal);
    /** @type {ReturnType<typeof logprobsOf>} */
    const content = [];
    for await (const part of parts) content.push(...logprobsOf(part));
    const result = await parts.done();
    results.push(result);
    const { text, reasoning } = result;
    choices.push({
      index, message: { role: 'assistant', content: text, refusal: null, ...(reasoning && { reasoning_content: reasoning }) },
      logprobs: logprobs ? { content, refusal: null } : null, finish_reason: finished(result),
    });
  }
  return { ...asked.head, object: 'chat.completion', choices, usage: usageOf(results) };
}

/** @param {Asked} asked @param {ReturnType<typeof follow>} life @returns {AsyncGenerator<ChatCompletionChunk, void>} */
async function* chunks(asked, life) {
  const { fields: { n = 1, logprobs }, usage, head } = asked;
  const chunk = (/** @type {ChatCompletionChunk['choices']} */ choices) =>
    /** @type {ChatCompletionChunk} */ ({ ...head, object: 'chat.completion.chunk', choices, ...(usage && { usage: null }) });
  /** @type {Result[]} */
  const results = [];
  try {
    for (let index = 0; index < n; index++) {
      const parts = run(asked, index, life.signal);
      /** Of parts without a text yet. @type {ReturnType<typeof logprobsOf>} */
      let content = [];
      const choice = (/** @type {ChatCompletionChunk['choices'][0]['delta']} */ delta, /** @type {'stop' | 'length' | null} */ finish_reason = null) => {
        const told = chunk([{ index, delta, logprobs: logprobs && content.length ? { content, refusal: null } : null, finish_reason }]);
        content = [];
        return told;
      };
      let begun = false;
      for await (const part of parts) {
        if (!begun) yield choice({ role: 'assistant', content: '' });
        begun = true;
        content.push(...logprobsOf(part));
        const { text, reasoning } = part;
        if (text || reasoning) yield choice({ ...(reasoning && { reasoning_content: reasoning }), ...(text && { content: text }) });
      }
      const result = await parts.done();
      results.push(result);
      yield choice(begun ? {} : { role: 'assistant', content: '' }, finished(result));
    }
    if (usage) yield { ...chunk([]), usage: usageOf(results) };
  } finally {
    life.release();
  }
}
