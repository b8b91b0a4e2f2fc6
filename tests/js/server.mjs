// A web server for tests that can misbehave. Real HTTP on localhost.
import { createServer } from 'node:http';

/**
 * @typedef {object} Behaviour
 * @property {boolean} [ranges]    answers ranges; default true
 * @property {number} [status]     answers only this
 * @property {string} [type]       content type
 * @property {number} [truncate]   breaks the connection after so many bytes of the file
 * @property {number} [shift]      sends ranges that begin so many bytes later than asked
 * @property {number} [stall]      sends so many bytes of each body, then nothing more
 * @property {number} [step]       bytes per write, with a turn of the event loop between them
 */

/** @param {import('node:http').ServerResponse} response */
const drained = (response) =>
  new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      resolve(undefined);
    };
    response.on('drain', done).on('close', done);
  });

/**
 * @param {Uint8Array | Record<string, Uint8Array>} files  one for every path, or by path
 * @param {Behaviour} [behaviour]
 */
export async function serve(files, behaviour = {}) {
  /** What was asked for. @type {{ method: string, path: string, range: string | undefined, headers: string[] }[]} */
  const requests = [];
  const open = new Set();
  const server = createServer(async (request, response) => {
    if (request.method !== 'GET') return void response.writeHead(405).end(); // no preflight is ever answered
    const path = request.url.split('?')[0];
    requests.push({ method: request.method, path, range: request.headers.range, headers: Object.keys(request.headers) });
    const { ranges = true, status, type = 'application/octet-stream', truncate = Infinity, shift = 0, stall = Infinity, step = 65536 } = behaviour;
    const file = files instanceof Uint8Array ? files : files[path];
    if (status || !file) return void response.writeHead(status ?? 404, { 'content-type': 'text/html', 'access-control-allow-origin': '*' }).end('<!doctype html><p>no');
    const range = ranges ? /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') : null;
    const from = range ? Number(range[1]) + shift : 0;
    if (range && from >= file.length) return void response.writeHead(416).end();
    const to = range && range[2] ? Math.min(Number(range[2]) + 1, file.length) : file.length;
    // Any page may read it, but sees no header beyond the usual ones.
    const headers = { 'content-type': type, 'content-length': to - from, 'access-control-allow-origin': '*' };
    response.writeHead(range ? 206 : 200, range ? { ...headers, 'content-range': `bytes ${from}-${to - 1}/${file.length}` } : headers);
    let sent = 0;
    for (let at = from; at < to; at += step) {
      const end = Math.min(at + step, to, truncate, from + stall);
      if (end > at && !response.write(file.subarray(at, end))) await drained(response);
      sent += Math.max(end - at, 0);
      if (response.destroyed) return;
      if (end >= truncate) return void setImmediate(() => response.destroy());
      if (sent >= stall) return;
      if (step < 65536) await new Promise(setImmediate);
    }
    response.end();
  });
  server.on('connection', (socket) => {
    open.add(socket.unref());
    socket.on('close', () => open.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  server.unref(); // a test that fails before close() must not keep the run from ending
  const { port } = /** @type {any} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/model.bq4`,
    origin: `http://127.0.0.1:${port}`,
    requests,
    /** The same, for tests that also run in a page, where another process serves. */
    asked: async () => requests,
    behaviour,
    close: () => new Promise((resolve) => {
      server.close(resolve);
      for (const socket of open) socket.destroy();
    }),
  };
}
