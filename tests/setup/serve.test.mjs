// The demo's server: what it sends, and what it keeps to itself.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { EMBEDDER, parseRange, publicPath, serve } from '../../tools/serve.mjs';

const MODEL = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);
/** @type {string} */
let root;
/** @type {Awaited<ReturnType<typeof serve>>} */
let site;

before(async () => {
  root = mkdtempSync(join(tmpdir(), 'bq4-serve-'));
  for (const folder of ['demo/sub', 'js', 'build/wasm', 'models', 'tools'])
    mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, 'demo/index.html'), '<!doctype html>');
  writeFileSync(join(root, 'demo/.hidden'), 'secret');
  writeFileSync(join(root, 'demo/empty.txt'), '');
  writeFileSync(join(root, 'js/index.js'), 'export {};');
  writeFileSync(join(root, 'build/wasm/x.wasm'), '\0asm');
  writeFileSync(join(root, 'build/secret'), 'secret');
  writeFileSync(join(root, 'models/m.bq4'), MODEL);
  writeFileSync(join(root, 'tools/secret'), 'secret');
  writeFileSync(join(root, 'package.json'), '{}');
  site = await serve({ root });
});

after(async () => {
  await site.close();
  rmSync(root, { recursive: true });
});

/**
 * A request with its path sent as it is: fetch would tidy it.
 * @param {string} path
 * @param {{method?: string, headers?: Record<string, string>, port?: number}} [options]
 * @returns {Promise<{status: number, headers: import('node:http').IncomingHttpHeaders, body: Buffer}>}
 */
function ask(path, { method = 'GET', headers = {}, port = site.port } = {}) {
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (response) => {
      /** @type {Buffer[]} */
      const chunks = [];
      response.on('data', (bytes) => chunks.push(bytes));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    })
      .on('error', reject)
      .end();
  });
}

test('/ redirects to the demo', async () => {
  const { status, headers } = await ask('/?a=1');
  assert.equal(status, 302);
  assert.equal(headers.location, '/demo/?a=1');
  const page = await ask('/demo/');
  assert.equal(page.status, 200);
  assert.equal(page.body.toString(), '<!doctype html>');
  assert.equal((await ask('/demo')).headers.location, '/demo/');
});

test('responses have the media type of the file', async () => {
  for (const [path, type] of [
    ['/demo/index.html', 'text/html; charset=utf-8'],
    ['/js/index.js', 'text/javascript; charset=utf-8'],
    ['/build/wasm/x.wasm', 'application/wasm'],
    ['/models/m.bq4', 'application/octet-stream'],
  ]) {
    const { status, headers } = await ask(path);
    assert.deepEqual([status, headers['content-type']], [200, type], path);
  }
});

test('every response isolates the page and has a strict policy', async () => {
  for (const path of ['/', '/demo/', '/js/index.js', '/nothing']) {
    const { headers } = await ask(path);
    assert.equal(headers['cross-origin-opener-policy'], 'same-origin', path);
    assert.equal(headers['cross-origin-embedder-policy'], 'require-corp', path);
    assert.equal(headers['cross-origin-resource-policy'], 'same-origin', path);
    assert.equal(headers['x-content-type-options'], 'nosniff', path);
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /default-src 'none'/, path);
    assert.match(policy, /script-src 'self' 'wasm-unsafe-eval'/, path);
    assert.doesNotMatch(policy, /'unsafe-|blob:|\*/, path);
  }
});

test("a page's import map is allowed by its hash, and no other script within it", async () => {
  const map = '\n{ "imports": { "a": "./a.js" } }\n';
  mkdirSync(join(root, 'examples'), { recursive: true });
  writeFileSync(join(root, 'examples/map.html'), `<!doctype html><script type="importmap">${map}</script>`);
  const hash = createHash('sha256').update(map).digest('base64');
  const { headers } = await ask('/examples/map.html');
  const [scripts] = /script-src [^;]*/.exec(String(headers['content-security-policy'])) ?? [];
  assert.equal(scripts, `script-src 'self' 'wasm-unsafe-eval' 'sha256-${hash}'`);
});

test('files outside the public folders are refused', async () => {
  for (const path of [
    '/package.json',
    '/tools/secret',
    '/build/secret',
    '/demo/../package.json',
    '/demo/%2e%2e/package.json',
    '/demo/..%2fpackage.json',
    '/demo/%2e%2e%2ftools%2fsecret',
    '/demo/..\\package.json',
    '/demo/..%5cpackage.json',
    '//etc/passwd',
    '/demo//etc/passwd',
    '/etc/passwd',
    '/demo/.hidden',
    '/demo/./index.html',
    '/demo/%00',
    '/demo/%zz',
    '/demolition',
    '/demo/sub/',
    '/demo/nothing',
    'http://elsewhere/package.json',
  ]) {
    const { status, body } = await ask(path);
    assert.equal(status, 404, path);
    assert.equal(body.toString(), 'not found\n', path);
  }
});

test('byte ranges are served', async () => {
  for (const [range, start, end] of /** @type {[string, number, number][]} */ ([
    ['bytes=0-0', 0, 0],
    ['bytes=10-19', 10, 19],
    ['bytes=990-', 990, 999],
    ['bytes=-10', 990, 999],
    ['bytes=0-5000', 0, 999],
    ['bytes=-5000', 0, 999],
  ])) {
    const { status, headers, body } = await ask('/models/m.bq4', { headers: { Range: range } });
    assert.equal(status, 206, range);
    assert.equal(headers['content-range'], `bytes ${start}-${end}/1000`, range);
    assert.equal(headers['content-length'], String(end - start + 1), range);
    assert.deepEqual(body, Buffer.from(MODEL.subarray(start, end + 1)), range);
  }
  for (const range of ['bytes=1000-', 'bytes=5000-6000', 'bytes=-0']) {
    const { status, headers } = await ask('/models/m.bq4', { headers: { Range: range } });
    assert.equal(status, 416, range);
    assert.equal(headers['content-range'], 'bytes */1000', range);
  }
  for (const range of ['bytes=5-2', 'bytes=-', 'lines=1-2', 'bytes=0-1,5-6', 'nonsense']) {
    const { status, body } = await ask('/models/m.bq4', { headers: { Range: range } });
    assert.deepEqual([status, body.length], [200, 1000], range);
  }
  assert.equal(parseRange('bytes=0-0', 0), 'unsatisfiable');
});

test('an entity tag avoids a second download and protects ranges', async () => {
  const first = await ask('/models/m.bq4');
  const etag = String(first.headers.etag);
  assert.equal(first.headers['accept-ranges'], 'bytes');
  const second = await ask('/models/m.bq4', { headers: { 'If-None-Match': etag } });
  assert.deepEqual([second.status, second.body.length], [304, 0]);
  assert.equal((await ask('/models/m.bq4', { headers: { Range: 'bytes=0-9', 'If-Range': etag } })).status, 206);
  assert.equal((await ask('/models/m.bq4', { headers: { Range: 'bytes=0-9', 'If-Range': '"other"' } })).status, 200);
});

test('with `compress` the server gzips texts and modules for clients that accept it, never ranges or models', async (t) => {
  const other = await serve({ root, compress: true });
  t.after(other.close);
  const { port } = other;
  const gzip = { 'Accept-Encoding': 'gzip, br' };
  const zipped = await ask('/js/index.js', { headers: gzip, port });
  assert.equal(zipped.headers['content-encoding'], 'gzip');
  assert.equal(zipped.headers.vary, 'Accept-Encoding');
  assert.equal(String(gunzipSync(zipped.body)), 'export {};');
  assert.equal((await ask('/build/wasm/x.wasm', { headers: gzip, port })).headers['content-encoding'], 'gzip');
  const plain = await ask('/js/index.js', { port });
  assert.deepEqual([plain.headers['content-encoding'], String(plain.body)], [undefined, 'export {};']);
  assert.notEqual(plain.headers.etag, zipped.headers.etag, 'other bytes, another name');
  const again = { ...gzip, 'If-None-Match': String(zipped.headers.etag) };
  assert.equal((await ask('/js/index.js', { headers: again, port })).status, 304);
  assert.equal((await ask('/models/m.bq4', { headers: gzip, port })).headers['content-encoding'], undefined);
  const range = await ask('/js/index.js', { headers: { ...gzip, Range: 'bytes=0-5' }, port });
  assert.deepEqual([range.status, String(range.body)], [206, 'export']);
  const head = await ask('/js/index.js', { method: 'HEAD', headers: gzip, port });
  assert.deepEqual([head.headers['content-length'], head.body.length], [String(zipped.body.length), 0]);
  writeFileSync(join(root, 'js/index.js'), 'export { };');
  const edited = await ask('/js/index.js', { headers: gzip, port });
  assert.equal(String(gunzipSync(edited.body)), 'export { };');
  assert.equal((await ask('/js/index.js', { headers: gzip })).headers['content-encoding'], undefined);
});

test('models of this machine are listed and served, without hidden files and files outside the folder', async (t) => {
  const models = join(root, 'cache');
  for (const folder of ['one', 'split', 'incomplete', 'empty', '.work-1'])
    mkdirSync(join(models, folder), { recursive: true });
  for (const [name, bytes] of /** @type {[string, number][]} */ ([
    ['alone.gguf', 7],
    ['one/a b.gguf', 1000],
    ['one/c.bq4', 20],
    ['one/notes.txt', 5],
    ['one/.hidden.gguf', 5],
    ['split/m-00001-of-00003.gguf', 100],
    ['split/m-00002-of-00003.gguf', 200],
    ['split/m-00003-of-00003.gguf', 300],
    ['split/n-00001-of-00002.gguf', 1],
    ['incomplete/m-00002-of-00003.gguf', 9],
    ['.work-1/half.gguf', 9],
  ]))
    writeFileSync(join(models, name), MODEL.subarray(0, bytes));
  writeFileSync(join(root, 'outside.gguf'), 'secret');
  symlinkSync('../../outside.gguf', join(models, 'one/away.gguf'));
  symlinkSync('../..', join(models, 'one/up'));
  symlinkSync('..', join(models, 'away'));
  symlinkSync('nothing.gguf', join(models, 'one/broken.gguf'));
  symlinkSync('c.bq4', join(models, 'one/also.bq4'));
  mkdirSync(join(models, 'one/folder.gguf'));
  const local = await serve({ root, models });
  t.after(local.close);
  const get = (/** @type {string} */ path, /** @type {Record<string, string>} */ headers = {}) =>
    ask(path, { port: local.port, headers });
  const list = await get('/demo/local.json');
  assert.equal(list.headers['content-type'], 'application/json; charset=utf-8');
  const listed = JSON.parse(list.body.toString());
  assert.deepEqual(listed.map((/** @type {any} */ one) => [one.name, one.url, one.bytes]).sort(), [
    ['a b', '../local/one/a%20b.gguf', 1000],
    ['alone', '../local/alone.gguf', 7],
    ['also', '../local/one/also.bq4', 20],
    ['c', '../local/one/c.bq4', 20],
    ['m', '../local/split/m-00001-of-00003.gguf', 600],
    ['n', '../local/split/n-00001-of-00002.gguf', 1],
  ]);
  for (const { url } of listed) {
    const { status, body } = await get(new URL(url, `${local.url}demo/local.json`).pathname);
    assert.deepEqual([status, body], [200, Buffer.from(MODEL.subarray(0, body.length))], url);
    assert.ok(body.length > 0, url);
  }
  // The search page's model is no chat's.
  writeFileSync(join(models, `${EMBEDDER}.bq4`), MODEL.subarray(0, 9));
  const names = async (/** @type {string} */ query) =>
    JSON.parse((await get(`/demo/local.json${query}`)).body.toString()).map((/** @type {any} */ one) => one.name);
  assert.deepEqual(await names('?embedders'), [EMBEDDER]);
  assert.equal((await names('')).length, listed.length);
  const range = await get('/local/one/a%20b.gguf', { Range: 'bytes=10-19' });
  assert.deepEqual([range.status, range.headers['content-range']], [206, 'bytes 10-19/1000']);
  assert.deepEqual(range.body, Buffer.from(MODEL.subarray(10, 20)));
  assert.equal((await get('/local/split/m-00003-of-00003.gguf')).body.length, 300, 'the parts are there');
  for (const path of [
    '/local/one/away.gguf',
    '/local/one/up/outside.gguf',
    '/local/one/up/package.json',
    '/local/away/outside.gguf',
    '/local/one/broken.gguf',
    '/local/one/.hidden.gguf',
    '/local/.work-1/half.gguf',
    '/local/../outside.gguf',
    '/local/%2e%2e/outside.gguf',
    '/local/..%2foutside.gguf',
    '/local/one/..%2f..%2f..%2foutside.gguf',
    '/local/nothing.gguf',
    '/local',
    '/local/',
  ])
    assert.equal((await get(path)).status, 404, path);
  for (const path of ['/local/one/c.bq4', '/demo/local.json']) assert.equal((await ask(path)).status, 404, path);
});

test('HEAD and empty files are served, other methods are refused', async () => {
  const head = await ask('/models/m.bq4', { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers['content-length'], head.body.length], [200, '1000', 0]);
  const post = await ask('/models/m.bq4', { method: 'POST' });
  assert.deepEqual([post.status, post.headers.allow], [405, 'GET, HEAD']);
  const empty = await ask('/demo/empty.txt');
  assert.deepEqual([empty.status, empty.headers['content-length'], empty.body.length], [200, '0', 0]);
});

test('a port in use gives an error with a code', async () => {
  await assert.rejects(serve({ root, port: site.port }), { code: 'EADDRINUSE' });
});

test('publicPath', () => {
  assert.equal(publicPath('/js/a%20b.js?x#y', ['js']), 'js/a b.js');
  assert.equal(publicPath('/js', ['js']), 'js');
  assert.equal(publicPath('/jsx', ['js']), undefined);
});
