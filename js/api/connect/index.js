/**
 * A model behind any server with OpenAI's interface, by the same methods that a model of this machine has. Needs nothing but fetch.
 */
import { runTools } from '../openai/run-tools.js';
import { ChunkStream } from '../openai/stream.js';
import { follow, unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { ChunkReader, chunkOfAnswer } from '../openai/chunks.js';
import { understand } from '../openai/errors.js';
import { shown } from '../../shared/quote-value.js';
import { withPlainSchemas } from '../../shared/standard-schema.js';
import { events } from './server-sent-events.js';

/** @import { Model } from '../../shared/types.js' */

/**
 * @typedef {object} ConnectOptions
 * @property {string} [apiKey]  sent as `Authorization: Bearer`
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

/** An answer that is an error though its status says success. @param {any} answer @param {string} url */
function checkAnswer(answer, url) {
  if (answer?.error) throw understand(200, answer, url);
  if (answer?.object === 'error') throw understand(200, { error: answer }, url);
  if (answer !== null && typeof answer === 'object' && !Array.isArray(answer)) return answer;
  throw new BqError('FORMAT', `${url} answers with something else than an object: ${shown(answer)}`, {
    details: { url },
    hint: 'check the address of the server, which ends in /v1',
  });
}

/** A whole answer, which has its list: callers read its first entry. @param {any} answer @param {string} url */
function checkWhole(answer, url) {
  const list = url.endsWith('/embeddings') ? 'data' : 'choices';
  if (Array.isArray(checkAnswer(answer, url)[list]) && answer[list].length > 0) return answer;
  throw new BqError('FORMAT', `${url}: expected "${list}" with at least one entry, found ${shown(answer[list])}`, {
    details: { url },
  });
}

/** @param {{ data: string, whole: boolean }} event @param {string} url */
function chunkOf({ data, whole }, url) {
  let chunk;
  try {
    chunk = JSON.parse(data);
  } catch (cause) {
    if (!whole) throw broken(url, cause);
    throw new BqError('FORMAT', `${url} sends a chunk that is no JSON: ${data.slice(0, SHOWN)}`, {
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
  let whole = false;
  const reader = new ChunkReader();
  const isChat = url.endsWith('/chat/completions');
  try {
    let { body } = response;
    if (/\bjson\b/.test(response.headers.get('content-type') ?? '')) {
      // A whole answer, an error, or events under a wrong name.
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
      const given = chunkOf(event, url);
      const chunk = isChat ? reader.read(given) : { ...given, choices: given.choices ?? [] };
      whole ||= Boolean(chunk.choices[0]?.finish_reason);
      if (!chunk.choices.length && !chunk.usage) continue;
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
export function connect(address, { apiKey, model, headers = {}, fetch: get = globalThis.fetch.bind(globalThis) } = {}) {
  const url = addressOf(address);
  /** @type {Server} */
  const server = { url, fetch: get, headers: { ...headers, ...(apiKey && { Authorization: `Bearer ${apiKey}` }) } };
  /** @type {Promise<string> | null} */
  let first = null;
  /** @param {RequestOptions} [options] @returns {Promise<ModelList>} */
  const list = async ({ signal } = {}) =>
    checkAnswer(
      await answerOf(await ask(`${url}/models`, server, { signal }), `${url}/models`, signal),
      `${url}/models`,
    );
  /** The name of a model, when none was said. @param {AbortSignal} [signal] */
  const named = async (signal) => {
    // One request for all who ask at once: it goes on where one of them leaves.
    if (!first) {
      first = list().then(({ data }) => data?.[0]?.id ?? '');
      first.catch(() => (first = null));
    }
    return unlessAborted(first, signal);
  };
  /** @param {string} path @returns {{ create: (body: any, options?: RequestOptions) => Promise<any> }} */
  const method = (path) => ({
    create: async (body, { signal: given } = {}) => {
      given?.throwIfAborted();
      const life = follow(given);
      const { signal } = life;
      const at = `${url}/${path}`;
      try {
        const whole = { ...withPlainSchemas(body), model: body.model ?? model ?? (await named(signal)) };
        const response = await ask(at, server, { method: 'POST', body: JSON.stringify(whole), signal });
        if (body.stream) return new ChunkStream(chunks(response, at, life), life.controller);
        const answer = checkWhole(await answerOf(response, at, signal), at);
        return path === 'chat/completions' ? new ChunkReader().read(answer, 'message') : answer;
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
