// A small static server for the demo: the right types and headers, byte ranges, nothing outside the
// folders it is given.
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync, realpathSync, statSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { basename, extname, join, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { hostName, isOurs } from '../js/api/server/guard.js';

/** @type {Record<string, string>} */
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.webmanifest': 'application/manifest+json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.md': 'text/plain; charset=utf-8', // shown; as text/markdown it would be downloaded
  '.txt': 'text/plain; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.wasm': 'application/wasm',
  '.bq4': 'application/octet-stream',
  '.gguf': 'application/octet-stream',
};

/** What hosts compress. */
const COMPRESSIBLE = /\.(html|m?js|css|json|webmanifest|map|md|txt|svg|wasm)$/;

/** Where models of this machine are, under this name. */
const LOCAL = 'local';
/** A model that makes vectors of texts, as `npm start` calls its file: the search page asks for it, no chat does. */
export const EMBEDDER = 'all-MiniLM-L6-v2';

/** What examples/react/ has of React: without a bundler, its files as npm has them. */
export const REACT = ['react', 'react-dom', 'scheduler'].map((name) => `node_modules/${name}/cjs`);

/** What a page may reach; all else of the checkout stays private. */
export const PUBLIC = [
  'demo',
  'examples',
  'js',
  'build/wasm',
  'models',
  'classifiers',
  'node_modules/@huggingface/jinja/dist',
  'node_modules/marked/lib',
  'node_modules/temml/dist',
  'node_modules/@highlightjs/cdn-assets/es',
  'node_modules/pdfjs-dist/legacy/build',
  'node_modules/pdfjs-dist/cmaps',
  ...REACT,
];

const POLICY = 'Content-Security-Policy';
const HEADERS = {
  // Cross-origin isolation: what shared memory, and so threads, need.
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
  [POLICY]: [
    "default-src 'none'",
    "script-src 'self' 'wasm-unsafe-eval'",
    "worker-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // Always ask, answer 304: an edited file shows at the next reload.
  'Cache-Control': 'no-cache',
};

/** Workers that may fetch from elsewhere: models from the links that people paste (the engine's own worker, of the examples), lists of models from the hub. */
const FETCHING = ['demo/worker.js', 'demo/models/hub-worker.js', 'js/worker.js'];
const ENGINE_POLICY = {
  [POLICY]: HEADERS[POLICY].replace("connect-src 'self'", "connect-src 'self' https: http:"),
};

/** A page's import map is a script within it, which the policy names by its hash. @param {string} page */
function importMapPolicy(page) {
  const [, map] = /<script type="importmap">([^]*?)<\/script>/.exec(page) ?? [];
  if (map === undefined) return {};
  const hash = createHash('sha256').update(map).digest('base64');
  return { [POLICY]: HEADERS[POLICY].replace("'wasm-unsafe-eval'", `$& 'sha256-${hash}'`) };
}

/** The policy of a page for a `<meta>`, where a host sends none: frames can't be forbidden there. @param {string} page */
export const pagePolicy = (page) =>
  (importMapPolicy(page)[POLICY] ?? HEADERS[POLICY]).replace("; frame-ancestors 'none'", '');

/** The script that answers for `/` where there is no network. */
const AT_ROOT = 'demo/root.js';

/**
 * @param {string} target of a request
 * @param {readonly string[]} folders
 * @returns {string | undefined} a relative path with forward slashes inside one of the folders
 */
export function publicPath(target, folders) {
  let path;
  try {
    path = decodeURIComponent(target.split(/[?#]/, 1)[0]);
  } catch {
    return undefined;
  }
  // No empty, "." or ".." segment, no hidden file, nothing that another system reads as a separator.
  if (!path.startsWith('/') || /[\\\0:]/.test(path) || /\/(?=\/)|\/\./.test(path)) return undefined;
  path = path.slice(1);
  return folders.some((folder) => path === folder || path.startsWith(`${folder}/`)) ? path : undefined;
}

/** A part of a split model, by its number. */
const PART = /-(\d{5})-of-\d{5}(?=\.gguf$)/;

/** What a path in a folder leads to, through links too; undefined: nothing, or out of the folder. @param {string} folder @param {string} path */
function inside(folder, path) {
  try {
    const place = realpathSync(join(folder, path));
    return place.startsWith(realpathSync(folder) + sep) ? place : undefined;
  } catch {
    return undefined;
  }
}

/** Where a public path lies; undefined: in no public folder, or a link leads elsewhere. The folder itself may be a link, as node_modules may. @param {string} path @param {string} root @param {readonly string[]} folders */
function placeOf(path, root, folders) {
  const folder = folders
    .filter((one) => path === one || path.startsWith(`${one}/`))
    .sort((a, b) => b.length - a.length)[0];
  if (folder === undefined) return undefined;
  return path === folder ? join(root, path) : inside(join(root, folder), path.slice(folder.length));
}

/** Models in a folder and in the folders of it, and where the server has them. @param {string} folder */
function localModels(folder) {
  const names = (/** @type {string} */ path) => {
    try {
      return readdirSync(join(folder, path)).filter((name) => !name.startsWith('.'));
    } catch {
      return [];
    }
  };
  return ['', ...names('')].flatMap((inner) => {
    const files = names(inner).flatMap((name) => {
      const place = /\.(gguf|bq4)$/.test(name) && inside(folder, join(inner, name));
      const stat = place && statSync(place);
      return stat && stat.isFile() ? [{ name, model: name.replace(PART, '/'), bytes: stat.size }] : [];
    });
    return files
      .filter(({ name }) => Number(PART.exec(name)?.[1] ?? 1) === 1)
      .map(({ name, model }) => ({
        name: basename(name.replace(PART, ''), extname(name)),
        url: ['..', LOCAL, inner, name].filter(Boolean).map(encodeURIComponent).join('/'),
        bytes: files.reduce((sum, one) => sum + (one.model === model ? one.bytes : 0), 0),
      }));
  });
}

/**
 * One `bytes=` range. Several ranges, or another unit, count as no range: the whole file is a right answer.
 * @param {string | undefined} header
 * @param {number} size
 * @returns {{start: number, end: number} | 'unsatisfiable' | undefined} end is the last byte
 */
export function parseRange(header, size) {
  const match = /^bytes=\s*(\d*)-(\d*)\s*$/.exec(header ?? '');
  if (!match || (!match[1] && !match[2])) return undefined;
  if (!match[1]) {
    const last = Number(match[2]);
    return last && size ? { start: Math.max(0, size - last), end: size - 1 } : 'unsatisfiable';
  }
  const start = Number(match[1]);
  const end = match[2] ? Math.min(Number(match[2]), size - 1) : size - 1;
  if (match[2] && Number(match[2]) < start) return undefined;
  return start < size ? { start, end } : 'unsatisfiable';
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 * @param {{root: string, sources?: string, folders: readonly string[], home: string, hosts: string[], common: Record<string, string>, models?: string, compressed?: Map<string, Promise<Buffer>>}} site
 *   `compressed`: files by place and version, gzipped; none: answers are not compressed
 */
async function answer(request, response, { root, sources, folders, home, hosts, common, models, compressed }) {
  /** @param {number} status @param {Record<string, string | number>} [headers] @param {string} [text] */
  const reply = (status, headers = {}, text = '') => {
    response.writeHead(status, {
      ...common,
      'Content-Type': 'text/plain; charset=utf-8',
      'Content-Length': Buffer.byteLength(text),
      ...headers,
    });
    response.end(request.method === 'HEAD' ? '' : text);
  };
  const name = hostName(request.headers.host);
  if (!isOurs(name, { hosts })) return reply(403, {}, `this server is not called "${name}"\n`);
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return reply(405, { Allow: 'GET, HEAD' }, 'only GET and HEAD\n');
  const target = request.url ?? '/';
  if (/^\/([?#]|$)/.test(target)) return reply(302, { Location: home + target.slice(1) });
  let path = publicPath(target, models ? [...folders, LOCAL] : folders);
  if (path === undefined) return reply(404, {}, 'not found\n');
  if (path.endsWith('/')) path += 'index.html';

  if (models && path === 'demo/local.json') {
    const embeds = target.endsWith('?embedders');
    const list = localModels(models).filter(({ name }) => (name === EMBEDDER) === embeds);
    const text = `${JSON.stringify(list)}\n`;
    return reply(200, { 'Content-Type': TYPES['.json'] }, text);
  }
  const place =
    models && path.startsWith(`${LOCAL}/`)
      ? inside(models, path.slice(LOCAL.length))
      : (placeOf(path, root, folders) ?? (sources && placeOf(path, sources, folders)));
  if (place === undefined) return reply(404, {}, 'not found\n');
  const file = await open(place).catch(() => undefined);
  try {
    const stat = await file?.stat();
    if (stat?.isDirectory()) return reply(301, { Location: `${target.split(/[?#]/, 1)[0]}/` });
    if (!file || !stat?.isFile()) return reply(404, {}, 'not found\n');
    const zips =
      compressed !== undefined &&
      request.headers.range === undefined &&
      COMPRESSIBLE.test(path) &&
      /\bgzip\b/.test(String(request.headers['accept-encoding']));
    const etag = `"${stat.size.toString(16)}-${Math.trunc(stat.mtimeMs).toString(16)}${zips ? '-gzip' : ''}"`;
    const headers = {
      ...common,
      ...(common === HEADERS && FETCHING.includes(path) && ENGINE_POLICY),
      ...(common === HEADERS && path.endsWith('.html') && importMapPolicy(await readFile(place, 'utf8'))),
      ...(path === AT_ROOT && { 'Service-Worker-Allowed': '/' }),
      'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream',
      ...(compressed && COMPRESSIBLE.test(path) && { Vary: 'Accept-Encoding' }),
      ...(zips && { 'Content-Encoding': 'gzip' }),
      ETag: etag,
      'Accept-Ranges': 'bytes',
    };
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304, headers);
      return response.end();
    }
    if (zips) {
      const key = `${place} ${etag}`;
      const body = compressed.get(key) ?? readFile(place).then((bytes) => promisify(gzip)(bytes, { level: 9 }));
      compressed.set(key, body);
      const { length } = await body;
      response.writeHead(200, { ...headers, 'Content-Length': length });
      return response.end(request.method === 'HEAD' ? '' : await body);
    }
    const current = request.headers['if-range'] === undefined || request.headers['if-range'] === etag;
    const range = request.method === 'GET' && current ? parseRange(request.headers.range, stat.size) : undefined;
    if (range === 'unsatisfiable') return reply(416, { 'Content-Range': `bytes */${stat.size}` }, 'no such bytes\n');
    const { start, end } = range ?? { start: 0, end: stat.size - 1 };
    response.writeHead(range ? 206 : 200, {
      ...headers,
      'Content-Length': end - start + 1,
      ...(range ? { 'Content-Range': `bytes ${start}-${end}/${stat.size}` } : {}),
    });
    if (request.method === 'HEAD' || end < start) return response.end();
    await pipeline(createReadStream('', { fd: file, start, end, autoClose: false }), response);
  } finally {
    await file?.close();
  }
}

/**
 * Serves folders of `root` until closed.
 * @param {{root: string, sources?: string, port?: number, host?: string, folders?: readonly string[], home?: string, hosts?: string[], policy?: boolean, models?: string, compress?: boolean, plain?: boolean}} options
 *   `sources`: where files are that `root` lacks; `models`: a folder whose models the demo offers; port 0 (the default) takes any free one; home is where `/` leads; hosts: names that it is asked by besides localhost and addresses; policy false: without a Content-Security-Policy;
 *   compress: gzips what hosts gzip, which helps over a network and costs time on one machine; plain: no header that a host would have to be told to send
 * @returns {Promise<{url: string, port: number, close: () => Promise<void>}>}
 *   rejects with code EADDRINUSE when the port is taken
 */
export async function serve({
  root,
  sources,
  port = 0,
  host = '127.0.0.1',
  folders = PUBLIC,
  home = '/demo/',
  hosts = [],
  policy = true,
  models,
  compress = false,
  plain = false,
}) {
  const { [POLICY]: csp, ...others } = HEADERS;
  const common = plain ? { 'Cache-Control': HEADERS['Cache-Control'] } : policy ? HEADERS : others;
  /** @type {Map<string, Promise<Buffer>> | undefined} */
  const compressed = compress ? new Map() : undefined;
  const server = createServer((request, response) => {
    answer(request, response, { root, sources, folders, home, hosts, common, models, compressed }).catch((error) => {
      // A visitor who leaves in the middle of a file is no error.
      if (!response.headersSent) response.writeHead(500).end();
      else response.destroy();
      if (!String(error.code).startsWith('ERR_STREAM_')) console.error(error);
    });
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => resolve(undefined));
  });
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://${host === '127.0.0.1' ? 'localhost' : host}:${address.port}/`,
    port: address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
