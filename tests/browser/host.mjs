// A web server for pages under test: an empty page, the demo, and servers on demand for suites that run in a page.
import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { makeDist } from '../../tools/payload.mjs';
import { publicPath, REACT } from '../../tools/serve.mjs';
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
const WATCH = '<script src="/tests/browser/shims/watch.js"></script>';
const PAGE = `<!doctype html><meta charset="utf-8"><title>tests</title><link rel="icon" href="data:,">${WATCH}
<script type="importmap">{ "imports": {
  "node:test": "/tests/browser/shims/node-test.mjs",
  "node:assert/strict": "/tests/browser/shims/node-assert.mjs",
  "/tests/server/faults.mjs": "/tests/browser/shims/server.mjs"
} }</script>`;

/**
 * Workers are those of the package: as sources each would ask for eighty files, and a suite that starts hundreds would spend a
 * sixth of its time with that. Of a host with `sources` they are the sources.
 */
const SHIPPED = /^\/js\/((worker|io-worker|thread|part-[a-z0-9-]+)\.js)$/;

/** Where SmolLM2's GGUF is, if it is on this machine. */
export const REAL = '/local/smollm2.gguf';

/** What makes a page cross-origin isolated. */
export const ISOLATED = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
};

/**
 * Serves an empty page as `/`, and the repository. Every page begins with shims/watch.js.
 * @param {Record<string, string>} [headers]
 * @param {{ sources?: boolean }} [options]
 * @returns {Promise<{ url: string, refused: Set<string>, close: () => Promise<void> }>}  `refused`: paths whose connection is reset
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
      const items = await faultServer(
        new Uint8Array(Buffer.concat(await request.toArray())),
        JSON.parse(decodeURIComponent(query)),
      );
      servers.set(String(servers.size), items);
      return json({ id: servers.size - 1, url: items.url });
    }
    if (path === '/control/asked') return json(await servers.get(query)?.asked());
    if (path === '/control/close') return json(String(await servers.get(query)?.close()));
    const shipped = sources ? undefined : SHIPPED.exec(path)?.[1];
    const file = publicPath(shipped ? `/dist/${shipped}` : path.endsWith('/') ? `${path}index.html` : path, [
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
      ...REACT,
    ]);
    try {
      let body = readFileSync(join(ROOT, String(file)));
      const type = TYPES[extname(String(file))] ?? 'application/octet-stream';
      if (type === 'text/html') body = Buffer.from(body.toString().replace('<meta charset="utf-8">', `$&${WATCH}`));
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
      await Promise.all([...servers.values()].map((output) => output.close()));
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
}
