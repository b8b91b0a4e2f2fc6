/**
 * A server with OpenAI's interface for loaded models, for development on this machine. All input of clients is limited
 * and checked. When a client disconnects, its generations are aborted.
 */
import { setMaxListeners } from 'node:events';
import { createServer } from 'node:http';
import { timeout } from '../../shared/timeouts.js';
import { toOpenAIError } from '../openai/errors.js';
import { Body, BodyBudget } from './body.js';
import { checkOrigin, checkToken, preflight } from './guard.js';
import { Queue } from './queue.js';
import { Refusal } from './refusal.js';
import { get, modelFor, POSTS, STREAM_CHECKS } from './routes.js';

/** @import { IncomingMessage, Server, ServerResponse } from 'node:http' */
/** @import { Model } from '../../shared/types.js' */

/** Milliseconds for a client to send its request. */
const RECEIVE_MS = 60_000;
/** Largest number of bytes of a stream that a slow client has not read. */
const MAX_UNREAD_BYTES = 8 << 20;

/** A model of the server. @typedef {{ id: string, model: Model, created: number, queue: Queue }} Served */

/**
 * @typedef {object} ServeOptions
 * @property {string} [host]       address to listen at. Default 127.0.0.1, which is only reachable from this machine
 * @property {number} [port]       0: any free port. Default 8080
 * @property {string} [token]      token that clients must send. Default: none
 * @property {string[]} [origins]  allowed origins of pages; '*': all. Default: none
 * @property {string[]} [hosts]    names of the server, in addition to localhost and IP addresses
 * @property {number} [maxBody]    largest number of bytes of a request. Default 4 MiB
 * @property {number} [maxWaiting] largest number of requests that wait for one model. Default 32
 */

/**
 * Starts a server for loaded models.
 * @param {{ id: string, model: Model }[]} models  `id`: name of the model in requests
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
  const bodyBudget = new BodyBudget(maxBody);
  const shutdown = new AbortController();
  setMaxListeners(0, shutdown.signal); // each running request adds a listener
  /** @type {Set<Promise<void>>} */
  const running = new Set();
  const server = createServer({ requestTimeout: RECEIVE_MS }, (request, response) => {
    const exchange = handleRequest(request, response, {
      served: servedModels,
      rules,
      bodyBudget,
      shutdown: shutdown.signal,
    }).finally(() => running.delete(exchange));
    running.add(exchange);
  });
  await listen(server, host, port);
  const at = /** @type {import('node:net').AddressInfo} */ (server.address());
  const name = at.family === 'IPv6' ? `[${at.address}]` : at.address;
  return {
    url: `http://${name}:${at.port}/v1`,
    async close() {
      const whenClosed = new Promise((resolve) => server.close(resolve));
      shutdown.abort(new Refusal(503, 'shutting_down', 'the server is shutting down'));
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

/**
 * @typedef {{ served: Served[], rules: import('./guard.js').Rules, bodyBudget: BodyBudget, shutdown: AbortSignal }} ServerState
 */

/** Handles a request. @param {IncomingMessage} request @param {ServerResponse} response @param {ServerState} state */
async function handleRequest(request, response, state) {
  const disconnect = new AbortController();
  const end = () => disconnect.abort(state.shutdown.reason);
  response.once('close', () => {
    state.shutdown.removeEventListener('abort', end);
    disconnect.abort();
  });
  state.shutdown.addEventListener('abort', end);
  try {
    splitTarget(request);
    for (const [name, value] of Object.entries(checkOrigin(request, state.rules))) response.setHeader(name, value);
    await route(request, response, state, disconnect.signal);
  } catch (error) {
    if (!response.destroyed) sendError(response, error);
  }
}

/**
 * Splits the target of a request if it is an absolute address (RFC 9112, 3.2.2): its host replaces the Host header, its
 * path and query become the target.
 * @param {IncomingMessage} request
 */
function splitTarget(request) {
  const { url = '' } = request;
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return;
  const { host, pathname, search } = new URL(url);
  request.headers.host = host;
  request.url = pathname + search;
}

/**
 * Handles a request of an allowed origin.
 * @param {IncomingMessage} request
 * @param {ServerResponse} response
 * @param {ServerState} state
 * @param {AbortSignal} signal  aborts when the client disconnects or the server shuts down
 */
async function route(request, response, { served: servedModels, rules, bodyBudget }, signal) {
  const path = (request.url ?? '/').split('?', 1)[0];
  if (request.method === 'OPTIONS') return void response.writeHead(204, preflight(request)).end();
  if (path !== '/health') checkToken(request, rules);
  const isPost = Object.hasOwn(POSTS, path);
  // Health probes use HEAD, for which Node only sends the headers.
  const methods = isPost ? ['POST'] : ['GET', 'HEAD'];
  if (!methods.includes(String(request.method))) {
    if (!isPost) get(path, servedModels); // throws 404 for an unknown path
    throw new Refusal(405, 'method_not_allowed', `${path} expects the method ${methods[0]}`, {
      Allow: methods.join(', '),
    });
  }
  if (!isPost) return sendJson(response, 200, get(path, servedModels));
  const body = new Body(bodyBudget);
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let commentTimer;
  try {
    await body.read(request);
    const { id, model, queue, choices, isStream } = await targetOf(path, body, servedModels);
    const run = async (/** @type {number} */ parallel) => {
      const fields = body.parse();
      const options = choices > 1 ? { signal, parallel } : { signal };
      const completion = await POSTS[path](model).create({ ...fields, model: id }, options);
      if (fields.stream) await sendChunks(response, completion);
      else sendJson(response, 200, completion);
    };
    // The wait in the queue, and for a long prompt, can take minutes.
    if (isStream) commentTimer = setInterval(() => sendComment(response), timeout('streamComment'));
    await queue.run(signal, run, choices);
  } finally {
    clearInterval(commentTimer);
    body.release();
  }
}

/**
 * Returns the model for a request, the number of choices, and whether the answer is a stream. An invalid stream is
 * refused here, before a comment can begin its answer. Throws a Refusal, ARGUMENT, UNSUPPORTED, TEMPLATE.
 * @param {string} path @param {Body} body @param {Served[]} servedModels
 */
async function targetOf(path, body, servedModels) {
  const fields = body.parse(); // parsed again when it runs, so that a waiting request only holds its bytes
  const { id, model, queue } = modelFor(path, fields.model, servedModels);
  const choices = path.endsWith('/completions') && Number.isInteger(fields.n) ? fields.n : 1;
  const isStream = fields.stream === true && Object.hasOwn(STREAM_CHECKS, path);
  if (isStream) {
    const checkPrompt = STREAM_CHECKS[path](model, fields);
    queue.checkRoom();
    // Without a wait, the request itself reports an invalid prompt before the answer begins.
    if (queue.isBusy) await checkPrompt();
  }
  return { id, model, queue, choices, isStream };
}

/**
 * @param {ServerResponse} response
 * @param {number} status
 * @param {unknown} value
 * @param {Record<string, string>} [headers]
 */
function sendJson(response, status, value, headers) {
  response
    .writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'no-store', ...headers })
    .end(JSON.stringify(value));
}

/** Sends the head of a response with server-sent events, unless it was sent. @param {ServerResponse} response */
function beginStream(response) {
  if (response.headersSent) return;
  response.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  });
}

/** Sends a comment, which clients ignore. @param {ServerResponse} response */
function sendComment(response) {
  beginStream(response);
  response.write(': waiting\n\n');
}

/**
 * Sends chunks as server-sent events. Only comments are sent before the first chunk, so that an early failure has its
 * own status. A connection with too many unread bytes is closed, so that a slow client does not block others.
 * @param {ServerResponse} response @param {AsyncIterable<unknown>} chunks
 */
async function sendChunks(response, chunks) {
  for await (const chunk of chunks) {
    beginStream(response);
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    if (response.writableLength > MAX_UNREAD_BYTES) return void response.destroy();
  }
  response.end('data: [DONE]\n\n');
}

/** Sends an error. @param {ServerResponse} response @param {unknown} error */
function sendError(response, error) {
  const { status, error: errorBody } = error instanceof Refusal ? error.answer : toOpenAIError(error);
  if (response.headersSent) return void response.end(`data: ${JSON.stringify({ error: errorBody })}\n\n`);
  sendJson(response, status, { error: errorBody }, error instanceof Refusal ? error.headers : undefined);
}
