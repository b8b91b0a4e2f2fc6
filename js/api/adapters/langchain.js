/** `bq4/langchain`: a chat model and embeddings for LangChain.js. Requires the package @langchain/core. */
import { Embeddings } from '@langchain/core/embeddings';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, AIMessageChunk } from '@langchain/core/messages';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { RunnableLambda, RunnablePassthrough, RunnableSequence } from '@langchain/core/runnables';
import { convertToOpenAITool } from '@langchain/core/utils/function_calling';
import { toJsonSchema } from '@langchain/core/utils/json_schema';
import { checkBy, checkNames, nearest } from '../../shared/check-options.js';
import { flag, object, oneOf, text as textCheck } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { roundedInteger } from '../../shared/exact-json.js';
import { OPTION_ROWS } from '../../shared/generate-options.js';
import {
  callOf,
  checkModel,
  formatOf,
  nameOf,
  pieces,
  textOf,
  vectorsOf,
  collectReply,
  isTemporary,
} from './translate.js';

/** @import { BaseMessage } from '@langchain/core/messages' */
/** @import { BindToolsInput } from '@langchain/core/language_models/chat_models' */
/** @import { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager' */
/** @import { AnyModel, Piece, ToolCall, Usage } from './translate.js' */

const ROLES = { human: 'user', ai: 'assistant' };
/** Fields of a request that are copied from the options of a call, or from the defaults of the model. */
const REQUEST_FIELDS = [
  ...new Set(OPTION_ROWS.flatMap(([, { openai }]) => openai ?? [])),
  ...['max_completion_tokens', 'parallel_tool_calls', 'chat_template_kwargs', 'logprobs', 'top_logprobs'],
];
/** Fields of LangChain's base classes. */
const CALLER_FIELDS = ['maxConcurrency', 'maxRetries', 'onFailedAttempt'];
const MODEL_FIELDS = [
  ...CALLER_FIELDS,
  ...['cache', 'callbacks', 'callbackManager', 'disableStreaming', 'metadata', 'outputVersion', 'tags', 'verbose'],
];
/** Options of a call that LangChain itself reads, including the fields of a model. */
const CALL_FIELDS = [
  ...MODEL_FIELDS,
  ...['configurable', 'ls_structured_output_format', 'promptIndex', 'recursionLimit', 'runId', 'runName', 'signal'],
  ...['store', 'timeout', 'tools', 'tool_choice'],
];
/**
 * Types of blocks in the content of an `AIMessage` that repeat its `tool_calls`, or contain reasoning, which no prompt
 * includes. Messages with `outputVersion: 'v1'` and those of other providers have them.
 */
const OMITTED_BLOCKS = [
  ...['reasoning', 'thinking', 'redacted_thinking'],
  ...['tool_call', 'tool_call_chunk', 'invalid_tool_call', 'tool_use', 'input_json_delta', 'function_call'],
];
/** Characters per token, for the estimate where the tokenizer is on a server. */
const CHARACTERS_PER_TOKEN = 4;
/** Values of the option `method` for structured output. All of them use the same grammar. */
const METHODS = ['jsonSchema', 'functionCalling', 'jsonMode'];

/** Returns the name that LangChain's own models use, such as `maxTokens`. @param {string} name  such as `max_tokens` */
const camelCase = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

/**
 * Throws ARGUMENT for options with unknown names. Known names may be in snake case or in camel case.
 * @param {string} call @param {string[]} names @param {Record<string, any>} options
 */
function checkFieldNames(call, names, options) {
  const unknown = Object.entries(options).filter(
    ([name]) => !names.some((known) => [known, camelCase(known)].includes(name)),
  );
  checkNames(call, names, Object.fromEntries(unknown));
}

/**
 * Throws ARGUMENT for a misspelled option of a call. Unrelated names are ignored, because frameworks pass their own
 * configuration to calls.
 * @param {Record<string, any>} options
 */
function checkCallNames(options) {
  const names = [...REQUEST_FIELDS, ...CALL_FIELDS];
  const similar = Object.entries(options).filter(([name]) => REQUEST_FIELDS.includes(String(nearest(name, names))));
  checkFieldNames('a call of ChatBq4', names, Object.fromEntries(similar));
}

/** @param {Record<string, any>} options @param {string} name */
const optionOf = (options, name) => options[name] ?? options[camelCase(name)];

/**
 * Parses a reply as JSON. Throws FORMAT for incomplete JSON and for integers that JavaScript would round.
 * @param {any} message
 */
function jsonOf(message) {
  const text = textOf(message.content);
  const rounded = roundedInteger(text);
  if (rounded)
    throw new BqError('FORMAT', `expected integers up to 2^53, found ${rounded}`, {
      hint: 'use a string in the schema, or pass { includeRaw: true } to get the unparsed reply',
    });
  try {
    return JSON.parse(text);
  } catch (cause) {
    const { finish_reason: reason } = message.response_metadata ?? {};
    throw new BqError('FORMAT', `expected a reply in JSON, found text that ends early (finish reason "${reason}")`, {
      cause,
      hint: 'allow more tokens (max_tokens), or pass { includeRaw: true } to get the unparsed reply',
    });
  }
}

/**
 * Whether the schema for structured output is the definition of a function in OpenAI's form, whose schema is
 * `parameters`.
 * @param {any} schema
 */
const isFunctionDefinition = (schema) =>
  typeof schema === 'object' && typeof schema?.name === 'string' && !object(schema.parameters);

/**
 * Returns a value as the schema's library converts it: with defaults, transformations and refinements, which JSON Schema
 * can't express. Throws FORMAT if the library refuses it.
 * @param {any} schema @param {unknown} value
 */
async function convertBy(schema, value) {
  const standard = schema?.['~standard'];
  if (typeof standard?.validate !== 'function') return value;
  const { issues, value: converted } = await standard.validate(value);
  if (!issues) return converted;
  const [{ message, path = [] }] = issues;
  const place = path.map((/** @type {any} */ entry) => String(entry?.key ?? entry)).join('.');
  throw new BqError('FORMAT', `the reply does not satisfy the schema${place && ` at ${place}`}: ${message}`, {
    hint: 'put the condition into the part of the schema that is JSON Schema, or pass { includeRaw: true }',
  });
}

/** Converts a message of LangChain. @param {BaseMessage} message */
function messageOf(message) {
  const { content, ...fields } = /** @type {any} */ (message);
  const kind = message.getType();
  // A ChatMessage ("generic") specifies its role by a name of LangChain or of OpenAI.
  const messageType = kind === 'generic' ? fields.role : kind;
  const role = ROLES[/** @type {keyof typeof ROLES} */ (messageType)] ?? messageType;
  const blocks =
    role === 'assistant' && Array.isArray(content)
      ? content.filter(({ type }) => !OMITTED_BLOCKS.includes(type))
      : content;
  const calls =
    fields.tool_calls?.map((/** @type {any} */ { id, name, args }) =>
      callOf({ id, name, input: JSON.stringify(args) }),
    ) ?? [];
  return {
    role,
    content: textOf(blocks),
    ...(calls.length && { tool_calls: calls }),
    ...(role === 'tool' && { tool_call_id: fields.tool_call_id }),
  };
}

/**
 * Converts a tool call for LangChain. Returns null if its arguments are not JSON, or have integers that would be
 * rounded.
 * @param {ToolCall} call
 */
function toolCallFor({ id, name, input }) {
  try {
    const args = JSON.parse(input || '{}');
    return roundedInteger(input) ? null : { id, name, args, type: /** @type {const} */ ('tool_call') };
  } catch {
    return null;
  }
}

/** @param {Usage | undefined} usage */
const usageFor = (usage) =>
  usage && {
    input_tokens: usage.prompt_tokens,
    output_tokens: usage.completion_tokens,
    total_tokens: usage.total_tokens,
    input_token_details: { cache_read: usage.prompt_tokens_details?.cached_tokens ?? 0 },
  };

/**
 * Converts pieces to chunks of LangChain.
 * @param {AsyncIterable<Piece>} pieceStream
 * @returns {AsyncGenerator<ChatGenerationChunk>}
 */
async function* chunksOf(pieceStream) {
  /** @param {any} fields @param {any} [info] */
  const chunk = (fields, info) =>
    new ChatGenerationChunk({
      text: fields.content ?? '',
      message: new AIMessageChunk({ content: '', ...fields }),
      generationInfo: info,
    });
  /** Ids of the tool calls so far. @type {string[]} */
  const callIds = [];
  for await (const piece of pieceStream) {
    if ('text' in piece) yield chunk({ content: piece.text });
    else if ('reasoning' in piece) yield chunk({ additional_kwargs: { reasoning_content: piece.reasoning } });
    else if ('calls' in piece) {
      const { calls: id, name, input: args } = piece;
      const isFirst = !callIds.includes(id);
      if (isFirst) callIds.push(id);
      yield chunk({
        tool_call_chunks: [{ type: 'tool_call_chunk', index: callIds.indexOf(id), args, ...(isFirst && { id, name }) }],
      });
    } else if ('reason' in piece)
      yield chunk(
        {
          usage_metadata: usageFor(piece.usage),
          response_metadata: { finish_reason: piece.reason, ...piece.metadata },
        },
        { finish_reason: piece.reason },
      );
  }
}

/** Default of `maxRetries`. */
const MAX_RETRIES = 2;

/**
 * Calls a function, and up to `maxRetries` times again after temporary failures of a server.
 * @template T
 * @param {import('@langchain/core/utils/async_caller').AsyncCaller} caller
 * @param {AbortSignal | undefined} signal
 * @param {() => Promise<T>} call
 * @returns {Promise<T>}
 */
async function callWithRetries(caller, signal, call) {
  // AsyncCaller repeats a call after every error that it does not recognize. So other errors are returned as results.
  const { value, error } = await caller.callWithOptions({ signal }, async () => {
    try {
      return { value: await call() };
    } catch (error) {
      if (isTemporary(error)) throw error;
      return { error };
    }
  });
  if (error) throw error;
  return /** @type {T} */ (value);
}

/**
 * Yields a step that was already read, then the others.
 * @param {IteratorResult<Piece, void>} first @param {AsyncGenerator<Piece, void>} rest
 * @returns {AsyncGenerator<Piece, void>}
 */
async function* resume(first, rest) {
  try {
    if (!first.done) yield /** @type {Piece} */ (first.value);
    yield* rest;
  } finally {
    await rest.return();
  }
}

/** @import { BaseChatModelCallOptions, BaseChatModelParams } from '@langchain/core/language_models/chat_models' */
/** @import { ChatCompletionRequest } from '../../shared/types.js' */
/**
 * Options that are copied to the request.
 * @typedef {Pick<ChatCompletionRequest, 'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repeat_penalty' | 'max_tokens' | 'seed' | 'presence_penalty' | 'frequency_penalty' | 'logit_bias' | 'response_format' | 'bq4' | 'max_completion_tokens' | 'parallel_tool_calls' | 'chat_template_kwargs' | 'logprobs' | 'top_logprobs'>} RequestOptions
 */
/**
 * @typedef {BaseChatModelCallOptions & RequestOptions & { tools?: ChatCompletionRequest['tools'] }} ChatBq4CallOptions
 */
/**
 * `model`: a local model, or a model of `connect()`. The other fields are defaults for every call.
 * @typedef {{ model: AnyModel, stop?: string | string[] } & RequestOptions & BaseChatModelParams} ChatBq4Fields
 */

/** @extends {BaseChatModel<ChatBq4CallOptions>} */
export class ChatBq4 extends BaseChatModel {
  #model;
  /** @type {Record<string, any>} */
  #defaults;

  /** @param {ChatBq4Fields} fields */
  constructor({ model, ...fields } = /** @type {any} */ ({})) {
    super({ maxRetries: MAX_RETRIES, ...fields });
    checkFieldNames('ChatBq4', [...REQUEST_FIELDS, ...MODEL_FIELDS], fields);
    this.#model = checkModel(model);
    this.#defaults = fields;
  }

  _llmType() {
    return 'bq4';
  }

  /** @override @param {Partial<ChatBq4CallOptions>} [callOptions] @returns {Record<string, unknown>} */
  invocationParams(callOptions) {
    const options = /** @type {Record<string, any>} */ (callOptions ?? {});
    const chosen = Object.fromEntries(
      REQUEST_FIELDS.map((name) => [name, optionOf(options, name) ?? optionOf(this.#defaults, name)]).filter(
        ([, value]) => value !== undefined,
      ),
    );
    const { tools, tool_choice: choice } = options;
    const isToolName = choice && !['auto', 'none', 'required', 'any'].includes(choice) && typeof choice === 'string';
    return {
      ...chosen,
      ...(tools?.length && {
        tools,
        tool_choice:
          choice === 'any' ? 'required' : isToolName ? { type: 'function', function: { name: choice } } : choice,
      }),
    };
  }

  /**
   * Returns the model and the defaults, which are part of the keys of LangChain's caches.
   * @override @returns {Record<string, unknown>}
   */
  _identifyingParams() {
    const { info, url, model } = /** @type {any} */ (this.#model);
    return { model_name: nameOf(this.#model), model_id: info?.id ?? `${url} ${model}`, ...this.invocationParams() };
  }

  /**
   * Returns the number of tokens of a text. With a model on a server it is an estimate. (The inherited method downloads
   * the vocabulary of another model.)
   * @override
   * @param {Parameters<BaseChatModel['getNumTokens']>[0]} content
   * @returns {Promise<number>}
   */
  async getNumTokens(content) {
    const text = textOf(typeof content === 'string' ? content : content.filter(({ type }) => type === 'text'));
    const model = /** @type {any} */ (this.#model);
    return model.tokenize ? (await model.tokenize(text)).length : Math.ceil(text.length / CHARACTERS_PER_TOKEN);
  }

  /** @override @param {this['ParsedCallOptions']} options */
  getLsParams(options) {
    return { ...super.getLsParams(options), ls_provider: 'bq4', ls_model_name: nameOf(this.#model) };
  }

  /**
   * Starts a reply and returns its pieces. A failure is retried only before the first piece.
   * @param {BaseMessage[]} messages @param {ChatBq4CallOptions} options
   */
  #start(messages, options) {
    checkCallNames(options);
    const { signal } = options;
    const body = { messages: messages.map(messageOf), ...this.invocationParams(options) };
    return callWithRetries(this.caller, signal, async () => {
      const pieceStream = pieces(this.#model, body, signal);
      return resume(await pieceStream.next(), pieceStream);
    });
  }

  /**
   * @override
   * @param {BaseMessage[]} messages
   * @param {this['ParsedCallOptions']} options
   * @param {CallbackManagerForLLMRun} [manager]
   */
  async _generate(messages, options, manager) {
    const parts = await this.#start(messages, options);
    const reportedPieces = (async function* () {
      for await (const piece of parts) {
        if ('text' in piece) await manager?.handleLLMNewToken(piece.text);
        yield piece;
      }
    })();
    const { text, reasoning, calls, reason, usage, metadata } = await collectReply(reportedPieces);
    const parsedCalls = calls.map((call) => ({ call, toolCall: toolCallFor(call) }));
    const message = new AIMessage({
      content: text,
      usage_metadata: usageFor(usage),
      response_metadata: { finish_reason: reason, ...metadata },
      additional_kwargs: reasoning ? { reasoning_content: reasoning } : {},
      tool_calls: parsedCalls.flatMap(({ toolCall }) => toolCall ?? []),
      invalid_tool_calls: parsedCalls.flatMap(({ call: { id, name, input }, toolCall }) =>
        toolCall
          ? []
          : {
              id,
              name,
              args: input,
              error: roundedInteger(input) ? 'an integer beyond 2^53, where numbers are rounded' : 'not valid JSON',
              type: /** @type {const} */ ('invalid_tool_call'),
            },
      ),
    });
    return {
      generations: [{ text, message, generationInfo: { finish_reason: reason } }],
      llmOutput: { tokenUsage: usage },
    };
  }

  /**
   * @override
   * @param {BaseMessage[]} messages
   * @param {this['ParsedCallOptions']} options
   * @param {CallbackManagerForLLMRun} [manager]
   * @returns {AsyncGenerator<ChatGenerationChunk>}
   */
  async *_streamResponseChunks(messages, options, manager) {
    for await (const chunk of chunksOf(await this.#start(messages, options))) {
      yield chunk;
      // Without the chunk, LangGraph and `streamEvents` would see only the text of calls in a graph or chain.
      await manager?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
    }
  }

  /** @override @param {BindToolsInput[]} tools @param {Partial<ChatBq4CallOptions>} [options] */
  bindTools(tools, options) {
    return this.withConfig({ tools: tools.map((tool) => convertToOpenAITool(tool)), ...options });
  }

  /**
   * Returns a runnable whose replies are valid under a schema. A grammar constrains them, without a tool call.
   * @override
   * @param {any} schema  JSON Schema, zod or another standard schema, or a function's definition with `parameters`
   * @param {any} [options] @returns {any}
   */
  withStructuredOutput(schema, options) {
    const checks = { name: textCheck, includeRaw: flag, method: oneOf(...METHODS), strict: flag };
    const { name, includeRaw } = checkBy(checks, 'withStructuredOutput', options);
    const isFunction = isFunctionDefinition(schema);
    const source = isFunction ? schema.parameters : schema;
    const format = formatOf(toJsonSchema(source), name ?? (isFunction ? schema.name : undefined));
    const constrained = this.withConfig({ response_format: format });
    const parse = async (/** @type {any} */ message) => convertBy(source, jsonOf(message));
    if (!includeRaw) return RunnableSequence.from([constrained, RunnableLambda.from(parse)]);
    return RunnableSequence.from([
      { raw: constrained },
      RunnablePassthrough.assign({
        parsed: RunnableLambda.from((/** @type {any} */ { raw }) => parse(raw).catch(() => null)),
      }),
    ]);
  }
}

export class Bq4Embeddings extends Embeddings {
  #model;

  /** @param {{ model: AnyModel } & import('@langchain/core/embeddings').EmbeddingsParams} fields */
  constructor({ model, ...fields } = /** @type {any} */ ({})) {
    super({ maxRetries: MAX_RETRIES, ...fields });
    checkFieldNames('Bq4Embeddings', CALLER_FIELDS, fields);
    this.#model = checkModel(model);
  }

  /** @override @param {string[]} texts */
  async embedDocuments(texts) {
    const call = () => vectorsOf(this.#model, texts, {});
    return (await callWithRetries(this.caller, undefined, call)).vectors;
  }

  /** @override @param {string} text */
  async embedQuery(text) {
    return (await this.embedDocuments([text]))[0];
  }
}
