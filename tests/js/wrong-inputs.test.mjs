// Tests of invalid sources, workers, ports, addresses and caches: both kinds of engines refuse them with ARGUMENT and name them.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createEngine } from '../../js/engine/create.js';
import { connectEngine, createWorkerEngine } from '../../js/index.js';
import { resolveHub } from '../../js/storage/sources/hub.js';
import { fromUrl, toSource } from '../../js/storage/sources/index.js';
import { tinyModel } from './fixture.mjs';

/** @type {Record<string, import('../../js/shared/types.js').Engine>} */
const engines = {};
before(async () => {
  engines.here = await createEngine({ threads: 1 });
  engines.worker = await createWorkerEngine({ threads: 1 });
});
after(() => Promise.all(Object.values(engines).map((engine) => engine.close())));

/** @type {any[]} */
const itself = [];
itself.push(itself);
const hole = Object.assign(new Array(2), { 1: 'https://h.org/a' });
/** @type {any} */
const parts = { kind: 'several' };
parts.sources = [parts];

const url = { kind: 'url', url: 'https://h.org/a' };
const hub = { kind: 'hub', repo: 'owner/name' };

/** By what errors say. @type {[RegExp, any][]} */
const SOURCES = [
  [/^fromBlob: expected a Blob, found undefined/, { kind: 'blob' }],
  [/^fromBlob: expected a Blob, found "x"/, { kind: 'blob', blob: 'x' }],
  [/^fromUrl: expected an address, found undefined/, { kind: 'url' }],
  [/^fromUrl: expected an address, found 5/, { kind: 'url', url: 5 }],
  [/^expected a full address, found "a\/b"/, { kind: 'url', url: 'a/b' }],
  [/^mirrors: expected a list of addresses, found 5/, { kind: 'url', url: 'https://h.org/a', mirrors: 5 }],
  [/^expected a full address, found "x"/, { kind: 'url', url: 'https://h.org/a', mirrors: ['x'] }],
  [/^manifest: expected a Uint8Array, found "x"/, { kind: 'url', url: 'https://h.org/a', manifest: 'x' }],
  [/^the source: expected .*, found 5/, { kind: 'url', url: 'https://h.org/a', companion: 5 }],
  [/^expected hf:owner\/name/, { kind: 'hub', repo: 5 }],
  [/^retries: expected an integer from 0 to 4294967295, found -1/, { ...url, retries: -1 }],
  [/^retries: expected .*, found "3"/, { ...url, retries: '3' }],
  [/^retries: expected .*, found 1.5/, { ...hub, retries: 1.5 }],
  [/^retryDelay: expected a number of at least 0, found NaN/, { ...url, retryDelay: NaN }],
  [/^retryDelay: expected .*, found -1/, { ...hub, retryDelay: -1 }],
  [/^timeout: expected a number of milliseconds, found "1 s"/, { ...url, timeout: '1 s' }],
  [/^timeout: expected .*, found -5/, { ...hub, timeout: -5 }],
  [/^hubUrl: expected an address, found 5/, { ...hub, hubUrl: 5 }],
  [/^expected the hub's http address, found "hub"/, { ...hub, hubUrl: 'hub' }],
  [/^expected the hub's http address, found ""/, { ...hub, hubUrl: '' }],
  [/^expected the hub's http address, found "data:,x"/, { ...hub, hubUrl: 'data:,x' }],
  [/^revision: expected a branch, a tag or a commit, found 5/, { ...hub, revision: 5 }],
  [/^revision: expected .*, found null/, { ...hub, revision: null }],
  [/^revision: expected .*, found ""/, { ...hub, revision: '' }],
  [/^revision: expected .*, found "a b"/, { ...hub, revision: 'a b' }],
  [/^file: expected the path of a file in the repository, found \["x"\]/, { ...hub, file: ['x'] }],
  [/^file: expected .*, found ""/, { ...hub, file: '' }],
  [/^retries: expected .*, found "3"/, [url, { ...url, retries: '3' }]],
  [/^timeout: expected .*, found null/, { ...url, companion: { ...url, timeout: null } }],
  [/^fromBytes: expected .*, found \[1\]/, { kind: 'bytes', bytes: [1] }],
  [/^fromHandle: expected .*, found \{\}/, { kind: 'handle', handle: {} }],
  [/^fromFile: expected a path, found undefined/, { kind: 'file' }],
  [/^the source: expected .*, found undefined/, { kind: 'several' }],
  [/^a file of a list: expected the source of one file/, parts],
  [/^a file of a list: expected the source of one file/, itself],
  [/^the source: expected an address, .*, found undefined/, hole],
  [/^the source: expected an address, .*, found \{"read":5\}/, { read: 5 }],
  [/^the source: expected .*, found \{"length":1000000000\}/, { length: 1e9 }],
  [/^the source: expected .*, found null/, null],
  [/^the source: expected .*, found undefined/, undefined],
  [/^the source: expected .*, found 5/, 5],
  [/^the source: expected .*, found \[\]/, []],
  [/^the source: expected .*, found \[object Request\]/, new Request('https://h.org/a')],
  [/^the source: expected .*, found \[object Response\]/, new Response('x')],
  [/^the source: expected .*, found \[object ReadableStream\]/, new ReadableStream()],
  [/^the source: expected .*, found \[object Promise\]/, Promise.resolve('https://h.org/a')],
  [/^the source: expected .*, found \[object Int32Array\]/, new Int32Array(5)],
  [/^the source: expected .*, found \[object Set\]/, new Set(['https://h.org/a'])],
  [/^the source: expected .*, found a function/, () => 'https://h.org/a'],
  [/^expected a full address, found ""/, ''],
  [
    /^the source: expected an object that fromUrl or a similar function returned, found \{"kind":"directory"/,
    { kind: 'directory' },
  ],
  [/found \{"kind":"parts"\}/, { kind: 'parts' }],
];

test('an invalid source is refused with the value that was found', async () => {
  for (const [message, value] of SOURCES) {
    for (const [name, engine] of Object.entries(engines))
      for (const call of /** @type {const} */ (['load', 'plan']))
        await assert.rejects(
          engine[call](value),
          (/** @type {any} */ error) => {
            assert.equal(error.code, 'ARGUMENT', `${name}.${call}: ${error.stack}`);
            assert.match(error.message, message);
            assert.ok(error.hint, error.message);
            return true;
          },
          String(message),
        );
  }
});

test('values that are often mistaken for a source are refused with a hint', () => {
  for (const [value, hint] of [
    [Promise.resolve(''), /await/],
    [new Response('x'), /response\.blob\(\)/],
    [new Request('https://h.org/a'), /request\.url/],
  ])
    assert.throws(() => toSource(/** @type {any} */ (value)), { hint });
});

test('a source object with buffers and handles loads the model', async () => {
  const bytes = new Uint8Array(await tinyModel());
  const file = new File([bytes], 'model.bq4');
  const handle = { kind: 'file', name: 'model.bq4', getFile: async () => file };
  const buffer = bytes.slice().buffer;
  /** @type {any[]} */
  const sources = [{ kind: 'blob', blob: file }, { kind: 'bytes', bytes: buffer }, buffer, handle];
  for (const source of sources) {
    const model = await engines.here.load(source);
    assert.equal((await (await model.createSession()).generate('x', { maxTokens: 2 }).result).tokens.length, 2);
    await model.close();
  }
  // One that was transferred has no bytes any more.
  structuredClone(buffer, { transfer: [buffer] });
  await assert.rejects(engines.here.load(buffer), { code: 'TRUNCATED' });
});

test('a source object of a hub equals its name, with the revision main by default', async () => {
  const options = { hubUrl: 'http://127.0.0.1:1/', retries: 0, retryDelay: 0, timeout: Infinity };
  const file = { file: 'a/b.gguf', revision: 'refs/pr/1' };
  /** @type {[object, string][]} */
  const sources = [
    [{ ...hub, file: 'b.gguf' }, 'hf:owner/name/b.gguf'],
    [{ ...hub, ...file }, 'hf:owner/name/a/b.gguf@refs/pr/1'],
  ];
  for (const [source, name] of sources) {
    const resolved = await resolveHub({ .../** @type {any} */ (source), ...options }, {});
    const named = await resolveHub(/** @type {any} */ (fromUrl(name, options)), {});
    assert.deepEqual(resolved, named);
    assert.equal(/** @type {any} */ (named).retries, 0);
  }
  await assert.rejects(engines.here.load(/** @type {any} */ ({ ...hub, ...options })), {
    code: 'NETWORK',
    message: /^http:\/\/127.0.0.1:1\/api\/models\/owner\/name\/tree\/main\?/,
  });
  assert.throws(() => fromUrl('hf:owner/name', { hubUrl: '' }), { message: 'expected a full address, found ""' });
});

test('options in a list, a Map, a promise or a stream are refused, not ignored', async () => {
  const file = new Uint8Array(await tinyModel());
  /** @type {any[]} */
  const wrong = [[], new Map([['maxTokens', 2]]), new Set(), Promise.resolve({ maxTokens: 2 }), new URLSearchParams()];
  for (const [name, engine] of Object.entries(engines)) {
    for (const options of wrong)
      await assert.rejects(engine.load(file, options), { code: 'ARGUMENT', message: /^the last argument of load/ });
    const model = await engine.load(file);
    for (const options of wrong) {
      const at = `${name}, ${Object.prototype.toString.call(options)}`;
      const expected = { code: 'ARGUMENT', message: /^the last argument of (generate|createSession)/ };
      await assert.rejects(async () => model.generate('x', options).result, expected, at);
      await assert.rejects(model.createSession(options), expected, at);
      await assert.rejects(
        async () => model.generate('x', { responseFormat: options }).result,
        { code: 'ARGUMENT' },
        at,
      );
    }
    await model.close();
  }
});

test('messages that are no list are refused, also with a system message', async () => {
  const model = await engines.here.load(new Uint8Array(await tinyModel()));
  for (const messages of /** @type {any[]} */ ([null, 5, {}, 'abc', new Set()]))
    for (const system of [undefined, 'Be brief.'])
      await assert.rejects(model.createChat({ system, messages }), {
        code: 'ARGUMENT',
        message: /^messages: expected a list of \{ role, content \}, found/,
      });
  await model.close();
});

test('workers, ports, addresses of builds and caches of another type are refused', async () => {
  for (const worker of /** @type {any[]} */ ([5, 'x', {}, [], { postMessage: 5 }, () => 5, async () => null]))
    await assert.rejects(createWorkerEngine({ worker, threads: 1 }), { code: 'ARGUMENT', message: /worker/ });
  for (const port of /** @type {any[]} */ ([5, 'x', {}, [], null, undefined]))
    await assert.rejects(connectEngine(port), {
      code: 'ARGUMENT',
      message: /^the port: expected a MessagePort, found/,
    });
  for (const create of [createEngine, createWorkerEngine]) {
    for (const wasmUrl of /** @type {any[]} */ ([5, true, [], { relaxed: 5 }, () => 'x']))
      await assert.rejects(create({ wasmUrl, threads: 1 }), { code: 'ARGUMENT', message: /^wasmUrl: expected/ });
    for (const options of [{ wasmUrl: 'x' }, { threadUrl: 'x', threads: 2 }])
      await assert.rejects(create(options), { code: 'ARGUMENT', message: 'expected a full address, found "x"' });
  }
  const folder = mkdtempSync(join(tmpdir(), 'bq4-wrong-'));
  for (const cache of /** @type {any[]} */ ([
    5,
    true,
    [],
    { backend: 5 },
    { backend: 'disk' },
    '',
    { path: 5 },
    { path: '' },
    { path: folder, name: 5 },
    { path: folder, maxbytes: 1 },
    { path: folder, maxBytes: 'x' },
    { open: 5 },
  ]))
    await assert.rejects(createEngine({ cache, threads: 1 }), { code: 'ARGUMENT' }, JSON.stringify(cache));
  rmSync(folder, { recursive: true });
});
