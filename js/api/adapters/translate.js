/**
 * What adapters have in common: each turns what its users say into a request of `chat.completions.create`, which models of this machine
 * and those of `connect()` both have, and what comes back into its own words.
 */
import { BqError } from '../../shared/errors.js';
import { ChunkReader } from '../openai/chunks.js';

/** @import { Model } from '../../shared/types.js' */
/** Of this machine, or of `connect()`. @typedef {Pick<Model, 'chat' | 'embeddings'>} AnyModel */
/** @typedef {{ id: string, name: string, input: string }} ToolCall  `input`: JSON, as the model wrote it */
/** @typedef {{ prompt_tokens: number, completion_tokens: number, total_tokens: number, prompt_tokens_details?: { cached_tokens: number } }} Usage */

/**
 * A piece of a reply: some text, some reasoning, some of a call, a call that is whole, or the end.
 * @typedef {{ text: string } | { reasoning: string } | { calls: string, name: string, input: string } | { call: ToolCall } | { reason: string, usage: Usage | undefined }} Piece
 */

/** What a model is called. @param {any} model @returns {string} */
export const nameOf = (model) => model.info?.name || model.url || 'bq4';

/** A list of parts as one text: others than texts can't be read. ARGUMENT. @param {any} content @param {string} key  of a part's text @returns {string} */
export function textOf(content, key = 'text') {
  if (typeof content === 'string') return content;
  return (content ?? [])
    .map((/** @type {any} */ part) => {
      if (typeof part === 'string') return part;
      if (part.type === 'text') return part[key];
      throw new BqError('ARGUMENT', `a part of type "${part.type}" can't be read: only text`);
    })
    .join('');
}

/** @param {string} name @param {string | undefined} description @param {any} parameters  a JSON Schema */
export const toolOf = (name, description, parameters) => ({
  type: 'function',
  function: { name, ...(description && { description }), parameters },
});

/** A call that the model made, as its message has it. @param {ToolCall} call */
export const callOf = ({ id, name, input }) => ({ id, type: 'function', function: { name, arguments: input } });

/** @param {any} schema @param {string} [name] */
export const formatOf = (schema, name = 'reply') => ({
  type: /** @type {const} */ ('json_schema'),
  json_schema: { name, schema },
});

/** Without what is undefined, which is no JSON. @template {object} T @param {T} body @returns {T} */
export const given = (body) =>
  /** @type {T} */ (Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)));

/**
 * A reply, piece by piece.
 * @param {AnyModel} model @param {Record<string, any>} body @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Piece, void>}
 */
export async function* pieces(model, body, signal) {
  const chunks = await model.chat.completions.create(
    /** @type {import('../../shared/types.js').ChatCompletionRequest & { stream: true }} */ ({
      ...given(body),
      stream: true,
      stream_options: { include_usage: true },
    }),
    { signal },
  );
  /** @type {Map<number, ToolCall>} */
  const calls = new Map();
  const reader = new ChunkReader();
  let reason = '';
  let usage;
  for await (const given of chunks) {
    const chunk = reader.read(given);
    if (chunk.usage) usage = chunk.usage;
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
    reason = choice.finish_reason ?? reason;
  }
  for (const call of calls.values()) yield { call };
  // Some say "stop" of calls, or nothing.
  yield { reason: calls.size && ['', 'stop'].includes(reason) ? 'tool_calls' : reason || 'stop', usage };
}

/** @typedef {{ text: string, reasoning: string, calls: ToolCall[], reason: string, usage: Usage | undefined }} Reply */

/** A whole reply. @param {AsyncIterable<Piece>} parts @returns {Promise<Reply>} */
export async function whole(parts) {
  /** @type {Reply} */
  const reply = { text: '', reasoning: '', calls: [], reason: 'stop', usage: undefined };
  for await (const piece of parts) {
    if ('text' in piece) reply.text += piece.text;
    else if ('reasoning' in piece) reply.reasoning += piece.reasoning;
    else if ('call' in piece) reply.calls.push(piece.call);
    else if ('reason' in piece) Object.assign(reply, piece);
  }
  return reply;
}

/** @param {AnyModel} model @param {string[]} input @param {AbortSignal} [signal] @returns {Promise<{ vectors: number[][], tokens: number }>} */
export async function vectorsOf(model, input, signal) {
  if (!input.length) return { vectors: [], tokens: 0 };
  const { data, usage } = await model.embeddings.create({ input, encoding_format: 'float' }, { signal });
  return { vectors: data.map((/** @type {any} */ one) => one.embedding), tokens: usage.prompt_tokens };
}
