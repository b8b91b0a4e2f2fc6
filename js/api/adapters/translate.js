/**
 * Code that all adapters use. An adapter converts a call of its library to a request for `chat.completions.create`,
 * which both local models and models of `connect()` have, and converts the answer back.
 */
import { checkBy, wrong } from '../../shared/check-options.js';
import { text } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { ChunkReader } from '../openai/chunks.js';

/** @import { Model } from '../../shared/types.js' */
/** A local model, or a model of `connect()`. @typedef {Pick<Model, 'chat' | 'embeddings'>} AnyModel */
/**
 * A tool call. `input`: the arguments as JSON, unchanged.
 * @typedef {{ id: string, name: string, input: string }} ToolCall
 */
/**
 * @typedef {{ prompt_tokens: number, completion_tokens: number, total_tokens: number, prompt_tokens_details?: { cached_tokens: number } }} Usage
 */

/**
 * A piece of a reply: text, reasoning, a part of a tool call (`calls` is its id), a complete tool call, or the end.
 * @typedef {{ text: string } | { reasoning: string } | { calls: string, name: string, input: string } | { call: ToolCall } | End} Piece
 */
/**
 * The end of a reply. `metadata`: log probabilities of all tokens, if requested, and the extensions of the answer
 * (`warnings`, `shiftedTokens`).
 * @typedef {{ reason: string, usage: Usage | undefined, metadata: Record<string, any> }} End
 */

/** Throws ARGUMENT if a value is not a model, such as the promise of a model. @param {any} model */
export function checkModel(model) {
  if (typeof model?.chat?.completions?.create === 'function') return model;
  throw wrong('the model', model, `a model of load() or connect()${model?.then ? ' (await it)' : ''}`);
}

/**
 * Whether a request to a server failed such that it may succeed later: the server was not reached, is busy, or failed.
 * @param {any} error
 */
export const isTemporary = (error) =>
  error?.name === 'BqError' &&
  (error.code === 'NETWORK' || [408, 409, 429].includes(error.details.status) || error.details.status >= 500);

/** Returns the name of a model. @param {any} model @returns {string} */
export const nameOf = (model) => model.info?.name || model.url || 'bq4';

/**
 * Returns the option `modelId`, or else the model's name. Throws ARGUMENT.
 * @param {string} call @param {AnyModel} model @param {{ modelId?: string }} [options] @returns {string}
 */
export function idOf(call, model, options) {
  checkModel(model);
  return checkBy({ modelId: text }, call, options).modelId ?? nameOf(model);
}

/**
 * Joins a list of text parts. Throws ARGUMENT for a part of another type.
 * @param {any} content @param {string} key  name of the member with a part's text @returns {string}
 */
export function textOf(content, key = 'text') {
  if (typeof content === 'string') return content;
  return (content ?? [])
    .map((/** @type {any} */ part) => {
      if (typeof part === 'string') return part;
      if (part.type === 'text') return part[key];
      throw new BqError('ARGUMENT', `expected a part of type "text", found "${part.type}"`, {
        hint: 'bq4 reads only text: omit images and files, or convert them to text',
      });
    })
    .join('');
}

/**
 * Creates a tool of a request.
 * @param {string} name
 * @param {string | undefined} description
 * @param {any} parameters  a JSON Schema
 */
export const toolOf = (name, description, parameters) => ({
  type: 'function',
  function: { name, ...(description && { description }), parameters },
});

/** Converts a tool call to an entry of `message.tool_calls`. @param {ToolCall} call */
export const callOf = ({ id, name, input }) => ({ id, type: 'function', function: { name, arguments: input } });

/** Creates the response format for a JSON Schema. @param {any} schema @param {string} [name] */
export const formatOf = (schema, name = 'reply') => ({
  type: /** @type {const} */ ('json_schema'),
  json_schema: { name, schema },
});

/**
 * Returns a copy of an object without members that are undefined, which JSON can't represent.
 * @template {object} T
 * @param {T} body
 * @returns {T}
 */
export const withoutUndefined = (body) =>
  /** @type {T} */ (Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)));

/**
 * Yields the pieces of a reply. Throws ARGUMENT if the request is for several replies.
 * @param {AnyModel} model @param {Record<string, any>} body @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Piece, void>}
 */
export async function* pieces(model, body, signal) {
  if ((body.n ?? 1) !== 1) throw wrong('n', body.n, '1: an adapter returns one reply');
  const chunks = await model.chat.completions.create(
    /** @type {import('../../shared/types.js').ChatCompletionRequest & { stream: true }} */ ({
      ...withoutUndefined(body),
      stream: true,
      stream_options: { include_usage: true },
    }),
    { signal },
  );
  /** @type {Map<number, ToolCall>} */
  const calls = new Map();
  const reader = new ChunkReader();
  /** @type {any[]} */
  const logprobs = [];
  let reason = '';
  let usage;
  let extensions = {};
  for await (const received of chunks) {
    const chunk = reader.read(received);
    if (chunk.usage) usage = chunk.usage;
    if (chunk.bq4) extensions = chunk.bq4;
    const choice = chunk.choices[0];
    if (!choice) continue;
    const { content, reasoning_content, tool_calls } = choice.delta ?? {};
    if (reasoning_content) yield { reasoning: reasoning_content };
    if (content) yield { text: content };
    for (const part of tool_calls ?? []) {
      const call = calls.get(part.index) ?? { id: part.id, name: '', input: '' };
      calls.set(part.index, call);
      call.name += part.function?.name ?? '';
      const input = part.function?.arguments ?? '';
      call.input += input;
      yield { calls: call.id, name: call.name, input };
    }
    logprobs.push(...(choice.logprobs?.content ?? []));
    reason = choice.finish_reason ?? reason;
  }
  // Some servers send '' for a call without arguments.
  for (const call of calls.values()) yield { call: { ...call, input: call.input.trim() || '{}' } };
  // Some servers end tool calls with the reason "stop", or without a reason.
  yield {
    reason: calls.size && ['', 'stop'].includes(reason) ? 'tool_calls' : reason || 'stop',
    usage,
    metadata: { ...extensions, ...(logprobs.length && { logprobs }) },
  };
}

/** @typedef {{ text: string, reasoning: string, calls: ToolCall[] } & End} Reply */

/** Collects the pieces of a reply. @param {AsyncIterable<Piece>} parts @returns {Promise<Reply>} */
export async function collectReply(parts) {
  /** @type {Reply} */
  const reply = { text: '', reasoning: '', calls: [], reason: 'stop', usage: undefined, metadata: {} };
  for await (const piece of parts) {
    if ('text' in piece) reply.text += piece.text;
    else if ('reasoning' in piece) reply.reasoning += piece.reasoning;
    else if ('call' in piece) reply.calls.push(piece.call);
    else if ('reason' in piece) Object.assign(reply, piece);
  }
  return reply;
}

/** Largest number of texts in a request for embeddings. */
const MAX_TEXTS = 2048;

/**
 * Computes embeddings, in several requests if there are many texts. Throws ARGUMENT for texts that are not strings: the request would read numbers as tokens.
 * @param {AnyModel} model
 * @param {string[]} input
 * @param {object} fields  other fields of the request
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ vectors: number[][], tokens: number }>}
 */
export async function vectorsOf(model, input, fields, signal) {
  const other = Array.isArray(input) ? input.findIndex((value) => typeof value !== 'string') : -1;
  if (other >= 0) throw wrong(`texts[${other}]`, input[other], 'a string');
  if (!Array.isArray(input)) throw wrong('texts', input, 'a list of strings');
  /** @type {number[][]} */
  const vectors = [];
  let tokens = 0;
  for (let start = 0; start < input.length; start += MAX_TEXTS) {
    const texts = input.slice(start, start + MAX_TEXTS);
    const request = { ...fields, input: texts, encoding_format: /** @type {const} */ ('float') };
    const { data, usage } = await model.embeddings.create(request, { signal }).catch((error) => {
      // The index of a text in the message counts from the first text of its request.
      if (start > 0 && error?.name === 'BqError') error.message = `texts from ${start} on: ${error.message}`;
      throw error;
    });
    vectors.push(...data.map((/** @type {any} */ entry) => entry.embedding));
    tokens += usage.prompt_tokens;
  }
  return { vectors, tokens };
}
