/**
 * A model behind any server with OpenAI's interface, by the same methods that a model of this machine has. Needs nothing but fetch.
 */
import { runTools } from '../openai/run-tools.js';
import { ChunkStream } from '../openai/stream.js';
import { follow } from '../shared/async.js';
import { BqError } from '../shared/errors.js';
import { understand } from '../shared/openai-errors.js';
import { events } from './events.js';

/** @import { Model } from '../shared/types.js' */

/**
 * @typedef {object} ConnectOptions
 * @property {string} [token]  sent as `Authorization: Bearer`
 * @property {string} [model]  for requests that name none; default: the first that the server lists
 * @property {Record<string, string>} [headers]  sent with every request
 * @property {typeof fetch} [fetch]
 */

/** What every request may bring. @typedef {{ signal?: AbortSignal }} RequestOptions */

/** @typedef {Required<Pick<ConnectOptions, 'headers' | 'fetch'>> & { url: string }} Server */

/** Characters of an answer that is no JSON which are told. */
const SHOWN = 200;

/** @param {string} url @param {Server} server @param {RequestInit} init @returns {Promise<Response>} */
async function ask(url, { headers, fetch: get }, init) {
  let response;
  try {
    response = await get(url, {
      ...init,
      headers: { ...headers, ...(init.body ? { 'Content-Type': 'application/json' } : {}) },
    });
  } catch (/** @type {any} */ cause) {
    if (init.signal?.aborted) throw init.signal.reason;
    // Node says no more than "fetch failed", and the reason behind it: refused, or 300 s without an answer.
    throw new BqError('NETWORK', `${url} can't be reached: ${cause.cause?.message || cause.message}`, {
      cause,
      details: { url },
      hint: 'check that the server runs, that it allows this page (CORS), and that the Content-Security-Policy has it in connect-src',
    });
  }
  if (!response.ok)
    throw understand(response.status, await answerOf(response, url, init.signal).catch(() => null), url);
  return response;
}

/** @param {Response} response @param {string} url @param {AbortSignal | null} [signal] @returns {Promise<any>} */
async function answerOf(response, url, signal) {
  let text;
  try {
    text = await response.text();
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    throw broken(url, cause);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!response.ok) return text;
    throw new BqError('FORMAT', `${url} answers with something else than JSON: ${text.slice(0, SHOWN)}`, {
      cause,
      details: { url },
      hint: 'check the address of the server, which ends in /v1',
    });
  }
}

/** @param {string} url @param {unknown} [cause] */
const broken = (url, cause) =>
  new BqError('NETWORK', `the connection to ${url} ended before the answer did`, { cause, details: { url } });

/** @param {string} data @param {string} url */
function chunkOf(data, url) {
  let chunk;
  try {
    chunk = JSON.parse(data);
  } catch (cause) {
    throw new BqError('FORMAT', `${url} sends a chunk that is no JSON: ${data.slice(0, SHOWN)}`, {
      cause,
      details: { url },
    });
  }
  if (chunk.error) throw understand(200, chunk, url);
  return chunk;
}

/**
 * The chunks of a reply. A connection that ends before the reply does is an error, never a short reply.
 * @param {Response} response @param {string} url @param {ReturnType<typeof follow>} life
 * @returns {AsyncGenerator<any, void>}
 */
async function* chunks(response, url, { signal, release }) {
  let whole = false;
  try {
    for await (const data of events(/** @type {ReadableStream<Uint8Array>} */ (response.body))) {
      if (data === '[DONE]') return;
      const chunk = chunkOf(data, url);
      whole ||= Boolean(chunk.choices?.[0]?.finish_reason);
      yield chunk;
      signal.throwIfAborted();
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw error instanceof BqError ? error : broken(url, error);
  } finally {
    release();
  }
  if (!whole) throw broken(url);
}

/**
 * ARGUMENT: no address. Everything else fails when it is asked: NETWORK, HTTP_STATUS with `details.status`, CONTEXT_FULL, and the other
 * codes of a `bq4 serve`.
 * @param {string | URL} address  up to `/v1`
 * @param {ConnectOptions} [options]
 * @returns {RemoteModel}
 */
export function connect(address, { token, model, headers = {}, fetch: get = globalThis.fetch.bind(globalThis) } = {}) {
  const url = addressOf(address);
  /** @type {Server} */
  const server = { url, fetch: get, headers: { ...headers, ...(token && { Authorization: `Bearer ${token}` }) } };
  /** @type {Promise<string> | null} */
  let first = null;
  /** @param {RequestOptions} [options] @returns {Promise<ModelList>} */
  const list = async ({ signal } = {}) =>
    answerOf(await ask(`${url}/models`, server, { signal }), `${url}/models`, signal);
  /** The name of a model, when none was said. @param {AbortSignal} [signal] */
  const named = async (signal) => {
    first ??= list({ signal }).then(({ data }) => data?.[0]?.id ?? '');
    first.catch(() => (first = null));
    return first;
  };
  /** @param {string} path @returns {{ create: (body: any, options?: RequestOptions) => Promise<any> }} */
  const method = (path) => ({
    create: async (body, { signal: given } = {}) => {
      given?.throwIfAborted();
      const life = follow(given);
      const { signal } = life;
      const at = `${url}/${path}`;
      try {
        const whole = { ...body, model: body.model ?? model ?? (await named(signal)) };
        const response = await ask(at, server, { method: 'POST', body: JSON.stringify(whole), signal });
        if (body.stream) return new ChunkStream(chunks(response, at, life), life.controller);
        return await answerOf(response, at, signal);
      } finally {
        if (!body.stream) life.release();
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

/** @param {string | URL} address */
function addressOf(address) {
  try {
    const { href } = new URL(address, globalThis.location?.href);
    return href.replace(/[?#].*$/, '').replace(/\/+$/, '');
  } catch (cause) {
    throw new BqError('ARGUMENT', `"${address}" is no address of a server`, {
      cause,
      hint: 'for instance http://127.0.0.1:8080/v1',
    });
  }
}
