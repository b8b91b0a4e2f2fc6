// Tests of one contract for every source, then of the properties of each, with real files and real HTTP.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { inspect } from 'node:util';
import { after, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { runInNewContext } from 'node:vm';
import { fileAddress as inCommands } from '../../bin/options.js';
import { fileAddress as inDemo } from '../../demo/page/format.js';
import { createEngine } from '../../js/node.js';
import { companionOf } from '../../js/format/bq4/companion.js';
import { nearest, OPTIONS } from '../../js/shared/options.js';
import {
  fromBlob,
  fromBytes,
  fromFile,
  fromHandle,
  fromUrl,
  openSource,
  toSource,
} from '../../js/storage/sources/index.js';
import { placeOf } from '../../js/storage/sources/kinds.js';
import { readRange } from '../../js/storage/sources/read.js';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';

const bytes = Uint8Array.from({ length: 2_500_000 }, (_, i) => (i * 2654435761) >>> 24);
const folder = mkdtempSync(join(tmpdir(), 'bq4-sources-'));
const path = join(folder, 'model.bq4');
writeFileSync(path, bytes);
const ranged = await faultServer(bytes);
const whole = await faultServer(bytes, { status: 200 });
after(async () => {
  await ranged.close();
  await whole.close();
  rmSync(folder, { recursive: true });
});

const kinds = {
  bytes: () => fromBytes(bytes),
  'array buffer': () => fromBytes(bytes.slice().buffer),
  blob: () => fromBlob(new Blob([bytes])),
  file: () => fromFile(path),
  'file: address': () => fromUrl(pathToFileURL(path)),
  'http with ranges': () => fromUrl(ranged.url),
  'http without ranges': () => fromUrl(whole.url),
  'blob: address': () => fromUrl(URL.createObjectURL(new Blob([bytes]))),
  'data: address': () => fromUrl(`data:application/octet-stream;base64,${Buffer.from(bytes).toString('base64')}`),
};

for (const [name, make] of Object.entries(kinds)) {
  test(`${name}: any range, in any order, to the last byte and not beyond`, async () => {
    const source = make();
    const file = await openSource(structuredClone(source));
    const spans = [
      [0, 65536],
      [65536, 65540],
      [0, 1],
      [1_000_000, 2_200_000],
      [2_499_999, 2_500_000],
      [2_400_000, Infinity],
      [10, 10],
      [0, Infinity],
    ];
    for (const [from, to] of spans) {
      assert.ok(Buffer.from(bytes.subarray(from, to)).equals(await readRange(file, from, to)), `${from}-${to}`);
    }
    await file.close();
  });

  test(`${name}: streams in pieces, and can be left`, async () => {
    const file = await openSource(make());
    let n = 0;
    for await (const piece of file.stream(100, 2_000_000)) {
      assert.ok(Buffer.from(bytes.subarray(100 + n, 100 + n + piece.length)).equals(piece));
      n += piece.length;
      if (n > 1_000_000) break;
    }
    assert.ok(n > 1_000_000 && n < 1_999_900, 'it came in more than one piece');
    assert.equal((await readRange(file, 5, 9)).length, 4, 'it can be read after that');
    await file.close();
  });

  test(`${name}: an aborted signal ends it with its reason`, async () => {
    const controller = new AbortController();
    const file = await openSource(make());
    const reason = new Error('enough');
    await assert.rejects(async () => {
      for await (const piece of file.stream(0, Infinity, controller.signal)) if (piece.length) controller.abort(reason);
    }, reason);
    await file.close();
  });
}

test('http: requests are GETs with no additional header except Range', async () => {
  const server = await faultServer(bytes);
  const file = await openSource(fromUrl(server.url));
  await readRange(file, 5, 100);
  await readRange(file, 100, Infinity);
  await file.close();
  await server.close();
  assert.deepEqual(
    server.requests.map(({ method, range }) => [method, range]),
    [
      ['GET', 'bytes=5-99'],
      ['GET', 'bytes=100-'],
    ],
  );
  const usual = [
    'host',
    'connection',
    'accept',
    'accept-language',
    'accept-encoding',
    'sec-fetch-mode',
    'user-agent',
    'cache-control',
    'pragma',
  ];
  assert.deepEqual(
    Object.keys(server.requests[0].headers).filter((h) => !usual.includes(h)),
    ['range'],
  );
});

test('http: a server that ignores ranges receives one request for a sequential read', async () => {
  const server = await faultServer(bytes, { status: 200 });
  const file = await openSource(fromUrl(server.url));
  await readRange(file, 0, 65536);
  const rest = await readRange(file, 70_000, 2_500_000);
  assert.ok(Buffer.from(bytes.subarray(70_000)).equals(rest));
  assert.equal(server.requests.length, 1);
  await readRange(file, 0, 10);
  assert.equal(server.requests.length, 2, 'going back needs the file anew');
  await file.close();
  await server.close();
});

/** @type {[import('../server/faults.mjs').Rule, string, RegExp][]} */
const failures = [
  [{ status: 404 }, 'HTTP_STATUS', /404/],
  [{ status: 500 }, 'HTTP_STATUS', /500/],
  [{ drop: 1_000_000 }, 'NETWORK', /broke after \d+ bytes/],
  [{ drop: 1_000_000, status: 200 }, 'NETWORK', /broke after \d+ bytes/],
];
for (const [fault, code, message] of failures) {
  test(`http: ${JSON.stringify(fault)} is ${code}`, async () => {
    const server = await faultServer(bytes, fault);
    const file = await openSource(fromUrl(server.url, { retries: 0 }));
    await assert.rejects(
      readRange(file, 0, Infinity),
      (/** @type {any} */ e) => e.code === code && message.test(e.message) && e.hint.length > 0,
    );
    await file.close();
    await server.close();
  });
}

test('http: Retry-After is a number of seconds or a date; other values count as none', async () => {
  const secondsOf = async (/** @type {string} */ value) => {
    const server = await faultServer(bytes, { status: 503, headers: { 'retry-after': value } });
    const file = await openSource(fromUrl(server.url, { retries: 0 }));
    const error = await readRange(file, 0, 10).catch((e) => e);
    await file.close();
    await server.close();
    return error.details.retryAfter;
  };
  assert.equal(await secondsOf('120'), 120);
  const hour = await secondsOf(new Date(Date.now() + 3_600_000).toUTCString());
  assert.ok(hour > 3000 && hour <= 3600, `${hour}`);
  for (const none of ['0', '-5', 'soon', '', 'Thu, 01 Jan 1970 00:00:00 GMT'])
    assert.equal(await secondsOf(none), 0, none);
});

test('http: a refused connection is NETWORK, a range beyond the end is TRUNCATED', async () => {
  const server = await faultServer(bytes);
  const file = await openSource(fromUrl(server.url));
  await assert.rejects(readRange(file, 3_000_000, 3_000_001), { code: 'TRUNCATED' });
  await server.close();
  const isGone = await openSource(fromUrl(server.url, { retries: 1, retryDelay: 1 }));
  await assert.rejects(readRange(isGone, 0, 1), { code: 'NETWORK' });
});

test('http: a range with more bytes than requested and without a matching header is refused', async (t) => {
  /** @type {(string | undefined)[]} */
  const asked = [];
  const server = createServer(({ headers: { range } }, response) => {
    asked.push(range);
    const [, from, to] = /bytes=(\d+)-(\d+)/.exec(range ?? '')?.map(Number) ?? [];
    response.writeHead(range ? 206 : 200);
    response.end(range ? bytes.subarray(from, to + 1 + 7) : bytes);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => server.close());
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const file = await openSource(fromUrl(`http://127.0.0.1:${port}/`, { retries: 2, retryDelay: 1 }));
  assert.deepEqual(await readRange(file, 0, 1000), bytes.slice(0, 1000));
  assert.deepEqual(asked, ['bytes=0-999', undefined], 'then the whole file is asked for');
  await file.close();
});

test('addresses that fetch refuses give READ immediately, with the address; a mirror is tried', async (t) => {
  const revoked = URL.createObjectURL(new Blob([bytes]));
  URL.revokeObjectURL(revoked);
  for (const address of ['foo:bar', 'foo://h.org/model.gguf', 'data:;base64,A', 'data:x', revoked]) {
    const file = await openSource(fromUrl(address, { retries: 3, retryDelay: 0 }));
    const failures = t.mock.fn();
    file.onFailure = failures;
    await assert.rejects(readRange(file, 0, 10), (/** @type {any} */ error) => {
      assert.deepEqual([error.code, error.message], ['READ', `expected a readable address, found "${address}"`]);
      assert.match(
        error.hint,
        address === revoked ? /revoked.*load the Blob/ : /http:, https:, data: and blob:.*file:/,
      );
      assert.ok(error.cause, 'what fetch says');
      return true;
    });
    assert.equal(failures.mock.callCount(), 0, `${address}: no other try`);
    await file.close();
  }
  const file = await openSource(fromUrl('foo:bar', { mirrors: [ranged.url] }));
  assert.deepEqual(await readRange(file, 0, 10), bytes.slice(0, 10));
  await file.close();
});

test('addresses with a user name or password, which fetch refuses, give READ immediately, without the password', async (t) => {
  for (const user of ['u:secret@', ':secret@', 'u@']) {
    const address = ranged.url.replace('://', `://${user}`);
    const file = await openSource(fromUrl(address, { retries: 3, retryDelay: 0 }));
    const failures = t.mock.fn();
    file.onFailure = failures;
    await assert.rejects(readRange(file, 0, 10), (/** @type {any} */ error) => {
      assert.equal(error.code, 'READ');
      assert.equal(
        error.message,
        `expected an address without a user name and password, found one for "${ranged.url}"`,
      );
      assert.doesNotMatch(inspect(error), /secret/);
      return true;
    });
    assert.equal(failures.mock.callCount(), 0, 'no other try');
    await file.close();
  }
});

test("an app's own scheme whose files have no ranges is asked for the whole file", async (t) => {
  /** @type {(string | undefined)[]} */
  const ranges = [];
  t.mock.method(globalThis, 'fetch', async (/** @type {string} */ address, /** @type {any} */ { headers }) => {
    ranges.push(headers.Range);
    if (headers.Range) throw new TypeError(`Failed to fetch ${address}`);
    return new Response(bytes);
  });
  const file = await openSource(fromUrl('app://x/model.bq4', { retries: 0 }));
  assert.deepEqual(await readRange(file, 5, 25), bytes.slice(5, 25));
  assert.deepEqual(ranges, ['bytes=5-24', undefined]);
  await file.close();
});

test('http: a server that refuses the first range with 416 is asked for the whole file; an empty file stays empty', async (t) => {
  const server = await faultServer({ '/model.bq4': bytes, '/empty.bq4': new Uint8Array() }, (request) =>
    request.range ? { status: 416 } : {},
  );
  t.after(server.close);
  const file = await openSource(fromUrl(server.url, { retries: 0 }));
  assert.ok(Buffer.from(bytes.subarray(0, 1000)).equals(await readRange(file, 0, 1000)));
  assert.ok(Buffer.from(bytes.subarray(1000, 5000)).equals(await readRange(file, 1000, 5000)));
  assert.equal(server.requests.length, 2, 'one of them for the whole file');
  await file.close();
  const empty = await openSource(fromUrl(server.at('/empty.bq4'), { retries: 0 }));
  assert.equal((await readRange(empty, 0, 1000)).length, 0);
  await empty.close();
});

test('http: a range is requested once, and again up to `retries` times', async (t) => {
  const server = await faultServer(bytes, { status: 503 });
  t.after(server.close);
  for (const retries of [0, 1, 3]) {
    server.forget();
    const file = await openSource(fromUrl(server.url, { retries, retryDelay: 1 }));
    await assert.rejects(readRange(file, 0, 100), { code: 'HTTP_STATUS' });
    assert.equal(server.requests.length, 1 + retries);
    await file.close();
  }
});

test('http: a mirror with a shorter file of the same beginning is another file', async (t) => {
  const files = { '/model.bq4': bytes, '/short.bq4': bytes.subarray(0, 1000), '/same.bq4': bytes };
  const server = await faultServer(files, { path: '/model.bq4', nth: [1, 2, 3], status: 500 });
  t.after(server.close);
  const mirrors = ['/short.bq4', '/same.bq4'].map((path) => server.at(path));
  const options = { retries: 0, retryDelay: 1 };
  const file = await openSource(fromUrl(server.at('/model.bq4'), { ...options, mirrors: mirrors.slice(0, 1) }));
  const head = await readRange(file, 0, 2000);
  file.expect?.(head, bytes.length);
  await assert.rejects(readRange(file, 2000, 3000), { code: 'HTTP_STATUS' });
  await file.close();
  server.faults = [{ path: '/model.bq4', nth: 1, status: 500 }];
  const other = await openSource(fromUrl(server.at('/model.bq4'), { ...options, mirrors }));
  other.expect?.(await readRange(other, 0, 2000), bytes.length);
  assert.deepEqual(await readRange(other, 2000, 3000), bytes.slice(2000, 3000));
  assert.equal(other.name, mirrors[1]);
  await other.close();
});

test('http: a file that changes its length between ranges is CHANGED', async () => {
  const files = { '/model.bq4': bytes };
  const server = await faultServer(files);
  const file = await openSource(fromUrl(server.url));
  await readRange(file, 0, 100);
  files['/model.bq4'] = bytes.subarray(0, 2_000_000);
  await assert.rejects(readRange(file, 100, 200), { code: 'CHANGED' });
  await server.close();
});

test('http: an abort ends the request to a stalled server', async () => {
  for (const ranges of [true, false]) {
    const server = await faultServer(bytes, { stall: { after: 1000 }, ...(!ranges && { status: 200 }) });
    const controller = new AbortController();
    const file = await openSource(fromUrl(server.url));
    const reading = readRange(file, 0, Infinity, controller.signal);
    const ended = assert.rejects(reading, { name: 'AbortError' });
    await until('the bytes before the stall', () => server.requests[0]?.sent === 1000);
    controller.abort();
    await ended;
    await file.close();
    await server.close();
  }
});

test('file: a missing path and a file that changes during the read are errors', async () => {
  await assert.rejects(openSource(fromFile(join(folder, 'none.bq4'))), { code: 'READ' });
  await assert.rejects(
    openSource(fromFile(folder)).then((f) => readRange(f, 0, 10)),
    { code: 'READ' },
  );
  const written = join(folder, 'written.bq4');
  for (const write of [() => truncateSync(written, 1000), () => writeFileSync(written, bytes)]) {
    writeFileSync(written, bytes);
    utimesSync(written, 1e9, 1e9); // times of files are coarse
    const file = await openSource(fromFile(written));
    assert.equal((await readRange(file, 0, Infinity)).length, bytes.length);
    write();
    await assert.rejects(readRange(file, 0, Infinity), { code: 'READ', message: /it was written while it was read$/ });
    await file.close();
  }
});

test('values that are sources are accepted, others are refused', () => {
  assert.equal(toSource('https://example.org/a.bq4').kind, 'url');
  assert.equal(toSource(new Blob([])).kind, 'blob');
  assert.equal(toSource(new Uint8Array(1)).kind, 'bytes');
  assert.equal(toSource(fromFile('a')).kind, 'file');
  assert.throws(() => toSource(/** @type {any} */ (null)), { code: 'ARGUMENT' });
  for (const kind of ['x', '__proto__', null])
    assert.throws(() => placeOf(/** @type {any} */ ({ kind })), {
      code: 'ARGUMENT',
      message: `expected a source that fromUrl or a similar function returned, found the kind ${kind}`,
    });
  /** @type {[string, (value: any) => unknown, any[]][]} */
  const makers = [
    ['fromBlob', fromBlob, ['x', null, {}]],
    ['fromBytes', fromBytes, ['x', 5, null, [1, 2], new Int32Array(2)]],
    ['fromFile', fromFile, [5, null, {}]],
    ['fromHandle', fromHandle, ['x', null, {}]],
  ];
  for (const [name, make, values] of makers)
    for (const value of values)
      assert.throws(() => make(value), { code: 'ARGUMENT', message: new RegExp(`^${name}: expected .*, found`) });
  const far = runInNewContext('new Uint8Array([1, 2])');
  assert.deepEqual(/** @type {any} */ (fromBytes(far)).bytes, Uint8Array.of(1, 2));
});

test('a file in a list is named by its decoded address; invalid escapes stay', () => {
  for (const [path, place] of [
    ['/a%20b/m.gguf', '/a b/m.gguf'],
    ['/100%/%zz.gguf', '/100%/%zz.gguf'],
  ])
    assert.equal(placeOf(fromUrl(`https://h.org${path}`)), place);
});

test('the companion of a v1 file is next to it or named by an option', () => {
  assert.deepEqual(companionOf(fromFile('/a.b/model.bq4')), fromFile('/a.b/model.json'));
  assert.deepEqual(companionOf(fromUrl('https://h.org/x/m.bq4?sig=1')), fromUrl('https://h.org/x/m.json?sig=1'));
  assert.equal(companionOf(fromBlob(new Blob([]))), null);
  const named = fromBytes(new Uint8Array(2));
  assert.deepEqual(companionOf(fromBlob(new Blob([]), { companion: named })), named);
  assert.equal(companionOf(fromBlob(new Blob([]), { companion: 'https://h.org/c.json' })).kind, 'url');
});

test('unknown options of a source are refused with the nearest known one', () => {
  const any = (/** @type {object} */ options) => /** @type {any} */ (options);
  assert.throws(
    () => fromUrl('https://example.org/a', any({ retry: 3 })),
    /fromUrl: unknown option "retry"; did you mean "retries"/,
  );
  assert.throws(
    () => fromUrl('https://example.org/a', { timeout: -1 }),
    /timeout: expected a number of milliseconds, found -1/,
  );
  assert.throws(() => fromBytes(new Uint8Array(), any({ compagnon: '' })), /"companion"/);
  for (const path of ['model.gguf', './model.gguf', '/tmp/model.gguf', 'C:\\models\\a.gguf', 'ftp://example.org/a'])
    assert.throws(() => fromUrl(path), { code: 'ARGUMENT', message: `expected a full address, found "${path}"` });
});

test('the error for an unknown option suggests a name that is similar or shares its beginning or end, or no name', () => {
  const suggestions = {
    'generate or send': {
      max_tokens: 'maxTokens',
      max_new_tokens: 'maxTokens',
      max: 'maxTokens',
      temp: 'temperature',
      stop_sequences: 'stop',
      stopp: 'stop',
      abortSignal: 'signal',
      repetition_penalty: 'repeatPenalty',
      ...{ foo: undefined, x: undefined, num_predict: undefined, do_sample: undefined, system: undefined },
    },
    load: {
      context: 'contextTokens',
      contextLength: 'contextTokens',
      kv_cache: 'kv',
      memory: 'memoryBudget',
      sha256: undefined,
    },
  };
  for (const [call, names] of Object.entries(suggestions))
    for (const [name, expected] of Object.entries(names))
      assert.equal(
        nearest(name, Object.keys(OPTIONS[/** @type {keyof typeof OPTIONS} */ (call)])),
        expected,
        `${call}: ${name}`,
      );
  assert.throws(() => fromUrl('https://example.org/a', /** @type {any} */ ({ qqq: 3 })), /unknown option "qqq"$/);
});

test('the address of a hub page about a file is converted to the address of the file, in the demo and for commands', () => {
  const hub = 'https://huggingface.co/some/model-GGUF';
  for (const of of [inDemo, inCommands]) {
    assert.equal(of(`${hub}/blob/main/a/m.gguf?x=1`), `${hub}/resolve/main/a/m.gguf?x=1`);
    for (const same of [
      `${hub}/resolve/main/m.gguf`,
      `${hub}/tree/main`,
      'https://example.com/a/b/blob/main/m.gguf',
      'm.gguf',
    ])
      assert.equal(of(same), same);
  }
});

test('in Node a string without a scheme is a path', async (t) => {
  for (const path of ['models/a.bq4', './a.gguf', '/a b.gguf', 'C:\\models\\a.gguf', 'C:/models/a.gguf', 'a:b.gguf'])
    assert.deepEqual(toSource(path), { kind: 'file', path });
  for (const url of ['http://h.org/a.bq4', 'file:///a.bq4', 'data:,x', 'blob:nodedata:1', 'HTTPS://h.org/a'])
    assert.equal(toSource(url).kind, 'url', url);
  assert.equal(toSource('hf:owner/name').kind, 'hub');
  const engine = await createEngine({ threads: 1 });
  t.after(() => engine.close());
  const path = relative(process.cwd(), fileURLToPath(new URL('../../models/chat.bq4', import.meta.url)));
  const model = await engine.load(path);
  assert.ok(model.info.generates);
  await assert.rejects(engine.load('no/such/model.gguf'), {
    code: 'READ',
    message: /^no\/such\/model\.gguf can't be read: /,
  });
});
