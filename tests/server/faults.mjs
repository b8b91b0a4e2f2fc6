/**
 * A web server for tests that misbehaves as told. Real HTTP over real sockets, on two ports, so that a page of one
 * origin can read models from another.
 *
 *     const server = await faultServer({ '/model.bq4': bytes });      // bytes, or the path of a file on disk; '*': every other path
 *     t.after(server.close);
 *     server.faults = [{ drop: 1_000_000, times: 1 }];                // the first answer that reaches byte 1,000,000 breaks
 *     await load(server.at('/model.bq4'));
 *     server.asked().map((r) => r.range);                             // what was asked for, in order
 *
 *     const server = await faultServer(bytes, { step: 16384 });       // in short: one file for every path, one rule
 *     await load(server.url);
 *
 * Without faults it is the poorest host that still serves ranges to any page: GET only (OPTIONS and HEAD are answered
 * 405 without a CORS header), `Access-Control-Allow-Origin: *`, no header exposed, no ETag.
 *
 * **Rules.** `server.faults` is a list, looked at anew for every request; assigning it starts its counts again. Each rule
 * says when it applies and what then goes wrong. All that apply are merged, later ones win. A function
 * `(request) => rule | undefined` may stand for a rule.
 *
 * | when | |
 * |---|---|
 * | `path` | only this path; default: every one |
 * | `method` | default `'GET'` |
 * | `port` | 0 or 1: only what comes to the first or second of `origins` |
 * | `nth` | only the nth such request (from 0, by path) since `faults` was assigned; or a list of them |
 * | `times` | so often, then never again |
 * | an offset below | only answers whose body holds that byte of the file: with `times: 1`, the first that does |
 *
 * | what | |
 * |---|---|
 * | `status` | 200: the whole file, whatever range was asked; 206: the range, or all as a range; 416: as servers do it; another: that status with a page of HTML |
 * | `html` | 200 with a page of HTML, as a captive portal answers |
 * | `file` | the path of another of `files`, or bytes, served in its place: a file that changed. (Or assign `server.files[path]`) |
 * | `drop`, `reset`, `stall` | at this place of the body: the connection is closed (FIN), reset (RST), or nothing more is sent |
 * | `hold` | this byte of the file and all behind it are sent by no answer |
 * | `until` | a promise: with it what `stall` or `hold` holds back is sent after all |
 * | `truncate` | the body ends here as if all were well, with the Content-Length of what is sent |
 * | `refuse`, `silent` | the connection is reset before any answer; no answer ever comes |
 * | `length` | Content-Length: `'whole'` of what was promised though less is sent, `'none'` (chunked), or a number |
 * | `total`, `shift` | what stands behind the `/` of Content-Range; ranges begin so many bytes later than asked and say so |
 * | `flip` | one bit of the byte at this offset, or at these offsets, is wrong |
 * | `bytesPerSecond`, `step` | throttled; bytes per write |
 * | `gzip` | `true`: the body is compressed and says so (a range is cut, then compressed); `'encoded'`: the range is one of the compressed file; `'lie'`: only says so |
 * | `redirect` | 302 (or the 3xx in `status`) to this address, relative to the request's; say with `path` or `port` what is redirected, lest it go round |
 * | `sign` | an address without `?sig=` leads (302) to one with, on `redirect`'s origin if given; each is good for so many requests, then 403 |
 * | `cors` | `false`: no Access-Control-Allow-Origin; a string: this one |
 * | `expose` | `true`: Content-Range, Content-Length, ETag and Accept-Ranges may be read by other origins; or a list |
 * | `headers` | more headers; `null` removes one |
 *
 * A place is an offset in the file, or `{ after: n }`: after n bytes of this body. What `drop` and `reset` cut off may
 * or may not reach the client: TCP may lose what is under way at a reset.
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
 * One request, as the log has it.
 * @typedef {object} Asked
 * @property {number} n        from 0, of all
 * @property {number} nth      from 0, of this method and path since `faults` was assigned
 * @property {string} origin   which of the two it came to
 * @property {string} method
 * @property {string} url      path and query
 * @property {string} path
 * @property {string | undefined} range  the header
 * @property {Record<string, string | string[] | undefined>} headers
 * @property {number} status   0 while, or where, nothing was answered
 * @property {number} from     offset in the file of the first byte that was asked for, then of the body's
 * @property {number} sent     bytes of the body handed to the socket
 * @property {'open' | 'done' | 'cut' | 'left'} end  answered as far as was meant; cut off by a fault; the client went away
 */

/** @typedef {Uint8Array | string} File  bytes, or a path on disk */
/** @typedef {Fault | ((request: Asked) => Fault | undefined | void)} Rule */
/** @typedef {{ size: number, read: (from: number, to: number) => Uint8Array, close: () => void }} Content */

const PAGE = '<!doctype html><title>Sign in</title><p>Not what was asked for.';
const EXPOSED = ['Content-Range', 'Content-Length', 'ETag', 'Accept-Ranges'];
const PLACES = /** @type {const} */ (['truncate', 'stall', 'drop', 'reset']);

/** @param {File} file @returns {Content} */
function contentOf(file) {
  if (typeof file !== 'string') return { size: file.length, read: (from, to) => file.subarray(from, to), close() {} };
  const fd = openSync(file, 'r');
  const read = (/** @type {number} */ from, /** @type {number} */ to) => {
    const piece = Buffer.allocUnsafe(to - from);
    return piece.subarray(0, readSync(fd, piece, 0, to - from, from));
  };
  return { size: fstatSync(fd).size, read, close: () => closeSync(fd) };
}

/** Resolves when the system has taken the bytes, or the client has gone. @param {import('node:http').ServerResponse} response @param {Uint8Array} piece */
const written = (response, piece) =>
  new Promise((resolve) => {
    const done = () => {
      response.off('close', done);
      resolve(undefined);
    };
    response.on('close', done);
    response.write(piece, done);
  });

/**
 * What part of the file an answer is meant to have.
 * @param {Fault} fault @param {string | undefined} header @param {number} size
 * @returns {{ from: number, to: number, partial: boolean } | 'unsatisfiable'}
 */
function spanOf(fault, header, size) {
  const asked = fault.status === 200 ? undefined : parseRange(header, size);
  if (fault.status === 416 || asked === 'unsatisfiable') return 'unsatisfiable';
  const from = Math.min((asked?.start ?? 0) + (asked ? (fault.shift ?? 0) : 0), size);
  return { from, to: asked ? asked.end + 1 : size, partial: !!asked || fault.status === 206 };
}

/** Does the body hold every offset that the rule names? @param {Fault} rule @param {ReturnType<typeof spanOf>} span */
function reaches(rule, span) {
  const offsets = [rule.flip, ...PLACES.map((name) => rule[name])].flat().filter((place) => typeof place === 'number');
  return (
    !offsets.length || (span !== 'unsatisfiable' && offsets.some((offset) => offset >= span.from && offset < span.to))
  );
}

/**
 * @param {Uint8Array | Record<string, File>} given  a file for every path, or by path, beginning with '/'
 * @param {Rule | Rule[]} [rules]
 */
export async function faultServer(given, rules = []) {
  /** @type {Record<string, File>} */
  const files = given instanceof Uint8Array ? { '*': given } : given;
  let faults = [rules].flat();
  /** @type {Asked[]} */
  let log = [];
  /** @type {Map<Fault, number>} How often each rule has applied. */
  let used = new Map();
  /** @type {Map<string, number>} */
  let counts = new Map();
  /** Signature → requests it is still good for. @type {Map<string, number>} */
  const signatures = new Map();

  /** @param {Asked} asked @param {(path: string) => number} sizeOf */
  function faultOf(asked, sizeOf) {
    /** @type {Fault} */
    let merged = {};
    for (const given of server.faults) {
      const rule = typeof given === 'function' ? given(asked) : given;
      if (!rule || (rule.method ?? 'GET') !== asked.method || (rule.path ?? asked.path) !== asked.path) continue;
      if (rule.port !== undefined && origins[rule.port] !== asked.origin) continue;
      if (rule.nth !== undefined && ![rule.nth].flat().includes(asked.nth)) continue;
      if ((used.get(rule) ?? 0) >= (rule.times ?? Infinity)) continue;
      const candidate = { ...merged, ...rule };
      const size = candidate.file instanceof Uint8Array ? candidate.file.length : sizeOf(candidate.file ?? asked.path);
      if (!reaches(rule, spanOf(candidate, asked.range, size))) continue;
      used.set(rule, (used.get(rule) ?? 0) + 1);
      merged = candidate;
    }
    return merged;
  }

  /** Where a redirect leads, or 'expired', or undefined where there is none. @param {Fault} fault @param {Asked} asked */
  function leadsTo(fault, asked) {
    const here = new URL(asked.url, asked.origin);
    const signature = here.searchParams.get('sig');
    if (signature !== null) {
      const left = signatures.get(signature) ?? 0;
      signatures.set(signature, left - 1);
      return left > 0 ? undefined : 'expired';
    }
    if (fault.redirect === undefined && fault.sign === undefined) return undefined;
    const target = new URL(fault.redirect ?? '', here);
    if (fault.sign !== undefined) {
      target.searchParams.set('sig', String(signatures.size + 1));
      signatures.set(String(signatures.size + 1), fault.sign);
    }
    return target.href;
  }

  /** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response @param {string} origin */
  async function answer(request, response, origin) {
    const url = String(request.url);
    const path = url.split('?')[0];
    const method = String(request.method);
    const nth = counts.get(`${method} ${path}`) ?? 0;
    counts.set(`${method} ${path}`, nth + 1);
    /** @type {Asked} */
    const asked = {
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
    log.push(asked);
    response.on('close', () => {
      if (asked.end === 'open') asked.end = response.writableFinished ? 'done' : 'left';
    });
    /** @type {Map<string, Content>} */
    const opened = new Map();
    const content = (/** @type {string} */ of) => {
      const file = server.files[of] ?? server.files['*'];
      if (file !== undefined && !opened.has(of)) opened.set(of, contentOf(file));
      return opened.get(of);
    };
    try {
      const fault = faultOf(asked, (of) => content(of)?.size ?? 0);
      await respond(
        request,
        response,
        asked,
        fault,
        fault.file instanceof Uint8Array ? contentOf(fault.file) : content(fault.file ?? path),
      );
    } finally {
      for (const { close } of opened.values()) close();
    }
  }

  /**
   * @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response
   * @param {Asked} asked @param {Fault} fault @param {Content | undefined} file
   */
  async function respond(request, response, asked, fault, file) {
    const cut = (/** @type {'destroy' | 'resetAndDestroy'} */ how) => {
      asked.end = 'cut';
      request.socket[how]();
    };
    const head = (/** @type {number} */ status, /** @type {Record<string, any>} */ more = {}) => {
      asked.status = status;
      const { cors = '*', expose = false, headers = {} } = fault;
      const exposed = expose === true ? EXPOSED : expose || [];
      const all = {
        ...(cors ? { 'access-control-allow-origin': cors === true ? '*' : cors } : {}),
        ...(exposed.length ? { 'access-control-expose-headers': exposed.join(', ') } : {}),
        ...more,
        ...headers,
      };
      response.writeHead(
        status,
        Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null && value !== undefined)),
      );
    };
    const page = (/** @type {number} */ status, /** @type {Record<string, any>} */ more = {}) => {
      head(status, { 'content-type': 'text/html', 'content-length': PAGE.length, ...more });
      response.end(request.method === 'HEAD' ? '' : PAGE);
      if (request.method !== 'HEAD') asked.sent = PAGE.length;
    };

    if (fault.refuse) return cut('resetAndDestroy');
    if (fault.silent) return;
    if (asked.method !== 'GET' && !server.allow.includes(asked.method)) {
      asked.status = 405;
      return void response.writeHead(405, { 'content-length': 0 }).end();
    }
    if (asked.method === 'OPTIONS') {
      head(204, { 'access-control-allow-methods': 'GET, HEAD', 'access-control-allow-headers': '*' });
      return void response.end();
    }
    const target = leadsTo(fault, asked);
    if (target === 'expired') return page(403);
    if (target) {
      head(Math.trunc((fault.status ?? 0) / 100) === 3 ? Number(fault.status) : 302, {
        location: target,
        'content-length': 0,
      });
      return void response.end();
    }
    if (fault.html) return page(200);
    if (fault.status && ![200, 206, 416].includes(fault.status)) return page(fault.status);
    if (!file) return page(404);

    // Of what lies in the file, or of what it is when compressed as a whole.
    const zipped =
      fault.gzip === 'encoded' || (fault.gzip === true && spanOf(fault, asked.range, file.size) === 'unsatisfiable')
        ? gzipSync(file.read(0, file.size))
        : undefined;
    const source = zipped ? contentOf(zipped) : file;
    const span = spanOf(fault, asked.range, source.size);
    if (span === 'unsatisfiable') return page(416, { 'content-range': `bytes */${source.size}` });
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
    asked.from = from;
    head(partial ? 206 : 200, {
      'content-type': 'application/octet-stream',
      'content-length': length,
      ...range,
      ...(fault.gzip ? { 'content-encoding': 'gzip', vary: 'Accept-Encoding' } : {}),
    });
    if (asked.method === 'HEAD') return void response.end();
    await send(response, asked, fault, reader, first, end);
    if (places[0]?.name === 'stall' && !response.destroyed) {
      if (!fault.until) return;
      await fault.until;
      await send(response, asked, fault, reader, end, to);
    }
    if (response.destroyed) return;
    if (places[0]?.name === 'reset') return cut('resetAndDestroy');
    if (places[0]?.name === 'drop' || (length !== undefined && length !== (fault.until ? to : end) - first))
      return cut('destroy');
    response.end();
  }

  /**
   * @param {import('node:http').ServerResponse} response @param {Asked} asked @param {Fault} fault
   * @param {Content} reader @param {number} from @param {number} to
   */
  async function send(response, asked, fault, reader, from, to) {
    const rate = fault.bytesPerSecond;
    const step = fault.step ?? (rate ? Math.max(1, Math.min(65536, Math.ceil(rate / 20))) : 65536);
    const flips = [fault.flip ?? []].flat();
    const start = performance.now();
    response.flushHeaders();
    for (let at = from; at < to && !response.destroyed; at += step) {
      const last = Math.min(at + step, to);
      let piece = reader.read(at, last);
      for (const offset of flips.filter((offset) => offset >= at && offset < last)) {
        piece = piece.slice();
        piece[offset - at] ^= 1;
      }
      asked.sent += piece.length;
      await written(response, piece);
      if (rate) await sleep(Math.max(0, start + (1000 * asked.sent) / rate - performance.now()));
      else if (fault.step) await new Promise(setImmediate);
    }
  }

  /** @type {string[]} */
  const origins = [];
  const sockets = new Set();
  const servers = await Promise.all(
    [0, 1].map(async (i) => {
      const output = createServer((request, response) => {
        answer(request, response, origins[i]).catch((error) => {
          console.error(error);
          response.destroy();
        });
      });
      output.on('connection', (socket) => {
        sockets.add(socket.unref());
        socket.on('close', () => sockets.delete(socket));
      });
      await new Promise((resolve) => output.listen(0, '127.0.0.1', () => resolve(undefined)));
      output.unref(); // a test that fails before close() must not keep the run from ending
      origins[i] = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (output.address()).port}`;
      return output;
    }),
  );

  const server = {
    /** Two ports with the same files; `at` takes the first. */
    origins,
    at: (/** @type {string} */ path) => origins[0] + path,
    origin: origins[0],
    url: `${origins[0]}/model.bq4`,
    /** By path; may be changed at any time. */
    files,
    /** Methods besides GET that are answered, of 'OPTIONS' and 'HEAD'. @type {string[]} */
    allow: [],
    /** @returns {Rule[]} */
    get faults() {
      return faults;
    },
    /** @param {Rule | Rule[]} rules */
    set faults(rules) {
      [faults, used, counts] = [[rules].flat(), new Map(), new Map()];
    },
    /** Every request of every kind. */
    get requests() {
      return log;
    },
    /** The GETs, of one path if given. @param {string} [path] */
    asked: (path) => log.filter((r) => r.method === 'GET' && r.path === (path ?? r.path)),
    /** Bytes of all bodies together that were handed to sockets. */
    get sent() {
      return log.reduce((sum, r) => sum + r.sent, 0);
    },
    /** Forgets what was asked. */
    forget() {
      [log, counts] = [[], new Map()];
    },
    /** Signed addresses given out so far are no longer good. */
    expire() {
      for (const key of signatures.keys()) signatures.set(key, 0);
    },
    /** @returns {Promise<void>} */
    close: async () => {
      const ended = servers.map((output) => new Promise((resolve) => output.close(resolve)));
      for (const socket of sockets) socket.destroy();
      await Promise.all(ended);
    },
  };
  return server;
}
