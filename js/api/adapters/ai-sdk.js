/**
 * `bq4/ai-sdk`: models for Vercel's AI SDK (specification v4, major version 7), for instance
 * `streamText({ model: languageModel(model), prompt })`.
 */
import { iterate } from '../../shared/async.js';
import { wrong } from '../../shared/check-options.js';
import { object } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { OPTION_ROWS } from '../../shared/generate-options.js';
import { timeout } from '../../shared/timeouts.js';
import {
  callOf,
  checkModel,
  formatOf,
  idOf,
  pieces,
  textOf,
  toolOf,
  vectorsOf,
  collectReply,
  isTemporary,
} from './translate.js';

/**
 * A type of the `ai` package, which the caller has installed. The next types are from this package, too.
 * @typedef {ReturnType<typeof import('ai').wrapLanguageModel>} LanguageModelV4
 */
/** @typedef {ReturnType<typeof import('ai').wrapEmbeddingModel>} EmbeddingModelV4 */
/** @typedef {ReturnType<typeof import('ai').wrapProvider>} ProviderV4 */
/** @typedef {NonNullable<ReturnType<NonNullable<ProviderV4['rerankingModel']>>>} RerankingModelV4 */
/** @typedef {Parameters<LanguageModelV4['doGenerate']>[0]} CallOptions */
/** @typedef {Awaited<ReturnType<LanguageModelV4['doGenerate']>>} Generated */
/** @typedef {Extract<Generated['content'][number], { type: 'tool-call' }>} Call */
/** @import { RemoteModel } from '../connect/index.js' */
/** @import { AnyModel, Piece, Reply, Usage } from './translate.js' */

/** Largest number of texts in one call of `doEmbed`. */
const MAX_TEXTS = 256;
/** Finish reasons of the AI SDK, by OpenAI's finish reasons. */
const REASONS = /** @type {const} */ ({
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool-calls',
  content_filter: 'content-filter',
});

/** Fields of a request with the settings of the AI SDK that they are copied from. */
const SETTINGS = OPTION_ROWS.flatMap(([, { openai, aiSdk }]) => (openai && aiSdk ? [[openai, aiSdk]] : []));

/** Returns the output of a tool as text. @param {any} output @returns {string} */
function outputOf({ type, value, reason }) {
  if (type === 'text' || type === 'error-text') return value;
  if (type === 'execution-denied') return reason ?? 'denied';
  return type === 'content' ? textOf(value) : JSON.stringify(value);
}

/**
 * Converts a message of the AI SDK. A message with several tool results becomes one message for each result.
 * @param {any} message
 * @returns {object[]}
 */
function messagesOf({ role, content }) {
  if (role === 'tool')
    return content
      .filter((/** @type {any} */ part) => part.type === 'tool-result')
      .map((/** @type {any} */ { toolCallId, output }) => ({
        role,
        tool_call_id: toolCallId,
        content: outputOf(output),
      }));
  if (role !== 'assistant') return [{ role, content: textOf(content) }];
  const partsOfType = (/** @type {string} */ type) => content.filter((/** @type {any} */ part) => part.type === type);
  const calls = partsOfType('tool-call').map((/** @type {any} */ { toolCallId: id, toolName: name, input }) =>
    callOf({ id, name, input: JSON.stringify(input) }),
  );
  const text = textOf(
    content.filter((/** @type {any} */ { type }) => !['tool-call', 'reasoning', 'tool-result'].includes(type)),
  );
  return [{ role, content: text, ...(calls.length && { tool_calls: calls }) }];
}

/** Returns the body of a request, and warnings about ignored settings. @param {any} options */
function requestOf(options) {
  const { prompt, responseFormat: format, tools = [], toolChoice: choice, reasoning, providerOptions } = options;
  /** @type {({ type: 'unsupported', feature: string, details?: string })[]} */
  const warnings = [];
  if (reasoning && reasoning !== 'provider-default') warnings.push({ type: 'unsupported', feature: 'reasoning' });
  const functionTools = tools.filter(
    (/** @type {any} */ { type, name }) =>
      type === 'function' ||
      void warnings.push({
        type: 'unsupported',
        feature: `tool ${name}`,
        details: 'expected a tool of the type function',
      }),
  );
  const body = {
    messages: prompt.flatMap(messagesOf),
    ...Object.fromEntries(SETTINGS.map(([field, setting]) => [field, options[setting]])),
    response_format:
      format?.type !== 'json'
        ? undefined
        : format.schema
          ? formatOf(format.schema, format.name)
          : { type: 'json_object' },
    tools: functionTools.length
      ? functionTools.map((/** @type {any} */ { name, description, inputSchema }) =>
          toolOf(name, description, inputSchema),
        )
      : undefined,
    tool_choice:
      !functionTools.length || !choice
        ? undefined
        : choice.type === 'tool'
          ? { type: 'function', function: { name: choice.toolName } }
          : choice.type,
    ...providerOptions?.bq4,
  };
  return { body, warnings };
}

/** @param {Usage | undefined} usage */
function usageOf(usage) {
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  const total = usage?.prompt_tokens;
  return {
    inputTokens: {
      total,
      noCache: total === undefined ? undefined : total - (cached ?? 0),
      cacheRead: cached,
      cacheWrite: undefined,
    },
    outputTokens: { total: usage?.completion_tokens, text: undefined, reasoning: undefined },
  };
}

/** @param {string} raw @returns {Generated['finishReason']} */
const reasonOf = (raw) => ({ unified: REASONS[/** @type {keyof typeof REASONS} */ (raw)] ?? 'other', raw });

/** Returns the member `providerMetadata` of an answer, or nothing without metadata. @param {Record<string, any>} metadata */
const metadataOf = (metadata) => Object.keys(metadata).length > 0 && { providerMetadata: { bq4: metadata } };

/** @param {Reply} reply @returns {Generated['content']} */
const contentOf = ({ text, reasoning, calls }) => [
  ...(reasoning ? [{ type: /** @type {const} */ ('reasoning'), text: reasoning }] : []),
  ...(text ? [{ type: /** @type {const} */ ('text'), text }] : []),
  ...calls.map(toolCall),
];

/** @param {import('./translate.js').ToolCall} call @returns {Call} */
const toolCall = ({ id, name, input }) => ({ type: 'tool-call', toolCallId: id, toolName: name, input });

/**
 * Converts pieces to stream parts of the AI SDK, where each text, reasoning and tool input has a start and an end.
 * @param {AsyncIterable<Piece>} pieceStream
 * @returns {AsyncGenerator<object, void>}
 */
async function* partsOf(pieceStream) {
  /** The text, reasoning or tool input that has started but not ended. @type {{ kind: string, id: string } | null} */
  let open = null;
  let count = 0;
  /** @param {string} kind @param {string} delta @param {string} [callId]  id of a tool call @param {object} [fields] */
  function* emitDelta(kind, delta, callId, fields) {
    if (open?.kind !== kind || (callId && open.id !== callId)) {
      if (open) yield { type: `${open.kind}-end`, id: open.id };
      open = { kind, id: callId ?? String(count++) };
      yield { type: `${kind}-start`, id: open.id, ...fields };
    }
    if (delta) yield { type: `${kind}-delta`, id: open.id, delta };
  }
  for await (const piece of pieceStream) {
    if ('text' in piece) yield* emitDelta('text', piece.text);
    else if ('reasoning' in piece) yield* emitDelta('reasoning', piece.reasoning);
    else if ('calls' in piece) yield* emitDelta('tool-input', piece.input, piece.calls, { toolName: piece.name });
    else {
      if (open) yield { type: `${/** @type {any} */ (open).kind}-end`, id: /** @type {any} */ (open).id };
      open = null;
      yield 'call' in piece
        ? toolCall(piece.call)
        : {
            type: 'finish',
            finishReason: reasonOf(piece.reason),
            usage: usageOf(piece.usage),
            ...metadataOf(piece.metadata),
          };
    }
  }
}

/**
 * Waits for the first piece, so that an early failure rejects the call instead of breaking its stream. (The result is
 * not a new generator, because a generator that was never read would not free the model's session.)
 * @param {AsyncGenerator<Piece, void>} pieceStream
 */
async function startEagerly(pieceStream) {
  /** @type {IteratorResult<Piece, void> | null} */
  let first = await pieceStream.next();
  const next = async () => {
    const step = first ?? (await pieceStream.next());
    first = null;
    return step;
  };
  return iterate(next, () => pieceStream.return());
}

/**
 * A stream that uses a session. `idleChecks`: number of checks since a part was last requested.
 * @typedef {{ idleChecks: number, end: () => void }} OpenStream
 */
/** The open streams of each model. @type {WeakMap<object, Set<OpenStream>>} */
const streamsByModel = new WeakMap();

/** Marks by which the SDK recognizes the error of a request, which it repeats up to `maxRetries` times. */
const ERROR_MARKS = ['vercel.ai.error', 'vercel.ai.error.AI_APICallError'].map((mark) => Symbol.for(mark));

/** Marks an error of a server if the same request may succeed later. @param {any} error */
function markTemporary(error) {
  if (!isTemporary(error)) return error;
  const marks = Object.fromEntries(ERROR_MARKS.map((mark) => [mark, true]));
  const { url, status } = error.details;
  return Object.assign(error, marks, { isRetryable: true, url, statusCode: status });
}

/**
 * Runs a call. The AI SDK does not report that the reader of a stream has stopped reading. So, if streams use all
 * sessions, those that are not read while this call waits are ended.
 * @template T @param {AnyModel} model @param {() => Promise<T>} call @returns {Promise<T>}
 */
async function endIdleStreamsDuring(model, call) {
  const streams = streamsByModel.get(model);
  const runCall = () =>
    call().catch((error) => {
      throw markTemporary(error);
    });
  if (!streams?.size) return runCall();
  const { sessions = Infinity } = /** @type {any} */ (model).info ?? {};
  const timer = setInterval(() => {
    for (const entry of [...streams]) if (streams.size >= sessions && ++entry.idleChecks > 2) entry.end();
  }, timeout('streamLook'));
  try {
    return await runCall();
  } finally {
    clearInterval(timer);
  }
}

/**
 * Creates the stream of a reply.
 * @param {AnyModel} model
 * @param {Awaited<ReturnType<typeof startEagerly>>} pieceStream
 * @param {object[]} head  first parts of the stream
 */
function streamOf(model, pieceStream, head) {
  const parts = partsOf(pieceStream);
  const streams = streamsByModel.get(model) ?? new Set();
  streamsByModel.set(model, streams);
  /** @type {ReadableStreamDefaultController<any>} */
  let sink;
  const leave = async () => {
    streams.delete(entry);
    await parts.return();
    await pieceStream.return();
  };
  /** @type {OpenStream} */
  const entry = {
    idleChecks: 0,
    end() {
      sink.error(new BqError('STATE', 'the stream was not read for a while, and another call needed its session'));
      void leave();
    },
  };
  streams.add(entry);
  return new ReadableStream({
    start: (controller) => void (sink = controller),
    async pull() {
      const next = head.shift();
      if (next) return sink.enqueue(next);
      entry.idleChecks = -Infinity;
      try {
        const { done, value } = await parts.next();
        if (done) sink.close();
        else sink.enqueue(value);
        if (done) streams.delete(entry);
      } catch (error) {
        streams.delete(entry);
        throw error;
      } finally {
        entry.idleChecks = 0;
      }
    },
    cancel: leave,
  });
}

/**
 * Creates a LanguageModelV4.
 * @param {AnyModel} model  a local model, or a model of `connect()`
 * @param {{ modelId?: string }} [options]
 * @returns {LanguageModelV4}
 */
export function languageModel(model, options) {
  const modelId = idOf('languageModel', model, options);
  return {
    specificationVersion: 'v4',
    provider: 'bq4',
    modelId,
    supportedUrls: {},
    async doGenerate(/** @type {CallOptions} */ options) {
      const { body, warnings } = requestOf(options);
      const reply = await endIdleStreamsDuring(model, () => collectReply(pieces(model, body, options.abortSignal)));
      return {
        content: contentOf(reply),
        finishReason: reasonOf(reply.reason),
        usage: usageOf(reply.usage),
        ...metadataOf(reply.metadata),
        request: { body },
        response: { modelId },
        warnings,
      };
    },
    async doStream(/** @type {CallOptions} */ options) {
      const { body, warnings } = requestOf(options);
      const pieceStream = await endIdleStreamsDuring(model, () =>
        startEagerly(pieces(model, body, options.abortSignal)),
      );
      const head = [
        { type: 'stream-start', warnings },
        { type: 'response-metadata', modelId },
      ];
      return { stream: streamOf(model, pieceStream, head), request: { body } };
    },
  };
}

/**
 * Creates an EmbeddingModelV4.
 * @param {AnyModel} model @param {{ modelId?: string }} [options]
 * @returns {EmbeddingModelV4}
 */
export const embeddingModel = (model, options) => ({
  specificationVersion: 'v4',
  provider: 'bq4',
  modelId: idOf('embeddingModel', model, options),
  maxEmbeddingsPerCall: MAX_TEXTS,
  supportsParallelCalls: false,
  async doEmbed(/** @type {any} */ { values, abortSignal, providerOptions }) {
    const { vectors, tokens } = await endIdleStreamsDuring(model, () =>
      vectorsOf(model, values, { ...providerOptions?.bq4 }, abortSignal),
    );
    return { embeddings: vectors, usage: { tokens }, warnings: [] };
  },
});

/**
 * Creates a RerankingModelV4.
 * @param {AnyModel} model @param {{ modelId?: string }} [options]
 * @returns {RerankingModelV4}
 */
export const rerankingModel = (model, options) => ({
  specificationVersion: 'v4',
  provider: 'bq4',
  modelId: idOf('rerankingModel', model, options),
  async doRerank(/** @type {any} */ { documents: { type, values }, query, topN, abortSignal, providerOptions }) {
    const reranker = /** @type {AnyModel & Pick<RemoteModel, 'rerank'>} */ (model);
    const texts = type === 'object' ? values.map((/** @type {object} */ document) => JSON.stringify(document)) : values;
    const ranked = await endIdleStreamsDuring(model, () =>
      reranker.rerank(query, texts, { topN, ...providerOptions?.bq4, signal: abortSignal }),
    );
    return {
      ranking: ranked.map(({ index, score }) => ({ index, relevanceScore: score })),
      warnings:
        type === 'object'
          ? [{ type: 'compatibility', feature: 'object documents', details: 'they are converted to JSON' }]
          : [],
      response: { modelId: this.modelId },
    };
  },
});

/**
 * Creates a ProviderV4 that returns models by name, for instance for `createProviderRegistry`.
 * @param {Record<string, AnyModel>} models
 * @returns {ProviderV4}
 */
export function createProvider(models) {
  if (object(models)) throw wrong('the models', models, 'an object of models by name');
  for (const model of Object.values(models)) checkModel(model);
  const modelNamed = (/** @type {string} */ id) => {
    if (Object.hasOwn(models, id)) return models[id];
    throw new BqError('ARGUMENT', `unknown model "${id}"`, {
      hint: `expected one of ${Object.keys(models).join(', ')}`,
    });
  };
  return {
    specificationVersion: 'v4',
    languageModel: (/** @type {string} */ modelId) => languageModel(modelNamed(modelId), { modelId }),
    embeddingModel: (/** @type {string} */ modelId) => embeddingModel(modelNamed(modelId), { modelId }),
    rerankingModel: (/** @type {string} */ modelId) => rerankingModel(modelNamed(modelId), { modelId }),
    imageModel: () => {
      throw new BqError('UNSUPPORTED', 'bq4 does not generate images');
    },
  };
}
