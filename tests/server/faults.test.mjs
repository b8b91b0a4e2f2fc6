// Tests of the faulty server: it produces the requested faults, checked with Node's fetch and with a plain socket where fetch hides
// details.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { barrier, until } from '../waiting.mjs';
import { faultServer } from './faults.mjs';

const SIZE = 300_000;
const bytes = Uint8Array.from({ length: SIZE }, (_, i) => (i * 7919) >> 5);
const other = bytes.map((byte) => byte ^ 0x55);
const PATH = '/model.bq4';

/** @type {Awaited<ReturnType<typeof faultServer>>} */
let server;
before(async () => {
  server = await faultServer({ [PATH]: bytes, '/other.bq4': other });
});
beforeEach(() => {
  [server.faults, server.allow] = [[], []];
  server.files[PATH] = bytes;
  server.forget();
});
after(() => server.close());

/** @param {string} [range] @param {RequestInit & { path?: string, url?: string }} [init] */
const get = (range, { path = PATH, url = server.at(path), ...init } = {}) =>
  fetch(url, { ...init, headers: range ? { range: `bytes=${range}` } : {} });
/** @param {Response} response */
const body = async (response) => new Uint8Array(await response.arrayBuffer());
/** Whatever the server sends at once has come behind these. */
async function roundTrips() {
  for (let trip = 0; trip < 3; trip++) await (await get(undefined, { method: 'HEAD' })).arrayBuffer();
}
/** @param {Uint8Array} a @param {Uint8Array} b */
const same = (a, b) => assert.ok(Buffer.from(a).equals(b), `${a.length} bytes, not the same as ${b.length}`);

/** All that a bare socket hears: the text until the other side ends, and how it ended. @param {string} [range] */
function raw(range) {
  return new Promise((resolve) => {
    /** @type {Buffer[]} */
    const pieces = [];
    const socket = connect(Number(new URL(server.origins[0]).port), '127.0.0.1');
    /** @param {string} how */
    const end = (how) => {
      const all = Buffer.concat(pieces);
      const split = all.indexOf('\r\n\r\n');
      resolve({
        how,
        head: all.subarray(0, Math.max(split, 0)).toString().toLowerCase(),
        body: all.subarray(split + 4),
      });
    };
    socket
      .on('data', (piece) => pieces.push(piece))
      .on('end', () => end('FIN'))
      .on('error', (error) => end(/** @type {any} */ (error).code));
    socket.write(`GET ${PATH} HTTP/1.1\r\nHost: x\r\n${range ? `Range: bytes=${range}\r\n` : ''}\r\n`);
  });
}

test('without faults: complete files, ranges, the end, beyond it, and missing files; with CORS and only the usual headers', async () => {
  const whole = await get();
  assert.deepEqual([whole.status, whole.headers.get('content-length')], [200, String(SIZE)]);
  same(await body(whole), bytes);
  const part = await get('100-199');
  assert.deepEqual([part.status, part.headers.get('content-range')], [206, `bytes 100-199/${SIZE}`]);
  assert.deepEqual(
    ['access-control-allow-origin', 'access-control-expose-headers', 'etag', 'accept-ranges'].map((name) =>
      part.headers.get(name),
    ),
    ['*', null, null, null],
  );
  same(await body(part), bytes.subarray(100, 200));
  same(await body(await get(`${SIZE - 5}-${SIZE + 100}`)), bytes.subarray(SIZE - 5));
  const beyond = await get(`${SIZE}-`);
  assert.deepEqual([beyond.status, beyond.headers.get('content-range')], [416, `bytes */${SIZE}`]);
  assert.equal((await get(undefined, { path: '/none' })).status, 404);
  same(await body(await get('0-9', { url: server.origins[1] + PATH })), bytes.subarray(0, 10));
});

test('the log contains every request with its range and its response', async () => {
  await body(await get('10-19'));
  await body(await get(undefined, { path: '/other.bq4' }));
  await get(undefined, { method: 'HEAD' });
  assert.deepEqual(
    server.requests.map((r) => [r.n, r.nth, r.method, r.path, r.range, r.status, r.from, r.sent]),
    [
      [0, 0, 'GET', PATH, 'bytes=10-19', 206, 10, 10],
      [1, 0, 'GET', '/other.bq4', undefined, 200, 0, SIZE],
      [2, 0, 'HEAD', PATH, undefined, 405, 0, 0],
    ],
  );
  assert.equal(server.asked(PATH).length, 1);
  assert.equal(server.sent, SIZE + 10);
  assert.equal(server.requests[0].headers.range, 'bytes=10-19');
  await until('the end of all answers', () => server.requests.every((r) => r.end !== 'open'));
  assert.deepEqual(
    server.requests.map((r) => r.end),
    ['done', 'done', 'done'],
  );
});

test('a client that disconnects is recorded', async () => {
  server.faults = [{ stall: 1000 }];
  const controller = new AbortController();
  const response = await get(undefined, { signal: controller.signal });
  controller.abort();
  await assert.rejects(body(response));
  await until('the end of the answer', () => server.requests[0].end !== 'open');
  assert.deepEqual([server.requests[0].end, server.requests[0].sent], ['left', 1000]);
});

test('a file on disk is served', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-faults-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'model'), bytes);
  server.files[PATH] = join(folder, 'model');
  server.faults = [{ flip: 70_000, times: 1 }];
  const flipped = bytes.slice();
  flipped[70_000] ^= 1;
  same(await body(await get()), flipped);
  same(await body(await get('5-299998')), bytes.subarray(5, 299_999));
});

test('drop and reset happen at an offset of the file or after a number of bytes', async () => {
  server.faults = [{ drop: 1000 }];
  const dropped = await raw('900-2000');
  assert.equal(dropped.how, 'FIN');
  assert.match(dropped.head, /content-length: 1101/);
  same(dropped.body, bytes.subarray(900, 1000));
  assert.equal((await raw('1000-2000')).body.length, 0, 'this byte is never had');
  same(await body(await get('1001-2000')), bytes.subarray(1001, 2001));
  await assert.rejects(get().then(body));

  server.faults = [{ reset: { after: 100 } }];
  assert.equal((await raw('900-2000')).how, 'ECONNRESET');
  assert.equal(server.requests.at(-1)?.sent, 100);
  assert.equal(server.requests.at(-1)?.end, 'cut');
});

test('hold: no response sends the bytes after the offset until it is released', async () => {
  let release = () => {};
  server.faults = { hold: 1000, until: new Promise((resolve) => (release = () => resolve(undefined))) };
  const [whole, before, beyond] = await Promise.all([get(), get('0-999'), get('2000-2999')]);
  same(await body(before), bytes.subarray(0, 1000));
  const rest = Promise.all([body(whole), body(beyond)]);
  await until('what is not held', () => server.requests.reduce((sum, { sent }) => sum + sent, 0) === 2000);
  release();
  const [all, part] = await rest;
  same(all, bytes);
  same(part, bytes.subarray(2000, 3000));
});

test('short forms: one file for every path, one rule, and replaced bytes', async (t) => {
  const one = await faultServer(bytes, { flip: 7 });
  t.after(one.close);
  assert.deepEqual([one.origin, one.url], [one.origins[0], one.at(PATH)]);
  assert.equal((await body(await get('0-9', { url: one.at('/any/where') })))[7], bytes[7] ^ 1);
  one.faults = ({ from }) => (from ? { file: other } : undefined);
  same(await body(await get('5-9', { url: one.url })), other.subarray(5, 10));
  one.files['*'] = other;
  same(await body(await get(undefined, { url: one.url })), other);
});

test('stall: only the bytes before the offset are sent', async () => {
  server.faults = [{ stall: 5000 }];
  const reader = /** @type {ReadableStream<Uint8Array>} */ ((await get()).body).getReader();
  let n = 0;
  while (n < 5000) n += (await reader.read()).value?.length ?? 0;
  const more = await Promise.race([reader.read(), roundTrips().then(() => 'nothing')]);
  assert.deepEqual([n, more], [5000, 'nothing']);
  await reader.cancel();
});

test('stall until: the rest is sent later', async () => {
  for (const fault of [{ stall: 5000 }, { stall: { after: 2000 } }]) {
    const rest = barrier();
    server.faults = [{ ...fault, until: rest.promise }];
    const response = await get('3000-9999');
    const stalled = server.requests.at(-1);
    await until('the bytes before the stall', () => stalled?.sent === 2000);
    await roundTrips();
    assert.equal(stalled?.sent, 2000);
    rest.release();
    same(await body(response), bytes.subarray(3000, 10_000));
    await until('the end of the answer', () => stalled?.end === 'done');
  }
});

test('truncate: a response ends early, with the right length, a wrong one or none', async () => {
  server.faults = [{ truncate: 1000 }];
  const right = await get('0-1999');
  assert.deepEqual(
    [right.status, right.headers.get('content-length'), right.headers.get('content-range')],
    [206, '1000', `bytes 0-1999/${SIZE}`],
  );
  same(await body(right), bytes.subarray(0, 1000));
  server.faults = [{ truncate: 1000, length: 'none' }];
  const none = await get();
  assert.equal(none.headers.get('content-length'), null);
  same(await body(none), bytes.subarray(0, 1000));
  server.faults = [{ truncate: 1000, length: 'whole' }];
  await assert.rejects(get().then(body));
  server.faults = [{ length: SIZE - 50 }];
  same((await body(await get())).subarray(0, SIZE - 50), bytes.subarray(0, SIZE - 50));
});

test('flip: a byte is wrong always, once, or in the first response that contains it', async () => {
  const flipped = bytes.slice(1000, 2000);
  flipped[500] ^= 1;
  server.faults = [{ flip: 1500 }];
  for (let i = 0; i < 2; i++) same(await body(await get('1000-1999')), flipped);
  server.faults = [{ flip: 1500, times: 1 }];
  same(await body(await get('0-999')), bytes.subarray(0, 1000));
  same(await body(await get('1000-1999')), flipped);
  same(await body(await get('1000-1999')), bytes.subarray(1000, 2000));
  server.faults = [{ flip: [0, 299_999] }];
  const both = await body(await get());
  assert.deepEqual([both[0], both[1], both[299_999]], [bytes[0] ^ 1, bytes[1], bytes[299_999] ^ 1]);
  assert.equal(bytes[0], 0, 'the file itself is as it was');
});

test('rules select by path, method and count, or are functions; later ones take precedence', async () => {
  const status = async (path = PATH) => (await get('0-9', { path })).status;
  server.faults = [
    { nth: [1, 2], status: 503 },
    { nth: 2, status: 404 },
    { path: '/other.bq4', status: 500, times: 1 },
  ];
  assert.deepEqual([await status(), await status(), await status(), await status()], [206, 503, 404, 206]);
  assert.deepEqual(
    [await status('/other.bq4'), await status('/other.bq4'), await status('/other.bq4')],
    [500, 503, 404],
    'a count for each path',
  );
  server.faults = [
    ({ range }) => (range === 'bytes=0-9' ? { status: 429, headers: { 'retry-after': '1' } } : undefined),
  ];
  assert.equal(await status(), 429);
  assert.equal((await get('0-9')).headers.get('retry-after'), '1');
  assert.equal((await get('1-9')).status, 206);
});

test('statuses: 200 ignores ranges, 206 without a range, 416, errors with HTML, a portal', async () => {
  server.faults = [{ status: 200 }];
  const whole = await get('5-9');
  assert.deepEqual([whole.status, whole.headers.get('content-range')], [200, null]);
  same(await body(whole), bytes);
  server.faults = [{ status: 206 }];
  const all = await get();
  assert.deepEqual([all.status, all.headers.get('content-range')], [206, `bytes 0-${SIZE - 1}/${SIZE}`]);
  for (const status of [403, 405, 416, 500, 503]) {
    server.faults = [{ status }];
    const response = await get('0-9');
    assert.equal(response.status, status);
    assert.match(await response.text(), /^<!doctype html>/);
  }
  server.faults = [{ html: true }];
  const portal = await get('0-9');
  assert.deepEqual([portal.status, portal.headers.get('content-type')], [200, 'text/html']);
  server.faults = [{ shift: 3, total: '*' }];
  const shifted = await get('10-19');
  assert.equal(shifted.headers.get('content-range'), 'bytes 13-19/*');
  same(await body(shifted), bytes.subarray(13, 20));
});

test('a file that changes between ranges', async () => {
  server.faults = [{ nth: 1, file: '/other.bq4' }];
  same(await body(await get('0-9')), bytes.subarray(0, 10));
  same(await body(await get('0-9')), other.subarray(0, 10));
  same(await body(await get('0-9')), bytes.subarray(0, 10));
  server.files[PATH] = bytes.subarray(0, 100);
  assert.equal((await get('0-9')).headers.get('content-range'), 'bytes 0-9/100');
});

test('connections are refused or not answered', async () => {
  server.faults = [{ refuse: true }];
  assert.equal((await raw()).how, 'ECONNRESET');
  server.faults = [{ silent: true }];
  await assert.rejects(get('0-9', { signal: AbortSignal.timeout(60) }), { name: 'TimeoutError' });
  assert.equal(server.requests.at(-1)?.status, 0);
});

test('a throttled response is sent in small chunks', async () => {
  server.faults = [{ bytesPerSecond: 200_000 }];
  let n = 0;
  for await (const piece of /** @type {any} */ ((await get('0-29999')).body)) {
    assert.ok(piece.length <= 30_000);
    n++;
  }
  assert.ok(n >= 3, `${n} pieces of 10,000 bytes`);
});

test('gzip: of the complete file, of a range, a range of the compressed file, and a false header', async () => {
  server.faults = [{ gzip: true }];
  const whole = await get();
  assert.equal(whole.headers.get('content-encoding'), 'gzip');
  assert.notEqual(whole.headers.get('content-length'), String(SIZE));
  same(await body(whole), bytes);
  same(await body(await get('1000-1999')), bytes.subarray(1000, 2000));
  server.faults = [{ gzip: 'encoded' }];
  const first = await get('0-99');
  assert.match(first.headers.get('content-range') ?? '', /^bytes 0-99\/\d+$/);
  assert.notEqual(first.headers.get('content-range'), `bytes 0-99/${SIZE}`);
  await assert.rejects(body(await get('1000-1999')), 'the middle of a gzip stream is none');
  server.faults = [{ gzip: 'lie' }];
  await assert.rejects(get().then(body));
});

test('redirects: to another origin, to one that expires', async () => {
  server.faults = [{ path: PATH, redirect: `${server.origins[1]}/other.bq4` }];
  const moved = await get('0-9');
  assert.equal(moved.url, `${server.origins[1]}/other.bq4`);
  same(await body(moved), other.subarray(0, 10));
  assert.deepEqual(
    server.requests.map((r) => [r.origin, r.status]),
    [
      [server.origins[0], 302],
      [server.origins[1], 206],
    ],
  );

  server.faults = [{ sign: 2, redirect: server.origins[1] + PATH }];
  const signed = await get('0-9');
  assert.match(signed.url, /:\d+\/model\.bq4\?sig=\d+$/);
  same(await body(signed), bytes.subarray(0, 10));
  const again = async () => (await get('0-9', { url: signed.url })).status;
  assert.deepEqual([await again(), await again()], [206, 403]);
  const fresh = await get('0-9');
  assert.equal(fresh.status, 206);
  assert.notEqual(fresh.url, signed.url);
  server.expire();
  assert.equal((await get('0-9', { url: fresh.url })).status, 403);
  server.faults = [{ port: 0, redirect: server.origins[1] + PATH }];
  same(await body(await get('0-9')), bytes.subarray(0, 10));
  server.faults = [{ redirect: '/other.bq4', path: PATH, status: 307 }];
  assert.equal((await get('0-9', { redirect: 'manual' })).status, 307);
});

test('OPTIONS and HEAD: refused, or allowed; CORS headers hidden or shown', async () => {
  const options = () => fetch(server.at(PATH), { method: 'OPTIONS' });
  assert.deepEqual(
    [(await options()).status, (await options()).headers.get('access-control-allow-origin')],
    [405, null],
  );
  server.allow = ['OPTIONS', 'HEAD'];
  assert.equal((await options()).headers.get('access-control-allow-headers'), '*');
  assert.equal((await get(undefined, { method: 'HEAD' })).headers.get('content-length'), String(SIZE));
  server.faults = [{ cors: false, headers: { 'content-type': null, etag: '"1"' } }];
  const hidden = await get('0-9');
  assert.deepEqual(
    ['access-control-allow-origin', 'content-type', 'etag'].map((name) => hidden.headers.get(name)),
    [null, null, '"1"'],
  );
  server.faults = [{ cors: 'https://one.example', expose: true }];
  const shown = await get('0-9');
  assert.equal(shown.headers.get('access-control-allow-origin'), 'https://one.example');
  assert.match(shown.headers.get('access-control-expose-headers') ?? '', /Content-Range/);
});
