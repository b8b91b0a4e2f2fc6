/**
 * A model behind any server with OpenAI's interface, with the methods of a local model. It needs only `fetch`.
 */
import { runTools } from '../openai/run-tools.js';
import { ChunkStream } from '../openai/stream.js';
import { follow, unlessAborted } from '../../shared/async.js';
import { anyValue, callback, object, text } from '../../shared/checks.js';
import { BqError, thrownText } from '../../shared/errors.js';
import { checkBy, checkOptions, wrong } from '../../shared/options.js';
import { ChunkReader, chunkOfAnswer } from '../openai/chunks.js';
import { fromOpenAIError } from '../openai/errors.js';
import { shown } from '../../shared/quote-value.js';
import { withPlainSchemas } from '../../shared/standard-schema.js';
import { events } from './server-sent-events.js';

/** @import { Model } from '../../shared/types.js' */

/**
 * @typedef {object} ConnectOptions
 * @property {string} [apiKey]  sent as `Authorization: Bearer`
 * @property {string} [model]  for requests that name none; default: the first that the server lists
 * @property {HeadersInit} [headers]  sent with every request
 * @property {typeof fetch} [fetch]
 */

/** Options of every request. @typedef {{ signal?: AbortSignal }} RequestOptions */

/** @typedef {{ url: string, fetch: typeof fetch, headers: Record<string, string> }} Server */

const OPTIONS = { apiKey: text, model: text, headers: anyValue, fetch: callback };

/** Characters of an unreadable answer that an error message quotes. */
const MAX_QUOTED = 200;

/** @param {string} url @param {Server} server @param {RequestInit} init @returns {Promise<Response>} */
async function ask(url, { headers, fetch: send }, init) {
  let response;
  try {
    response = await send(url, {
      ...init,
      headers: { ...headers, ...(init.body ? { 'content-type': 'application/json' } : {}) },
    });
  } catch (/** @type {any} */ cause) {
    if (init.signal?.aborted) throw init.signal.reason;
    // In Node the message is only "fetch failed"; the reason, such as a refused connection, is its cause.
    throw new BqError('NETWORK', `${url} can't be reached: ${cause?.cause?.message || thrownText(cause)}`, {
      cause,
      details: { url },
      hint: 'check that the server runs, that it allows this page (CORS), and that the Content-Security-Policy has it in connect-src',
    });
  }
  if (!response.ok)
    throw fromOpenAIError(response.status, await answerOf(response, url, init.signal).catch(() => null), url);
  return response;
}

/** @param {Response} response @param {string} url @param {AbortSignal | null} [signal] @returns {Promise<any>} */
async function answerOf(response, url, signal) {
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
  new BqError('NETWORK', `the connection to ${url} ended before the answer did`, { cause, details: { url } });

/** Throws the error that some servers answer with a status of success. @param {any} answer @param {string} url */
function checkAnswer(answer, url) {
  if (answer?.error) throw fromOpenAIError(200, answer, url);
  if (answer?.object === 'error') throw fromOpenAIError(200, { error: answer }, url);
  if (answer !== null && typeof answer === 'object' && !Array.isArray(answer)) return answer;
  throw new BqError('FORMAT', `${url}: expected an object, found ${shown(answer)}`, {
    details: { url },
    hint: 'check the address of the server, which ends in /v1',
  });
}

/** Checks that a complete answer has its list, since callers read its first entry. @param {any} answer @param {string} url */
function checkWhole(answer, url) {
  const list = url.endsWith('/embeddings') ? 'data' : 'choices';
  if (Array.isArray(checkAnswer(answer, url)[list]) && answer[list].length > 0) return answer;
  throw new BqError('FORMAT', `${url}: expected "${list}" with at least one entry, found ${shown(answer[list])}`, {
    details: { url },
  });
}

/** @param {{ data: string, whole: boolean }} event @param {string} url */
function chunkOf({ data, whole: isComplete }, url) {
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
  return checkAnswer(chunk, url);
}

/**
 * The chunks of a reply. A connection that ends before the reply does is an error, never a short reply.
 * @param {Response} response @param {string} url @param {ReturnType<typeof follow>} life
 * @returns {AsyncGenerator<any, void>}
 */
async function* chunks(response, url, { signal, release }) {
  let isFinished = false;
  const reader = new ChunkReader();
  const isChat = url.endsWith('/chat/completions');
  try {
    let { body } = response;
    if (/\bjson\b/.test(response.headers.get('content-type') ?? '')) {
      // A server without streaming: a complete answer or an error. Others send events with the wrong content type.
      const text = await response.text();
      if (/^\s*\{/.test(text)) {
        const answer = chunkOf({ data: text, whole: false }, url);
        yield isChat ? chunkOfAnswer(reader.read(answer, 'message')) : answer;
        return;
      }
      ({ body } = new Response(text));
    }
    for await (const event of events(/** @type {ReadableStream<Uint8Array>} */ (body))) {
      if (event.data === '[DONE]') return;
      if (!event.data) continue;
      const received = chunkOf(event, url);
      const chunk = isChat ? reader.read(received) : { ...received, choices: received.choices ?? [] };
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
 * ARGUMENT: no address. Requests fail with NETWORK, HTTP_STATUS with `details.status`, CONTEXT_FULL, and the other
 * codes of a `bq4 serve`.
 * @param {string | URL} address  up to `/v1`
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
  /** @type {Promise<string> | null} */
  let first = null;
  /** @param {RequestOptions} [listOptions] @returns {Promise<ModelList>} */
  const list = async (listOptions) => {
    const { signal } = checkOptions('createOne', listOptions);
    const at = `${url}/models`;
    return checkAnswer(await answerOf(await ask(at, server, { signal }), at, signal), at);
  };
  /** The first model that the server lists, for requests that name none. @param {AbortSignal} [signal] */
  const defaultModel = async (signal) => {
    // Concurrent calls share one request, which goes on when one of the callers aborts.
    if (!first) {
      first = list().then(({ data }) => data?.[0]?.id ?? '');
      first.catch(() => (first = null));
    }
    return unlessAborted(first, signal);
  };
  /** @param {string} path @returns {{ create: (body: any, options?: RequestOptions) => Promise<any> }} */
  const method = (path) => ({
    create: async (body, createOptions) => {
      const { signal: callerSignal } = checkOptions('create', createOptions);
      if (object(body)) throw wrong('the request', body, 'an object');
      callerSignal?.throwIfAborted();
      const lifetime = follow(callerSignal);
      const { signal } = lifetime;
      const at = `${url}/${path}`;
      try {
        const request = { ...withPlainSchemas(body), model: body.model ?? model ?? (await defaultModel(signal)) };
        const response = await ask(at, server, { method: 'POST', body: JSON.stringify(request), signal });
        if (body.stream) return new ChunkStream(chunks(response, at, lifetime), lifetime.controller);
        const answer = checkWhole(await answerOf(response, at, signal), at);
        return path === 'chat/completions' ? new ChunkReader().read(answer, 'message') : answer;
      } finally {
        if (!body.stream) lifetime.release();
      }
    },
  });
  const completions = method('chat/completions');
  /** @type {Model['chat']['completions']['runTools']} */
  const tools = (body, options) => runTools(completions.create, body, options);
  return {
    url,
    models: { list },
    chat: { completions: { ...completions, runTools: tools } },
    completions: method('completions'),
    embeddings: method('embeddings'),
  };
}

/**
 * @typedef {Pick<Model, 'chat' | 'completions' | 'embeddings'> & { url: string, models: { list: (options?: RequestOptions) => Promise<ModelList> } }} RemoteModel
 */

/** @typedef {{ object: 'list', data: { id: string, object: 'model', created: number, owned_by: string }[] }} ModelList */

/** The headers of every request. ARGUMENT: HTTP has no such header. @param {HeadersInit | undefined} given @param {string | undefined} apiKey */
function headersOf(given, apiKey) {
  let param = 'headers';
  try {
    const headers = new Headers(given);
    param = 'apiKey';
    if (apiKey) headers.set('Authorization', `Bearer ${apiKey}`);
    return Object.fromEntries(headers);
  } catch (cause) {
    // The reason would quote a key.
    const reason =
      param === 'headers' ? /** @type {Error} */ (cause).message : 'it has characters that no header can have';
    throw new BqError('ARGUMENT', `${param}: ${reason}`, { details: { param } });
  }
}

/** @param {string | URL} address */
function addressOf(address) {
  try {
    const { href, host } = new URL(address, globalThis.location?.href);
    if (!host) throw new TypeError('the address names no host');
    return href.replace(/[?#].*$/, '').replace(/\/+$/, '');
  } catch (cause) {
    throw new BqError('ARGUMENT', `"${address}" is no address of a server`, {
      cause,
      hint: 'for instance http://127.0.0.1:8080/v1',
    });
  }
}
