// A web server for pages under test: an empty page, the files of the repository, and fault servers for suites that run in a page.
import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { makeDist } from '../../tools/payload.mjs';
import { publicPath, REACT_FILES } from '../../tools/serve.mjs';
import { realModel } from '../../tools/setup/models.mjs';
import { faultServer } from '../server/faults.mjs';
import { ROOT } from './site.mjs';

/** @type {Record<string, string>} */
const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};
const WATCH_SCRIPT = '<script src="/tests/browser/shims/watch.js"></script>';
const PAGE = `<!doctype html><meta charset="utf-8"><title>tests</title><link rel="icon" href="data:,">${WATCH_SCRIPT}
<script type="importmap">{ "imports": {
  "node:test": "/tests/browser/shims/node-test.mjs",
  "node:assert/strict": "/tests/browser/shims/node-assert.mjs",
  "/tests/server/faults.mjs": "/tests/browser/shims/server.mjs"
} }</script>`;

/**
 * Scripts of workers that are served from the package: their sources consist of eighty files, which would be a sixth of the time of a
 * suite that starts hundreds of workers. A host with `sources` serves the sources.
 */
const PACKAGED_SCRIPTS = /^\/js\/((worker|io-worker|thread|part-[a-z0-9-]+)\.js)$/;

/** Path of SmolLM2's GGUF, if it is on this machine. */
export const REAL = '/local/smollm2.gguf';

/** Headers of a cross-origin isolated page. */
export const ISOLATED = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
};

/**
 * Serves an empty page as `/`, and the files of the repository. The first script of every page is shims/watch.js.
 * @param {Record<string, string>} [headers]  of every response
 * @param {{ sources?: boolean }} [options]  `sources`: workers are served as sources
 * @returns {Promise<{ url: string, refused: Set<string>, close: () => Promise<void> }>}  `refused`: paths for which connections are reset
 */
export async function host(headers = {}, { sources = false } = {}) {
  const problem = sources ? '' : makeDist();
  if (problem) throw new Error(problem);
  /** @type {Set<string>} */
  const refused = new Set();
  /** @type {Map<string, Awaited<ReturnType<typeof faultServer>>>} */
  const servers = new Map();
  const server = createServer(async (request, response) => {
    const [path, query = ''] = String(request.url).split('?');
    if (refused.has(path)) return void request.socket.resetAndDestroy();
    const json = (/** @type {any} */ value) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (path === '/') return void response.writeHead(200, { 'content-type': 'text/html', ...headers }).end(PAGE);
    if (path === REAL) {
      const model = realModel('smollm2') ?? '';
      response.writeHead(200, {
        'content-type': 'application/octet-stream',
        'content-length': statSync(model).size,
        ...headers,
      });
      return void createReadStream(model).pipe(response);
    }
    if (path === '/control/serve') {
      const faulty = await faultServer(
        new Uint8Array(Buffer.concat(await request.toArray())),
        JSON.parse(decodeURIComponent(query)),
      );
      servers.set(String(servers.size), faulty);
      return json({ id: servers.size - 1, url: faulty.url });
    }
    if (path === '/control/asked') return json(await servers.get(query)?.asked());
    if (path === '/control/close') return json(String(await servers.get(query)?.close()));
    const packaged = sources ? undefined : PACKAGED_SCRIPTS.exec(path)?.[1];
    const file = publicPath(packaged ? `/dist/${packaged}` : path.endsWith('/') ? `${path}index.html` : path, [
      'dist',
      'js',
      'build/wasm',
      'build/bench',
      'tests',
      'demo',
      'examples',
      'models',
      'node_modules/marked/lib',
      'node_modules/temml/dist',
      'node_modules/@highlightjs/cdn-assets/es',
      ...REACT_FILES,
    ]);
    try {
      let body = readFileSync(join(ROOT, String(file)));
      const type = TYPES[extname(String(file))] ?? 'application/octet-stream';
      if (type === 'text/html')
        body = Buffer.from(body.toString().replace('<meta charset="utf-8">', `$&${WATCH_SCRIPT}`));
      response.writeHead(200, { 'content-type': type, ...headers }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://localhost:${port}/`,
    refused,
    close: async () => {
      await Promise.all([...servers.values()].map((faulty) => faulty.close()));
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
}
