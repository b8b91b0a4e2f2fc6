// Tests of `load`, which creates an engine and a model in one call, and of model names on a hub, with a server that responds like
// huggingface.co.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { test } from 'node:test';
import * as page from '../../js/index.js';
import * as node from '../../js/node.js';
import { bestFile } from '../../js/storage/sources/hub.js';
import { tinyModel } from './fixture.mjs';
import { testFolder } from './folders.mjs';
import { randomGguf, SMALL } from './gguf-writer.mjs';

const MODEL = await tinyModel();
const { fromBytes, fromUrl } = node;

/**
 * @param {import('node:test').TestContext} t
 * @param {{ files?: Record<string, Uint8Array>, status?: number, gated?: boolean, token?: string, host?: string,
 *   lists?: boolean }} [repository]  `owner/name`; `host`: another server to which downloads are redirected; `lists`:
 *   whether the server has lists of files
 */
async function hub(t, { files = {}, status = 200, gated = false, token, host, lists = true } = {}) {
  /** Values of the header Authorization, by request. @type {(string | undefined)[]} */
  const tokens = [];
  /** @type {string[]} */
  const requests = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(String(request.url), 'http://hub');
    requests.push(pathname);
    tokens.push(request.headers.authorization);
    const json = (/** @type {number} */ code, /** @type {unknown} */ value) =>
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (token && request.headers.authorization !== `Bearer ${token}`)
      return json(401, { error: 'Repository not found' });
    if (status !== 200) return json(status, { error: 'Repository not found' });
    const [, kind, revision, file] =
      /^\/(api\/models\/)?owner\/name\/(?:tree|resolve)\/([^/]+)\/?(.*)$/.exec(pathname) ?? [];
    if (!revision || revision === 'lost') return json(404, { error: 'Invalid rev id' });
    if (kind && !lists) return json(404, { error: 'Not found' });
    const isRecursive = String(request.url).endsWith('?recursive=true');
    if (kind)
      return json(200, [
        { type: 'directory', path: 'folder' },
        ...Object.entries(files)
          .filter(([path]) => isRecursive || path.replace(/\/?[^/]*$/, '') === decodeURIComponent(file))
          .map(([path, bytes]) => {
            const oid = createHash('sha256').update(bytes).digest('hex');
            return { type: 'file', path, size: bytes.length, oid: 'git', lfs: { oid, size: bytes.length } };
          }),
      ]);
    if (host) return response.writeHead(302, { location: `${host}${pathname}` }).end();
    if (gated) return json(401, { error: 'Access to model owner/name is restricted' });
    const bytes = files[decodeURIComponent(file)];
    if (!bytes) return json(404, { error: 'Entry not found' });
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    if (from === undefined) return response.writeHead(200, { 'content-length': bytes.length }).end(bytes);
    const end = Math.min(to ? Number(to) + 1 : bytes.length, bytes.length);
    const range = `bytes ${from}-${end - 1}/${bytes.length}`;
    response.writeHead(206, { 'content-range': range, 'content-length': end - Number(from) });
    return response.end(bytes.subarray(Number(from), end));
  });
  await new Promise((resolve) => void server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => void server.close(() => resolve(undefined)));
  };
  t.after(close);
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { hubUrl: `http://127.0.0.1:${port}`, requests, tokens, close };
}

for (const [name, { load }] of /** @type {const} */ ([
  ['in this thread', node],
  ['in a worker', page],
])) {
  test(`load ${name}: a model whose close closes its engine`, async () => {
    const seen = [];
    const model = await load(fromBytes(MODEL), {
      threads: 1,
      contextTokens: 64,
      onProgress: ({ phase }) => seen.push(phase),
    });
    assert.equal(model.info.contextTokens, 64);
    assert.equal(seen.at(-1), 'ready');
    assert.ok((await model.tokenize('Once')).length > 0);
    await model.close();
    await assert.rejects(model.createSession(), { code: 'CLOSED' });
  });

  test(`load ${name}: errors and aborts leave nothing open`, async () => {
    await assert.rejects(load(fromBytes(new Uint8Array(70)), { threads: 1 }), { code: 'NOT_A_MODEL' });
    await assert.rejects(load(fromBytes(MODEL), { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await assert.rejects(load(fromBytes(MODEL), /** @type {any} */ ({ contextSize: 64 })), {
      code: 'ARGUMENT',
      message: /"contextSize".*"contextTokens"/,
    });
  });

  test(`load ${name}: the best file of a repository, and a named one`, async (t) => {
    const { hubUrl, requests } = await hub(t, { files: { 'README.md': MODEL, 'sub folder/tiny.bq4': MODEL } });
    const best = await load(fromUrl('hf:owner/name', { hubUrl }), { threads: 1 });
    assert.ok(best.info.layers > 0);
    await best.close();
    assert.deepEqual(
      [...new Set(requests)],
      ['/api/models/owner/name/tree/main', '/owner/name/resolve/main/sub%20folder/tiny.bq4'],
    );
    const named = await load(fromUrl('hf:owner/name/sub folder/tiny.bq4@v1', { hubUrl }), { threads: 1 });
    await named.close();
    assert.equal(requests.at(-1), '/owner/name/resolve/v1/sub%20folder/tiny.bq4');
  });
}

test('without a network, a cached file of the repository is used', async (t) => {
  const { folder } = testFolder('hub-offline');
  const { hubUrl, close } = await hub(t, { files: { 'tiny.bq4': MODEL, 'other.bin': MODEL } });
  const source = fromUrl('hf:owner/name', { hubUrl, retries: 0 });
  await (await node.load(source, { threads: 1, cache: folder })).close();
  await close();
  const model = await node.load(source, { threads: 1, cache: folder });
  assert.ok(model.info.cached.complete);
  await model.close();
  await assert.rejects(node.load(source, { threads: 1 }), { code: 'NETWORK' });
});

test('errors of a hub have a hint', async (t) => {
  const fails = (/** @type {string} */ name, /** @type {string} */ hubUrl, /** @type {object} */ expected) =>
    assert.rejects(node.load(fromUrl(name, { hubUrl, retries: 0 }), { threads: 1 }), expected);
  const missing = await hub(t, { status: 401 });
  await fails('hf:owner/name', missing.hubUrl, { code: 'HTTP_STATUS', hint: /does not exist: check its name/ });
  const gated = await hub(t, { gated: true, files: { 'a.gguf': MODEL } });
  await fails('hf:owner/name', gated.hubUrl, { code: 'HTTP_STATUS', hint: /accept its conditions on the hub's page/ });
  await fails('hf:owner/name@lost', gated.hubUrl, { code: 'HTTP_STATUS', hint: /check the names .* revision/ });
  const unsuitable = await hub(t, { files: { 'model.safetensors': MODEL, 'mmproj-f16.gguf': MODEL } });
  await fails('hf:owner/name', unsuitable.hubUrl, {
    code: 'NOT_A_MODEL',
    message: /expected a GGUF file in owner\/name, found none of its 2 files/,
    hint: /npx bq4 convert hf:owner\/name/,
  });
  for (const name of ['hf:', 'hf:name', 'hf:owner/..', 'hf:owner/name@', 'hf:owner/name?x'])
    assert.throws(() => fromUrl(name), { code: 'ARGUMENT', message: /expected hf:owner\/name/ });
});

test('the reason of an abort may be any value, also during the request for the list of files', async (t) => {
  const { hubUrl } = await hub(t, { files: { 'tiny.bq4': MODEL } });
  const engine = await node.createEngine({ threads: 1 });
  t.after(() => engine.close());
  const loading = engine.load(fromUrl('hf:owner/name', { hubUrl }), { signal: AbortSignal.abort(null) });
  assert.equal(
    await loading.then(
      () => 'a model',
      (thrown) => thrown,
    ),
    null,
  );
});

test('an access token is sent to the hub, and not to the host that it redirects to', async (t) => {
  const files = { 'tiny.bq4': MODEL };
  const host = await hub(t, { files });
  const { hubUrl, tokens } = await hub(t, { files, token: 'secret', host: host.hubUrl });
  const load = (/** @type {string | undefined} */ token) =>
    node.load(fromUrl('hf:owner/name', { hubUrl, token, retries: 0 }), { threads: 1 });
  await assert.rejects(load(undefined), { code: 'HTTP_STATUS', hint: /fromUrl\(name, \{ token \}\)/ });
  await assert.rejects(load('other'), { code: 'HTTP_STATUS' });
  tokens.length = 0;
  await (await load('secret')).close();
  assert.deepEqual(new Set(tokens), new Set(['Bearer secret']));
  assert.ok(host.tokens.length > 0);
  assert.deepEqual(new Set(host.tokens), new Set([undefined]));
  assert.throws(() => fromUrl(`${hubUrl}/x.gguf`, { token: 'secret' }), { code: 'ARGUMENT', message: /token/ });
});

test('hf:owner/name:TYPE selects the file with this type; the plan has the chosen file and the reason', async (t) => {
  const files = { 'a/tiny-Q4_K_M.bq4': MODEL, 'tiny-Q8_0.bq4': MODEL, 'tiny-Q4_0.bq4': MODEL };
  const { hubUrl } = await hub(t, { files });
  const engine = await node.createEngine({ threads: 1 });
  t.after(() => engine.close());
  const plan = (/** @type {string} */ name) => engine.plan(fromUrl(name, { hubUrl }), { memoryBudget: 1e9 });
  const best = await plan('hf:owner/name');
  assert.equal(best.file, 'a/tiny-Q4_K_M.bq4');
  assert.match(String(best.fileReason), /^of 3 files, 3 fit into the 850 MB for weights; 4 bits per weight/);
  const requested = await plan('hf:owner/name:q8_0@v1');
  assert.equal(requested.file, 'tiny-Q8_0.bq4');
  assert.match(String(requested.fileReason), /^requested by the type q8_0; /);
  assert.equal((await plan('hf:owner/name:Q4_0')).file, 'tiny-Q4_0.bq4');
  await assert.rejects(plan('hf:owner/name:Q4'), {
    code: 'NOT_A_MODEL',
    message: /expected a file of the type Q4 in owner\/name, found none/,
    hint: /a\/tiny-Q4_K_M\.bq4, tiny-Q8_0\.bq4/,
  });
  assert.equal((await plan('hf:owner/name/tiny-Q4_0.bq4')).file, undefined);
  const model = await engine.load(fromUrl('hf:owner/name:Q8_0', { hubUrl }));
  await model.close();
});

test('a GGUF file of a repository must have the SHA-256 of its list of files', async (t) => {
  const { folder } = testFolder('hub-integrity');
  const file = randomGguf({ ...SMALL, layers: 2 });
  const integrity = `sha256-${createHash('sha256').update(file).digest('base64')}`;
  const files = { 'a b/tiny-Q4_0.gguf': file };
  const names = ['hf:owner/name', 'hf:owner/name:Q4_0', 'hf:owner/name/a b/tiny-Q4_0.gguf'];
  const engine = await node.createEngine({ threads: 1 });
  t.after(() => engine.close());
  const host = await hub(t, { files });
  const { hubUrl } = await hub(t, { files, host: host.hubUrl });
  for (const name of names) {
    const model = await engine.load(fromUrl(name, { hubUrl }));
    assert.deepEqual([model.info.integrity, model.info.authenticated], [integrity, true], name);
    await model.close();
  }
  // The host of the files sends another file of the same length.
  const damaged = Buffer.from(file);
  damaged[file.length - 5] ^= 1;
  const wrongHost = await hub(t, { files: { 'a b/tiny-Q4_0.gguf': damaged } });
  const attacked = await hub(t, { files, host: wrongHost.hubUrl });
  for (const name of names)
    await assert.rejects(engine.load(fromUrl(name, { hubUrl: attacked.hubUrl })), { code: 'INTEGRITY' }, name);
  // A mirror without lists has no hash, and a file that is completely cached needs no list.
  const mirror = await hub(t, { files, lists: false });
  const unlisted = await engine.load(fromUrl(names[2], { hubUrl: mirror.hubUrl, retries: 0 }));
  assert.deepEqual([unlisted.info.integrity, unlisted.info.authenticated], [null, false]);
  await unlisted.close();
  const cached = await node.createEngine({ threads: 1, cache: folder });
  t.after(() => cached.close());
  const { requests, hubUrl: cachedUrl } = await hub(t, { files });
  for (const expected of ['/api/models/owner/name/tree/main/a%20b', undefined]) {
    requests.length = 0;
    const model = await cached.load(fromUrl(names[2], { hubUrl: cachedUrl }));
    assert.deepEqual([model.info.integrity, requests[0]], [integrity, expected]);
    await model.close();
  }
});

test('the best file has 4 to 5 bits per weight, preferably Q4_K_M, and is the largest that fits', () => {
  const best = (/** @type {Record<string, number>} */ files, maxBytes = 1000) =>
    bestFile(
      Object.entries(files).map(([path, bytes]) => ({ path, bytes })),
      maxBytes,
    )?.path;
  const all = {
    'm-Q2_K.gguf': 200,
    'm-Q4_0.gguf': 400,
    'm-Q4_K_M.gguf': 430,
    'm-Q5_K_M.gguf': 500,
    'm-Q8_0.gguf': 800,
    'm-f16.gguf': 1600,
  };
  assert.equal(best(all), 'm-Q4_K_M.gguf');
  assert.equal(best(all, 410), 'm-Q4_0.gguf');
  assert.equal(best(all, 100), 'm-Q2_K.gguf', 'the smallest, where none fits');
  assert.equal(best({ 'm-Q8_0.gguf': 800, 'm.f16.gguf': 900 }), 'm-Q8_0.gguf');
  assert.equal(best({ 'm-IQ4_XS.gguf': 380, 'm-Q5_K_S.gguf': 480 }), 'm-Q5_K_S.gguf');
  const parts = { 'm-Q4_K_M-00001-of-00002.gguf': 600, 'm-Q4_K_M-00002-of-00002.gguf': 600, 'm-Q4_0.gguf': 900 };
  assert.equal(best(parts), 'm-Q4_0.gguf', 'parts count together');
  assert.equal(best(parts, 2000), 'm-Q4_K_M-00001-of-00002.gguf');
  assert.equal(best({ 'mmproj-Q4_K_M.gguf': 10, 'README.md': 1 }), undefined);
});

test('listSupported: architectures, chat formats, weight types and containers', async () => {
  const { architectures, chatFormats, weightTypes, containers } = await page.listSupported();
  for (const name of ['llama', 'qwen2', 'gemma3', 'bert']) assert.ok(architectures.includes(name), name);
  assert.ok(weightTypes.gguf.includes('Q4_K') && weightTypes.bq4.includes('bq4_32'), JSON.stringify(weightTypes));
  assert.deepEqual(containers, ['bq4', 'gguf', 'hugging-face-folder']);
  const chatml = chatFormats.find(({ name }) => name === 'chatml');
  assert.match(chatml.example, /<\|im_start\|>user\nHello!<\|im_end\|>/);
  assert.deepEqual(await node.listSupported(), await page.listSupported());
});
