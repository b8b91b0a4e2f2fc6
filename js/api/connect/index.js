/**
 * Client for servers with OpenAI's interface, with the methods of a local model. It only needs `fetch`.
 */
import { runTools } from '../openai/run-tools.js';
import { ChunkStream } from '../openai/stream.js';
import { follow, unlessAborted } from '../../shared/async.js';
import { anyValue, callback, integer, object, signal as abortSignal, text } from '../../shared/checks.js';
import { BqError, thrownText } from '../../shared/errors.js';
import { checkBy, wrong } from '../../shared/check-options.js';
import { ChunkReader, chunkOfAnswer } from '../openai/chunks.js';
import { fromOpenAIError } from '../openai/errors.js';
import { shown } from '../../shared/quote-value.js';
import { withPlainSchemas } from '../../shared/standard-schema.js';
import { remoteRerank } from './remote-rerank.js';
import { events } from './server-sent-events.js';

/** @import { Model } from '../../shared/types.js' */
/** @import { RemoteRanked, RemoteRerankOptions } from './remote-rerank.js' */

/**
 * @typedef {object} ConnectOptions
 * @property {string} [apiKey]  sent as `Authorization: Bearer`
 * @property {string} [model]  model for requests without one. Default: the first one in the server's list
 * @property {HeadersInit} [headers]  sent with every request
 * @property {typeof fetch} [fetch]
 */

/** Options of every request. @typedef {{ signal?: AbortSignal }} RequestOptions */

/** @typedef {{ url: string, fetch: typeof fetch, headers: Record<string, string> }} Server */

const OPTIONS = { apiKey: text, model: text, headers: anyValue, fetch: callback };

/** Largest number of characters of an unreadable response that an error message quotes. */
const MAX_QUOTED = 200;

/**
 * Sends a request. Throws NETWORK, or the error of the server.
 * @param {string} url
 * @param {Server} server
 * @param {RequestInit} init
 * @returns {Promise<Response>}
 */
async function request(url, { headers, fetch: send }, init) {
  let response;
  try {
    response = await send(url, {
      ...init,
      headers: { ...headers, ...(init.body ? { 'content-type': 'application/json' } : {}) },
    });
  } catch (/** @type {any} */ cause) {
    if (init.signal?.aborted) throw init.signal.reason;
    // In Node the message is only "fetch failed". The reason, such as a refused connection, is in its cause.
    throw new BqError('NETWORK', `${url} can't be reached: ${cause?.cause?.message || thrownText(cause)}`, {
      cause,
      details: { url },
      hint: 'check that the server runs, that it allows this page (CORS), and that connect-src of the Content-Security-Policy allows it',
    });
  }
  if (typeof response?.text !== 'function') throw wrong('the result of `fetch`', response, 'a Response');
  if (!response.ok)
    throw fromOpenAIError(response.status, await jsonOf(response, url, init.signal).catch(() => null), url);
  return response;
}

/** Returns a request as JSON. Throws ARGUMENT for values that JSON can't represent. @param {object} fields */
function requestText(fields) {
  try {
    return JSON.stringify(fields);
  } catch (/** @type {any} */ cause) {
    throw new BqError(
      'ARGUMENT',
      `expected a request that JSON can represent: ${String(cause.message).split('\n')[0]}`,
      {
        cause,
        hint: 'pass no BigInt, and no object that contains itself',
      },
    );
  }
}

/**
 * Reads the JSON of a response. Throws NETWORK, FORMAT. A response with an error status may also be other text.
 * @param {Response} response @param {string} url @param {AbortSignal | null} [signal] @returns {Promise<any>}
 */
async function jsonOf(response, url, signal) {
  let text;
  try {
    text = await response.text();
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    throw connectionLost(url, cause);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!response.ok) return text;
    throw new BqError('FORMAT', `${url}: expected JSON, found ${text.slice(0, MAX_QUOTED)}`, {
      cause,
      details: { url },
      hint: 'check the address of the server, which ends in /v1',
    });
  }
}

/** @param {string} url @param {unknown} [cause] */
const connectionLost = (url, cause) =>
  new BqError('NETWORK', `the connection to ${url} ended before the response was complete`, {
    cause,
    details: { url },
  });

/**
 * Returns the JSON of a response. Throws an error that the server has sent with a status of success, and FORMAT.
 * @param {any} json @param {string} url
 */
function checkJson(json, url) {
  if (json?.error) throw fromOpenAIError(200, json, url);
  if (json?.object === 'error') throw fromOpenAIError(200, { error: json }, url);
  if (json !== null && typeof json === 'object' && !Array.isArray(json)) return json;
  throw new BqError('FORMAT', `${url}: expected an object, found ${shown(json)}`, {
    details: { url },
    hint: 'check the address of the server, which ends in /v1',
  });
}

/** @param {any} list */
const isListOfObjects = (list) => Array.isArray(list) && list.every((entry) => entry && !object(entry));

/**
 * Returns the JSON of a complete response. Checks that its list has objects, because callers read its first entry.
 * Throws FORMAT.
 * @param {any} json
 * @param {string} url
 */
function checkCompleteJson(json, url) {
  const list = url.endsWith('/embeddings') ? 'data' : url.endsWith('/rerank') ? 'results' : 'choices';
  if (isListOfObjects(checkJson(json, url)[list]) && json[list].length > 0) return json;
  throw new BqError('FORMAT', `${url}: expected "${list}" with at least one entry, found ${shown(json[list])}`, {
    details: { url },
  });
}

/**
 * Returns the choices of a chunk; none if it has no list of them. Throws FORMAT.
 * @param {any} chunk @param {string} url @returns {any[]}
 */
function choicesOf({ choices }, url) {
  const list = Array.isArray(choices) ? choices.filter((choice) => choice !== null) : (choices ?? []);
  if (isListOfObjects(list)) return list;
  throw new BqError('FORMAT', `${url}: expected a list of objects in "choices", found ${shown(choices)}`, {
    details: { url },
  });
}

/**
 * Parses the data of an event. Throws FORMAT, or NETWORK if the event was cut.
 * @param {{ data: string, isComplete: boolean }} event
 * @param {string} url
 */
function chunkOf({ data, isComplete }, url) {
  let chunk;
  try {
    chunk = JSON.parse(data);
  } catch (cause) {
    if (!isComplete) throw connectionLost(url, cause);
    throw new BqError('FORMAT', `${url}: expected a chunk of JSON, found ${data.slice(0, MAX_QUOTED)}`, {
      cause,
      details: { url },
    });
  }
  return checkJson(chunk, url);
}

/**
 * Yields the chunks of a reply. If the connection ends before the reply, NETWORK is thrown.
 * @param {Response} response @param {string} url @param {ReturnType<typeof follow>} lifetime
 * @returns {AsyncGenerator<any, void>}
 */
async function* chunks(response, url, { signal, release }) {
  let isFinished = false;
  const reader = new ChunkReader();
  const isChat = url.endsWith('/chat/completions');
  try {
    let { body } = response;
    if (/\bjson\b/.test(response.headers.get('content-type') ?? '')) {
      // A server without streaming sends a complete response or an error. Other servers send events with the wrong
      // content type.
      const text = await response.text();
      if (/^\s*\{/.test(text)) {
        const json = checkCompleteJson(chunkOf({ data: text, isComplete: false }, url), url);
        yield isChat ? chunkOfAnswer(reader.read(json, 'message')) : json;
        return;
      }
      ({ body } = new Response(text));
    }
    for await (const event of events(/** @type {ReadableStream<Uint8Array>} */ (body))) {
      if (event.data === '[DONE]') return;
      if (!event.data) continue;
      const json = chunkOf(event, url);
      const received = { ...json, choices: choicesOf(json, url) };
      const chunk = isChat ? reader.read(received) : received;
      isFinished ||= Boolean(chunk.choices[0]?.finish_reason);
      if (!chunk.choices.length && !chunk.usage) continue;
      yield chunk;
      signal.throwIfAborted();
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw error instanceof BqError ? error : connectionLost(url, error);
  } finally {
    release();
  }
  if (!isFinished) throw connectionLost(url);
}

/**
 * Creates a client for a server. Throws ARGUMENT for an invalid address. Its requests throw NETWORK, HTTP_STATUS (with
 * `details.status`), CONTEXT_FULL, and the other codes that `bq4 serve` sends.
 * @param {string | URL} address  address of the server, ending in `/v1`
 * @param {ConnectOptions} [options]
 * @returns {RemoteModel}
 */
export function connect(address, options) {
  const {
    apiKey,
    model,
    headers,
    fetch: send = globalThis.fetch.bind(globalThis),
  } = checkBy(OPTIONS, 'connect', options);
  const url = addressOf(address);
  /** @type {Server} */
  const server = { url, fetch: send, headers: headersOf(headers, apiKey) };
  /** Id of the server's first model; null before it is requested. @type {Promise<string> | null} */
  let firstModel = null;
  /** @param {RequestOptions} [listOptions] @returns {Promise<ModelList>} */
  const list = async (listOptions) => {
    const { signal } = checkBy({ signal: abortSignal }, 'models.list', listOptions);
    const at = `${url}/models`;
    const json = checkJson(await jsonOf(await request(at, server, { signal }), at, signal), at);
    // Some servers without models send null.
    const data = json.data ?? [];
    if (Array.isArray(data)) return { ...json, data };
    throw new BqError('FORMAT', `${at}: expected a list in "data", found ${shown(data)}`, { details: { url: at } });
  };
  /**
   * Returns the id of the first model in the server's list, for requests without a model.
   * @param {AbortSignal} [signal]
   */
  const defaultModel = async (signal) => {
    // Concurrent calls share one request, which continues if one of the callers aborts.
    if (!firstModel) {
      firstModel = list().then(({ data }) => data?.[0]?.id ?? '');
      firstModel.catch(() => (firstModel = null));
    }
    return unlessAborted(firstModel, signal);
  };
  /** @param {string} path @returns {{ create: (body: any, options?: RequestOptions) => Promise<any> }} */
  const method = (path) => ({
    create: async (body, createOptions) => {
      const { signal: callerSignal } = checkBy({ signal: abortSignal, parallel: integer(1) }, 'create', createOptions);
      if (object(body)) throw wrong('the request', body, 'an object');
      callerSignal?.throwIfAborted();
      const lifetime = follow(callerSignal);
      const { signal } = lifetime;
      const at = `${url}/${path}`;
      try {
        // The first model of a server need not be a reranker. Servers with one reranker choose it by themselves.
        const isDefaultKnown = model !== undefined || path === 'rerank';
        const fields = {
          ...withPlainSchemas(body),
          model: body.model ?? (isDefaultKnown ? model : await defaultModel(signal)),
        };
        const response = await request(at, server, { method: 'POST', body: requestText(fields), signal });
        if (body.stream) return new ChunkStream(chunks(response, at, lifetime), lifetime.controller);
        const json = checkCompleteJson(await jsonOf(response, at, signal), at);
        return path === 'chat/completions' ? new ChunkReader().read(json, 'message') : json;
      } finally {
        if (!body.stream) lifetime.release();
      }
    },
  });
  const completions = method('chat/completions');
  /** @type {Model['chat']['completions']['runTools']} */
  const runToolCalls = (body, options) => runTools(completions.create, body, options);
  return {
    url,
    model,
    models: { list },
    chat: { completions: { ...completions, runTools: runToolCalls } },
    completions: method('completions'),
    embeddings: method('embeddings'),
    rerank: (query, documents, options) => remoteRerank(method('rerank').create, query, documents, options),
  };
}

/**
 * @typedef {(query: string, documents: string[], options?: RemoteRerankOptions) => Promise<RemoteRanked[]>} RemoteRerank
 */

/**
 * @typedef {Pick<Model, 'chat' | 'completions' | 'embeddings'> & { url: string, model?: string, models: { list: (options?: RequestOptions) => Promise<ModelList> }, rerank: RemoteRerank }} RemoteModel
 */

/**
 * @typedef {{ object: 'list', data: { id: string, object: 'model', created: number, owned_by: string }[] }} ModelList
 */

/**
 * Returns the headers of every request. Throws ARGUMENT for headers that HTTP does not allow.
 * @param {HeadersInit | undefined} callerHeaders @param {string | undefined} apiKey
 */
function headersOf(callerHeaders, apiKey) {
  let param = 'headers';
  try {
    const headers = new Headers(callerHeaders);
    param = 'apiKey';
    if (apiKey) headers.set('Authorization', `Bearer ${apiKey}`);
    return Object.fromEntries(headers);
  } catch (cause) {
    // For `apiKey` the message of the cause is not used, because it quotes the key.
    const reason =
      param === 'headers' ? /** @type {Error} */ (cause).message : 'it has characters that are not allowed in a header';
    throw new BqError('ARGUMENT', `${param}: ${reason}`, { details: { param } });
  }
}

/** Normalizes the address of a server. Throws ARGUMENT. @param {string | URL} address */
function addressOf(address) {
  try {
    const { href, host, username, password } = new URL(address, globalThis.location?.href);
    if (!host) throw new TypeError('the address has no host');
    if (username || password) throw new TypeError('fetch refuses addresses with a user name or password');
    return href.replace(/[?#].*$/, '').replace(/\/+$/, '');
  } catch (cause) {
    const withoutPassword = String(address).replace(/\/\/[^/]*@/, '//…@');
    throw new BqError('ARGUMENT', `expected the address of a server, found "${withoutPassword}"`, {
      cause,
      hint: 'for instance http://127.0.0.1:8080/v1; the key of a server is the option apiKey',
    });
  }
}
