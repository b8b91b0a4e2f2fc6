/**
 * A server with OpenAI's interface for loaded models, for development on this machine. All input of a client is bounded and
 * checked; the generations of a client that disconnects are aborted.
 */
import { setMaxListeners } from 'node:events';
import { createServer } from 'node:http';
import { toOpenAIError } from '../openai/errors.js';
import { Body, BodyBudget } from './body.js';
import { checkOrigin, checkToken, preflight } from './guard.js';
import { Queue } from './queue.js';
import { Refusal } from './refusal.js';
import { get, modelFor, POSTS } from './routes.js';

/** @import { IncomingMessage, Server, ServerResponse } from 'node:http' */
/** @import { Model } from '../../shared/types.js' */

/** Milliseconds for a client to send its request. */
const RECEIVE_MS = 60_000;
/** Bytes of a stream that a slow client may leave unread. */
const UNREAD = 8 << 20;

/** A model that is served. @typedef {{ id: string, model: Model, created: number, queue: Queue }} Served */

/**
 * @typedef {object} ServeOptions
 * @property {string} [host]       to listen at; default 127.0.0.1, this machine alone
 * @property {number} [port]       0: any that is free; default 8080
 * @property {string} [token]      clients must send it; default: none is needed
 * @property {string[]} [origins]  allowed origins of pages; '*': all; default: none
 * @property {string[]} [hosts]    names of the server, besides localhost and IP addresses
 * @property {number} [maxBody]    bytes of a request; default 4 MiB
 * @property {number} [maxWaiting] requests that may wait for one model; default 32
 */

/**
 * @param {{ id: string, model: Model }[]} models  `id`: the name in requests
 * @param {ServeOptions} [options]
 * @returns {Promise<{ url: string, close: () => Promise<void> }>}
 */
export async function serveModels(
  models,
  { host = '127.0.0.1', port = 8080, token = '', origins = [], hosts = [], maxBody = 4 << 20, maxWaiting = 32 } = {},
) {
  const created = Math.floor(Date.now() / 1000);
  const servedModels = models.map(({ id, model }) => ({
    id,
    model,
    created,
    queue: new Queue(model.info.sessions, maxWaiting),
  }));
  const rules = { token, origins, hosts: [host, ...hosts] };
  const room = new BodyBudget(maxBody);
  const ending = new AbortController();
  setMaxListeners(0, ending.signal); // one for each request under way
  /** @type {Set<Promise<void>>} */
  const running = new Set();
  const server = createServer({ requestTimeout: RECEIVE_MS }, (request, response) => {
    const exchange = answer(request, response, { served: servedModels, rules, room, ending: ending.signal }).finally(
      () => running.delete(exchange),
    );
    running.add(exchange);
  });
  await listen(server, host, port);
  const at = /** @type {import('node:net').AddressInfo} */ (server.address());
  const name = at.family === 'IPv6' ? `[${at.address}]` : at.address;
  return {
    url: `http://${name}:${at.port}/v1`,
    async close() {
      const whenClosed = new Promise((resolve) => server.close(resolve));
      ending.abort(new Refusal(503, 'shutting_down', 'the server is shutting down'));
      await Promise.all(running);
      server.closeAllConnections();
      await whenClosed;
    },
  };
}

/** @param {Server} server @param {string} host @param {number} port @returns {Promise<void>} */
function listen(server, host, port) {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** @typedef {{ served: Served[], rules: import('./guard.js').Rules, room: BodyBudget, ending: AbortSignal }} Site */

/** @param {IncomingMessage} request @param {ServerResponse} response @param {Site} site */
async function answer(request, response, site) {
  const disconnect = new AbortController();
  const end = () => disconnect.abort(site.ending.reason);
  response.once('close', () => {
    site.ending.removeEventListener('abort', end);
    disconnect.abort();
  });
  site.ending.addEventListener('abort', end);
  try {
    takeTarget(request);
    for (const [name, value] of Object.entries(checkOrigin(request, site.rules))) response.setHeader(name, value);
    await route(request, response, site, disconnect.signal);
  } catch (error) {
    if (!response.destroyed) fail(response, error);
  }
}

/** Of a request for a whole address (RFC 9112, 3.2.2) the host counts as its Host, the rest as its path. @param {IncomingMessage} request */
function takeTarget(request) {
  const { url = '' } = request;
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return;
  const { host, pathname, search } = new URL(url);
  request.headers.host = host;
  request.url = pathname + search;
}

/** @param {IncomingMessage} request @param {ServerResponse} response @param {Site} site @param {AbortSignal} signal  aborted when the client has gone */
async function route(request, response, { served: servedModels, rules, room }, signal) {
  const path = (request.url ?? '/').split('?', 1)[0];
  if (request.method === 'OPTIONS') return void response.writeHead(204, preflight(request)).end();
  if (path !== '/health') checkToken(request, rules);
  const posts = Object.hasOwn(POSTS, path);
  // Node sends the headers alone where HEAD asks for them, as probes of health do.
  const methods = posts ? ['POST'] : ['GET', 'HEAD'];
  if (!methods.includes(String(request.method))) {
    if (!posts) get(path, servedModels); // throws 404 for an unknown path
    throw new Refusal(405, 'method_not_allowed', `${path} expects the method ${methods[0]}`, {
      Allow: methods.join(', '),
    });
  }
  if (!posts) return json(response, 200, get(path, servedModels));
  const body = new Body(room);
  try {
    await body.read(request);
    const { model: name, n } = body.parse();
    const { id, model, queue } = modelFor(path, name, servedModels);
    const choices = path.endsWith('/completions') && Number.isInteger(n) ? n : 1;
    const answer = async (/** @type {number} */ parallel) => {
      const fields = body.parse();
      const options = choices > 1 ? { signal, parallel } : { signal };
      const completion = await POSTS[path](model).create({ ...fields, model: id }, options);
      if (fields.stream) await stream(response, completion);
      else json(response, 200, completion);
    };
    await queue.run(signal, answer, choices);
  } finally {
    body.release();
  }
}

/** @param {ServerResponse} response @param {number} status @param {unknown} value @param {Record<string, string>} [headers] */
function json(response, status, value, headers) {
  response
    .writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'no-store', ...headers })
    .end(JSON.stringify(value));
}

/**
 * Sends chunks as server-sent events. Nothing is sent before the first chunk, so that an early failure has its own status. A slow
 * reader does not hold up others: a connection with too many unread bytes is closed.
 * @param {ServerResponse} response @param {AsyncIterable<unknown>} chunks
 */
async function stream(response, chunks) {
  for await (const chunk of chunks) {
    if (!response.headersSent)
      response.writeHead(200, {
        'Content-Type': 'text/event-stream; charset=utf-8',
        'Cache-Control': 'no-store',
        'X-Accel-Buffering': 'no',
      });
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    if (response.writableLength > UNREAD) return void response.destroy();
  }
  response.end('data: [DONE]\n\n');
}

/** @param {ServerResponse} response @param {unknown} error */
function fail(response, error) {
  const { status, error: errorBody } = error instanceof Refusal ? error.answer : toOpenAIError(error);
  if (response.headersSent) return void response.end(`data: ${JSON.stringify({ error: errorBody })}\n\n`);
  json(response, status, { error: errorBody }, error instanceof Refusal ? error.headers : undefined);
}
