/**
 * A web server for tests that simulates faults. It uses real HTTP over real sockets, on two ports, so that a page of one
 * origin can read models from another.
 *
 *     const server = await faultServer({ '/model.bq4': bytes });      // bytes, or the path of a file on disk; '*': every other path
 *     t.after(server.close);
 *     server.faults = [{ drop: 1_000_000, times: 1 }];                // the first response that reaches byte 1,000,000 breaks
 *     await load(server.at('/model.bq4'));
 *     server.asked().map((r) => r.range);                             // the ranges of the requests, in order
 *
 *     const server = await faultServer(bytes, { step: 16384 });       // short form: one file for every path, one rule
 *     await load(server.url);
 *
 * Without faults it has the fewest features with which a page can still request ranges: only GET (OPTIONS and HEAD get
 * 405 without a CORS header), `Access-Control-Allow-Origin: *`, no exposed headers, no ETag.
 *
 * **Rules.** `server.faults` is a list of rules, which is read for every request; assigning it resets its counters. A rule
 * has conditions and faults. The faults of all rules that apply are merged; later rules take precedence. A function
 * `(request) => rule | undefined` can be used as a rule.
 *
 * | condition | |
 * |---|---|
 * | `path` | only requests for this path; default: every path |
 * | `method` | default `'GET'` |
 * | `port` | 0 or 1: only requests to the first or second of `origins` |
 * | `nth` | only the nth matching request (from 0, counted by path) since `faults` was assigned; or a list of numbers |
 * | `times` | the rule applies this number of times |
 * | an offset below | only responses whose body contains this byte of the file: with `times: 1`, the first of them |
 *
 * | fault | |
 * |---|---|
 * | `status` | 200: the complete file, regardless of the range; 206: the range, or the complete file as a range; 416: with the headers of 416; another: that status with a page of HTML |
 * | `html` | 200 with a page of HTML, as a captive portal sends |
 * | `file` | the path of another of `files`, or bytes, sent in place of the file: a changed file. (Or assign `server.files[path]`) |
 * | `drop`, `reset`, `stall` | at this place of the body the connection is closed (FIN), reset (RST), or no more bytes are sent |
 * | `hold` | no response contains this byte of the file or later ones |
 * | `until` | a promise: when it resolves, the bytes that `stall` or `hold` has held back are sent |
 * | `truncate` | the body ends here without an error; Content-Length is the number of sent bytes |
 * | `refuse`, `silent` | the connection is reset before a response; no response is sent |
 * | `length` | Content-Length: `'whole'`: of the complete body although less is sent, `'none'` (chunked), or a number |
 * | `total`, `shift` | the total in Content-Range; ranges begin this number of bytes later than requested, also in Content-Range |
 * | `flip` | one bit of the byte at this offset, or at these offsets, is wrong |
 * | `bytesPerSecond`, `step` | throttling; bytes per write |
 * | `gzip` | `true`: the body is compressed, with Content-Encoding (first the range, then the compression); `'encoded'`: the range is one of the compressed file; `'lie'`: only the header |
 * | `redirect` | 302 (or the 3xx in `status`) to this address, relative to that of the request; limit it with `path` or `port` to avoid a loop |
 * | `sign` | an address without `?sig=` is redirected (302) to one with a signature, on the origin of `redirect` if it is set; each signature is valid for this number of requests, then 403 |
 * | `cors` | `false`: no Access-Control-Allow-Origin; a string: its value |
 * | `expose` | `true`: other origins can read Content-Range, Content-Length, ETag and Accept-Ranges; or a list |
 * | `headers` | more headers; `null` removes one |
 *
 * A place is an offset in the file, or `{ after: n }`: after n bytes of this body. Bytes directly before `drop` and `reset`
 * may be lost: at a reset, TCP may discard bytes that are in transit.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { parseRange } from '../../tools/serve.mjs';

/** @typedef {number | { after: number }} Place */
/**
 * @typedef {object} Fault  see the top of this file
 * @property {string} [path]
 * @property {string} [method]
 * @property {0 | 1} [port]
 * @property {number | number[]} [nth]
 * @property {number} [times]
 * @property {number} [status]
 * @property {boolean} [html]
 * @property {string | Uint8Array} [file]
 * @property {Place} [drop]
 * @property {Place} [reset]
 * @property {Place} [stall]
 * @property {number} [hold]
 * @property {Promise<unknown>} [until]
 * @property {Place} [truncate]
 * @property {boolean} [refuse]
 * @property {boolean} [silent]
 * @property {'whole' | 'none' | number} [length]
 * @property {number | string} [total]
 * @property {number} [shift]
 * @property {number | number[]} [flip]
 * @property {number} [bytesPerSecond]
 * @property {number} [step]
 * @property {boolean | 'encoded' | 'lie'} [gzip]
 * @property {string} [redirect]
 * @property {number} [sign]
 * @property {boolean | string} [cors]
 * @property {boolean | string[]} [expose]
 * @property {Record<string, string | null>} [headers]
 */

/**
 * A request in the log.
 * @typedef {object} LoggedRequest
 * @property {number} n        number of the request, from 0
 * @property {number} nth      number among those with this method and path since `faults` was assigned, from 0
 * @property {string} origin   the one of the two to which it was sent
 * @property {string} method
 * @property {string} url      path and query
 * @property {string} path
 * @property {string | undefined} range  the header
 * @property {Record<string, string | string[] | undefined>} headers
 * @property {number} status   0 without a response
 * @property {number} from     offset in the file of the first requested byte; after the response has started, of the first byte of its body
 * @property {number} sent     bytes of the body that were written to the socket
 * @property {'open' | 'done' | 'cut' | 'left'} end  open; complete; ended by a fault; closed by the client
 */

/** @typedef {Uint8Array | string} File  bytes, or a path on disk */
/** @typedef {Fault | ((request: LoggedRequest) => Fault | undefined | void)} Rule */
/** @typedef {{ size: number, read: (from: number, to: number) => Uint8Array, close: () => void }} Content */

const PAGE = '<!doctype html><title>Sign in</title><p>This is not the requested file.';
const EXPOSED = ['Content-Range', 'Content-Length', 'ETag', 'Accept-Ranges'];
const PLACES = /** @type {const} */ (['truncate', 'stall', 'drop', 'reset']);

/** @param {File} file @returns {Content} */
function contentOf(file) {
  if (typeof file !== 'string') return { size: file.length, read: (from, to) => file.subarray(from, to), close() {} };
  const fd = openSync(file, 'r');
  const read = (/** @type {number} */ from, /** @type {number} */ to) => {
    const bytes = Buffer.allocUnsafe(to - from);
    return bytes.subarray(0, readSync(fd, bytes, 0, to - from, from));
  };
  return { size: fstatSync(fd).size, read, close: () => closeSync(fd) };
}

/** Writes bytes of a body. Resolves when the system has accepted them, or the connection is closed. @param {import('node:http').ServerResponse} response @param {Uint8Array} bytes */
const writeBytes = (response, bytes) =>
  new Promise((resolve) => {
    const done = () => {
      response.off('close', done);
      resolve(undefined);
    };
    response.on('close', done);
    response.write(bytes, done);
  });

/**
 * The part of the file that a response has without `truncate`, `drop` and other places.
 * @param {Fault} fault @param {string | undefined} header @param {number} size
 * @returns {{ from: number, to: number, partial: boolean } | 'unsatisfiable'}
 */
function spanOf(fault, header, size) {
  const range = fault.status === 200 ? undefined : parseRange(header, size);
  if (fault.status === 416 || range === 'unsatisfiable') return 'unsatisfiable';
  const from = Math.min((range?.start ?? 0) + (range ? (fault.shift ?? 0) : 0), size);
  return { from, to: range ? range.end + 1 : size, partial: !!range || fault.status === 206 };
}

/** Whether the body contains an offset of the rule; true for a rule without offsets. @param {Fault} rule @param {ReturnType<typeof spanOf>} span */
function reaches(rule, span) {
  const offsets = [rule.flip, ...PLACES.map((name) => rule[name])].flat().filter((place) => typeof place === 'number');
  return (
    !offsets.length || (span !== 'unsatisfiable' && offsets.some((offset) => offset >= span.from && offset < span.to))
  );
}

/**
 * Starts the server.
 * @param {Uint8Array | Record<string, File>} content  a file for every path, or files by path, beginning with '/'
 * @param {Rule | Rule[]} [rules]
 */
export async function faultServer(content, rules = []) {
  /** @type {Record<string, File>} */
  const files = content instanceof Uint8Array ? { '*': content } : content;
  let faults = [rules].flat();
  /** @type {LoggedRequest[]} */
  let log = [];
  /** Number of requests to which each rule has applied. @type {Map<Fault, number>} */
  let uses = new Map();
  /** Number of requests by method and path. @type {Map<string, number>} */
  let counts = new Map();
  /** Number of requests for which each signature is still valid. @type {Map<string, number>} */
  const signatures = new Map();

  /** The merged faults for a request. @param {LoggedRequest} entry @param {(path: string) => number} sizeOf */
  function faultOf(entry, sizeOf) {
    /** @type {Fault} */
    let merged = {};
    for (const ruleOrFunction of server.faults) {
      const rule = typeof ruleOrFunction === 'function' ? ruleOrFunction(entry) : ruleOrFunction;
      if (!rule || (rule.method ?? 'GET') !== entry.method || (rule.path ?? entry.path) !== entry.path) continue;
      if (rule.port !== undefined && origins[rule.port] !== entry.origin) continue;
      if (rule.nth !== undefined && ![rule.nth].flat().includes(entry.nth)) continue;
      if ((uses.get(rule) ?? 0) >= (rule.times ?? Infinity)) continue;
      const candidate = { ...merged, ...rule };
      const size = candidate.file instanceof Uint8Array ? candidate.file.length : sizeOf(candidate.file ?? entry.path);
      if (!reaches(rule, spanOf(candidate, entry.range, size))) continue;
      uses.set(rule, (uses.get(rule) ?? 0) + 1);
      merged = candidate;
    }
    return merged;
  }

  /** Target of a redirect, 'expired' for an invalid signature, or undefined without a redirect. @param {Fault} fault @param {LoggedRequest} entry */
  function redirectTarget(fault, entry) {
    const address = new URL(entry.url, entry.origin);
    const signature = address.searchParams.get('sig');
    if (signature !== null) {
      const remaining = signatures.get(signature) ?? 0;
      signatures.set(signature, remaining - 1);
      return remaining > 0 ? undefined : 'expired';
    }
    if (fault.redirect === undefined && fault.sign === undefined) return undefined;
    const target = new URL(fault.redirect ?? '', address);
    if (fault.sign !== undefined) {
      target.searchParams.set('sig', String(signatures.size + 1));
      signatures.set(String(signatures.size + 1), fault.sign);
    }
    return target.href;
  }

  /** Logs a request and sends the response. @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response @param {string} origin */
  async function handleRequest(request, response, origin) {
    const url = String(request.url);
    const path = url.split('?')[0];
    const method = String(request.method);
    const nth = counts.get(`${method} ${path}`) ?? 0;
    counts.set(`${method} ${path}`, nth + 1);
    /** @type {LoggedRequest} */
    const entry = {
      n: log.length,
      nth,
      origin,
      method,
      url,
      path,
      range: request.headers.range,
      headers: request.headers,
      status: 0,
      from: Number(/^bytes=(\d+)/.exec(request.headers.range ?? '')?.[1] ?? 0),
      sent: 0,
      end: 'open',
    };
    log.push(entry);
    response.on('close', () => {
      if (entry.end === 'open') entry.end = response.writableFinished ? 'done' : 'left';
    });
    /** @type {Map<string, Content>} */
    const opened = new Map();
    const openContent = (/** @type {string} */ filePath) => {
      const file = server.files[filePath] ?? server.files['*'];
      if (file !== undefined && !opened.has(filePath)) opened.set(filePath, contentOf(file));
      return opened.get(filePath);
    };
    try {
      const fault = faultOf(entry, (filePath) => openContent(filePath)?.size ?? 0);
      await respond(
        request,
        response,
        entry,
        fault,
        fault.file instanceof Uint8Array ? contentOf(fault.file) : openContent(fault.file ?? path),
      );
    } finally {
      for (const { close } of opened.values()) close();
    }
  }

  /**
   * Sends the response to a request.
   * @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response
   * @param {LoggedRequest} entry @param {Fault} fault @param {Content | undefined} file
   */
  async function respond(request, response, entry, fault, file) {
    const cut = (/** @type {'destroy' | 'resetAndDestroy'} */ method) => {
      entry.end = 'cut';
      request.socket[method]();
    };
    const writeHead = (/** @type {number} */ status, /** @type {Record<string, any>} */ more = {}) => {
      entry.status = status;
      const { cors = '*', expose = false, headers = {} } = fault;
      const exposedHeaders = expose === true ? EXPOSED : expose || [];
      const all = {
        ...(cors ? { 'access-control-allow-origin': cors === true ? '*' : cors } : {}),
        ...(exposedHeaders.length ? { 'access-control-expose-headers': exposedHeaders.join(', ') } : {}),
        ...more,
        ...headers,
      };
      response.writeHead(
        status,
        Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null && value !== undefined)),
      );
    };
    const sendPage = (/** @type {number} */ status, /** @type {Record<string, any>} */ more = {}) => {
      writeHead(status, { 'content-type': 'text/html', 'content-length': PAGE.length, ...more });
      response.end(request.method === 'HEAD' ? '' : PAGE);
      if (request.method !== 'HEAD') entry.sent = PAGE.length;
    };

    if (fault.refuse) return cut('resetAndDestroy');
    if (fault.silent) return;
    if (entry.method !== 'GET' && !server.allow.includes(entry.method)) {
      entry.status = 405;
      return void response.writeHead(405, { 'content-length': 0 }).end();
    }
    if (entry.method === 'OPTIONS') {
      writeHead(204, { 'access-control-allow-methods': 'GET, HEAD', 'access-control-allow-headers': '*' });
      return void response.end();
    }
    const target = redirectTarget(fault, entry);
    if (target === 'expired') return sendPage(403);
    if (target) {
      writeHead(Math.trunc((fault.status ?? 0) / 100) === 3 ? Number(fault.status) : 302, {
        location: target,
        'content-length': 0,
      });
      return void response.end();
    }
    if (fault.html) return sendPage(200);
    if (fault.status && ![200, 206, 416].includes(fault.status)) return sendPage(fault.status);
    if (!file) return sendPage(404);

    // Ranges are those of the file, or of the compressed file.
    const compressedFile =
      fault.gzip === 'encoded' || (fault.gzip === true && spanOf(fault, entry.range, file.size) === 'unsatisfiable')
        ? gzipSync(file.read(0, file.size))
        : undefined;
    const source = compressedFile ? contentOf(compressedFile) : file;
    const span = spanOf(fault, entry.range, source.size);
    if (span === 'unsatisfiable') return sendPage(416, { 'content-range': `bytes */${source.size}` });
    const { from, partial } = span;
    let { to } = span;
    const range = partial ? { 'content-range': `bytes ${from}-${to - 1}/${fault.total ?? source.size}` } : {};
    const body = fault.gzip === true ? contentOf(gzipSync(source.read(from, to))) : undefined;
    const [reader, first] = body ? [body, 0] : [source, from];
    if (body) to = body.size;

    const hold = fault.hold === undefined ? undefined : Math.max(fault.hold, first);
    const places = [...PLACES.map((name) => ({ name, place: fault[name] })), { name: 'stall', place: hold }]
      .filter(({ place }) => place !== undefined)
      .map(({ name, place }) => ({
        name,
        end: typeof place === 'number' ? place : first + /** @type {any} */ (place).after,
      }))
      .filter(({ end }) => end >= first && end < to)
      .sort((a, b) => a.end - b.end);
    const end = places[0]?.end ?? to;
    const length =
      typeof fault.length === 'number'
        ? fault.length
        : fault.length === 'none'
          ? undefined
          : places[0]?.name === 'truncate' && fault.length !== 'whole'
            ? end - first
            : to - first;
    entry.from = from;
    writeHead(partial ? 206 : 200, {
      'content-type': 'application/octet-stream',
      'content-length': length,
      ...range,
      ...(fault.gzip ? { 'content-encoding': 'gzip', vary: 'Accept-Encoding' } : {}),
    });
    if (entry.method === 'HEAD') return void response.end();
    await sendBody(response, entry, fault, reader, first, end);
    if (places[0]?.name === 'stall' && !response.destroyed) {
      if (!fault.until) return;
      await fault.until;
      await sendBody(response, entry, fault, reader, end, to);
    }
    if (response.destroyed) return;
    if (places[0]?.name === 'reset') return cut('resetAndDestroy');
    if (places[0]?.name === 'drop' || (length !== undefined && length !== (fault.until ? to : end) - first))
      return cut('destroy');
    response.end();
  }

  /**
   * Sends a part of the body.
   * @param {import('node:http').ServerResponse} response @param {LoggedRequest} entry @param {Fault} fault
   * @param {Content} reader @param {number} from @param {number} to
   */
  async function sendBody(response, entry, fault, reader, from, to) {
    const rate = fault.bytesPerSecond;
    const step = fault.step ?? (rate ? Math.max(1, Math.min(65536, Math.ceil(rate / 20))) : 65536);
    const flips = [fault.flip ?? []].flat();
    const start = performance.now();
    response.flushHeaders();
    for (let at = from; at < to && !response.destroyed; at += step) {
      const last = Math.min(at + step, to);
      let bytes = reader.read(at, last);
      for (const offset of flips.filter((offset) => offset >= at && offset < last)) {
        bytes = bytes.slice();
        bytes[offset - at] ^= 1;
      }
      entry.sent += bytes.length;
      await writeBytes(response, bytes);
      if (rate) await sleep(Math.max(0, start + (1000 * entry.sent) / rate - performance.now()));
      else if (fault.step) await new Promise(setImmediate);
    }
  }

  /** @type {string[]} */
  const origins = [];
  const sockets = new Set();
  const servers = await Promise.all(
    [0, 1].map(async (i) => {
      const httpServer = createServer((request, response) => {
        handleRequest(request, response, origins[i]).catch((error) => {
          console.error(error);
          response.destroy();
        });
      });
      httpServer.on('connection', (socket) => {
        sockets.add(socket.unref());
        socket.on('close', () => sockets.delete(socket));
      });
      await new Promise((resolve) => httpServer.listen(0, '127.0.0.1', () => resolve(undefined)));
      httpServer.unref(); // So that the process can end after a test that has failed before close().
      origins[i] = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (httpServer.address()).port}`;
      return httpServer;
    }),
  );

  const server = {
    /** The origins of the two ports, which serve the same files; `at` gives an address of the first one. */
    origins,
    at: (/** @type {string} */ path) => origins[0] + path,
    origin: origins[0],
    url: `${origins[0]}/model.bq4`,
    /** Files by path; a test may change them at any time. */
    files,
    /** Supported methods besides GET: 'OPTIONS' and 'HEAD' are possible. @type {string[]} */
    allow: [],
    /** @returns {Rule[]} */
    get faults() {
      return faults;
    },
    /** @param {Rule | Rule[]} rules */
    set faults(rules) {
      [faults, uses, counts] = [[rules].flat(), new Map(), new Map()];
    },
    /** All requests, with all methods. */
    get requests() {
      return log;
    },
    /** GET requests, for all paths or for one. @param {string} [path] */
    asked: (path) => log.filter((r) => r.method === 'GET' && r.path === (path ?? r.path)),
    /** Bytes of all bodies that were written to sockets. */
    get sent() {
      return log.reduce((sum, r) => sum + r.sent, 0);
    },
    /** Deletes the log of requests. */
    forget() {
      [log, counts] = [[], new Map()];
    },
    /** Makes all signatures so far invalid. */
    expire() {
      for (const key of signatures.keys()) signatures.set(key, 0);
    },
    /** @returns {Promise<void>} */
    close: async () => {
      const closing = servers.map((httpServer) => new Promise((resolve) => httpServer.close(resolve)));
      for (const socket of sockets) socket.destroy();
      await Promise.all(closing);
    },
  };
  return server;
}
