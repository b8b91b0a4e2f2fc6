// A web server for tests that can misbehave. Real HTTP on localhost.
import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';

/**
 * @typedef {object} Behaviour
 * @property {boolean} [ranges]    answers ranges; default true
 * @property {number} [status]     answers only this
 * @property {string} [type]       content type
 * @property {number} [truncate]   breaks the connection after so many bytes of the file
 * @property {number} [shift]      sends ranges that begin so many bytes later than asked
 * @property {number} [stall]      sends so many bytes of each body, then nothing more
 * @property {number} [step]       bytes per write, with a turn of the event loop between them
 * @property {number} [end]        ends bodies at this byte of the file as if all were well
 * @property {number} [flip]       one bit of this byte of the file is wrong
 * @property {string} [gzip]       'range': compresses ranges and says so; 'hidden': sends the range of a compressed file as if it were plain
 * @property {string} [redirect]   sends elsewhere
 * @property {boolean} [html]      sends a page with status 200
 * @property {Promise<void>} [hold]  bytes from `holdFrom` of the file on come after this
 * @property {number} [holdFrom]
 * @property {boolean} [reset]     ends the connection before any answer
 * @property {Record<string, string>} [headers]
 * @property {Uint8Array} [file]   another file
 * @property {(request: { n: number, path: string, from: number, range: string | undefined }) => Partial<Behaviour> | undefined | void} [on]
 *   what is different for this request, the nth
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
  const sent = { bytes: 0 };
  const server = createServer(async (request, response) => {
    if (request.method !== 'GET') return void response.writeHead(405).end(); // no preflight is ever answered
    const path = request.url.split('?')[0];
    requests.push({ method: request.method, path, range: request.headers.range, headers: Object.keys(request.headers) });
    const asked = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    const now = { ...behaviour, ...behaviour.on?.({ n: requests.length - 1, path, from: asked ? Number(asked[1]) : 0, range: request.headers.range }) };
    const { ranges = true, status, type = 'application/octet-stream', truncate = Infinity, shift = 0, stall = Infinity, step = 65536 } = now;
    const all = { 'access-control-allow-origin': '*' };
    if (now.reset) return void request.socket.resetAndDestroy();
    if (now.redirect) return void response.writeHead(302, { ...all, location: now.redirect }).end();
    if (now.html) return void response.writeHead(200, { ...all, 'content-type': 'text/html' }).end('<!doctype html><title>Sign in</title>');
    let file = now.file ?? (files instanceof Uint8Array ? files : files[path]);
    if (status || !file) return void response.writeHead(status ?? 404, { 'content-type': 'text/html', ...all }).end('<!doctype html><p>no');
    if (now.flip !== undefined) {
      file = file.slice();
      file[now.flip] ^= 4;
    }
    if (now.gzip === 'hidden') file = gzipSync(file);
    const range = ranges ? asked : null;
    const from = range ? Number(range[1]) + shift : 0;
    if (range && from >= file.length) return void response.writeHead(416, all).end();
    const to = Math.min(range && range[2] ? Number(range[2]) + 1 : file.length, file.length, now.end ?? Infinity);
    // Any page may read it, but sees no header beyond the usual ones.
    const headers = { 'content-type': type, 'content-length': to - from, ...all, ...now.headers };
    if (now.gzip && range) {
      const body = gzipSync(file.subarray(from, to));
      return void response.writeHead(206, { ...headers, 'content-length': body.length, 'content-encoding': 'gzip' }).end(body);
    }
    response.writeHead(range ? 206 : 200, range ? { 'content-range': `bytes ${from}-${to - 1}/${file.length}`, ...headers } : headers);
    let done = 0;
    for (let at = from; at < to; at += step) {
      const end = Math.min(at + step, to, truncate, from + stall, now.hold && at < now.holdFrom ? now.holdFrom : Infinity);
      if (now.hold && at >= now.holdFrom) await now.hold;
      if (end > at && !response.write(file.subarray(at, end))) await drained(response);
      done += Math.max(end - at, 0);
      sent.bytes += Math.max(end - at, 0);
      if (response.destroyed) return;
      if (end >= truncate) return void setImmediate(() => response.destroy());
      if (done >= stall) return;
      if (end < at + step) at = end - step;
      if (end < to && step < 65536) await new Promise(setImmediate);
      if (end >= to) break;
    }
    response.end();
  });
  server.on('connection', (socket) => {
    open.add(socket.unref());
    socket.on('close', () => open.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  server.unref(); // a test that fails before close() must not keep the run from ending
  const { port } = /** @type {any} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/model.bq4`,
    origin: `http://127.0.0.1:${port}`,
    requests,
    /** Of bodies, all answers together. */
    sent,
    /** The same, for tests that also run in a page, where another process serves. */
    asked: async () => requests,
    behaviour,
    close: () => new Promise((resolve) => {
      server.close(resolve);
      for (const socket of open) socket.destroy();
    }),
  };
}
