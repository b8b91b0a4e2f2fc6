// A static web server for the demo, with media types, security headers, byte ranges and compression. It serves only the folders
// that its caller names.
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
  '.md': 'text/plain; charset=utf-8', // browsers show plain text, but download text/markdown
  '.txt': 'text/plain; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.wasm': 'application/wasm',
  '.bq4': 'application/octet-stream',
  '.gguf': 'application/octet-stream',
};

/** Files that web hosts compress. */
const COMPRESSIBLE = /\.(html|m?js|css|json|webmanifest|map|md|txt|svg|wasm)$/;

/** First segment of the addresses of models on this machine. */
const LOCAL_FOLDER = 'local';
/** Embedding model of the search page: name of its file in the folder of models, without extension. The list of chat models omits it. */
export const EMBEDDER = 'all-MiniLM-L6-v2';

/** Folders of React's npm packages whose files examples/react/ imports without a bundler. */
export const REACT_FILES = ['react', 'react-dom', 'scheduler'].map((name) => `node_modules/${name}/cjs`);

/** Folders of the repository that pages may fetch. All other files are refused. */
export const PUBLIC = [
  'demo',
  'examples',
  'js',
  'build/wasm',
  'models',
  'classifiers',
  'node_modules/marked/lib',
  'node_modules/temml/dist',
  'node_modules/@highlightjs/cdn-assets/es',
  'node_modules/pdfjs-dist/legacy/build',
  'node_modules/pdfjs-dist/cmaps',
  ...REACT_FILES,
];

const POLICY = 'Content-Security-Policy';
const HEADERS = {
  // Cross-origin isolation, which browsers require for shared memory and therefore for threads.
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
  // Browsers revalidate each file (304 if it is unchanged), so an edited file is used after the next reload.
  'Cache-Control': 'no-cache',
};

/**
 * Scripts of workers that may fetch from other origins: models from addresses that a user enters, and lists of models from the hub.
 * The last one is the engine's worker of the examples.
 */
const FETCHING_WORKERS = ['demo/worker.js', 'demo/models/hub-worker.js', 'js/worker.js'];
const FETCHING_HEADERS = {
  [POLICY]: HEADERS[POLICY].replace("connect-src 'self'", "connect-src 'self' https: http:"),
};

/** Returns the policy of a page with an import map: this is an inline script, which the policy allows by its hash. @param {string} page  HTML */
function importMapPolicy(page) {
  const [, importMap] = /<script type="importmap">([^]*?)<\/script>/.exec(page) ?? [];
  if (importMap === undefined) return {};
  const hash = createHash('sha256').update(importMap).digest('base64');
  return { [POLICY]: HEADERS[POLICY].replace("'wasm-unsafe-eval'", `$& 'sha256-${hash}'`) };
}

/** Returns the policy of a page for a `<meta>` element, where `frame-ancestors` has no effect. @param {string} page  HTML */
export const pagePolicy = (page) =>
  (importMapPolicy(page)[POLICY] ?? HEADERS[POLICY]).replace("; frame-ancestors 'none'", '');

/** Service worker that responds to `/` without a network. */
const ROOT_SERVICE_WORKER = 'demo/root.js';

/**
 * Returns the path of the file that a request names, or undefined if no public folder contains it.
 * @param {string} target  path and query of the request
 * @param {readonly string[]} folders
 * @returns {string | undefined}  relative path with forward slashes
 */
export function publicPath(target, folders) {
  let path;
  try {
    path = decodeURIComponent(target.split(/[?#]/, 1)[0]);
  } catch {
    return undefined;
  }
  // Refused: empty segments, ".", "..", hidden files, and characters that are separators on other systems.
  if (!path.startsWith('/') || /[\\\0:]/.test(path) || /\/(?=\/)|\/\./.test(path)) return undefined;
  path = path.slice(1);
  return folders.some((folder) => path === folder || path.startsWith(`${folder}/`)) ? path : undefined;
}

/** Number of a part at the end of the name of a file of a split model. */
const PART = /-(\d{5})-of-\d{5}(?=\.gguf$)/;

/** Returns the real path of a file in a folder, or undefined if it does not exist or is outside the folder. @param {string} folder @param {string} path  can contain symbolic links */
function resolveInside(folder, path) {
  try {
    const file = realpathSync(join(folder, path));
    return file.startsWith(realpathSync(folder) + sep) ? file : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the real path of a file in a public folder, or undefined if it is outside. The folder itself can be a symbolic link, as
 * node_modules can.
 * @param {string} path @param {string} root @param {readonly string[]} folders
 */
function resolvePublic(path, root, folders) {
  const folder = folders
    .filter((candidate) => path === candidate || path.startsWith(`${candidate}/`))
    .sort((a, b) => b.length - a.length)[0];
  if (folder === undefined) return undefined;
  return path === folder ? join(root, path) : resolveInside(join(root, folder), path.slice(folder.length));
}

/** Returns the models in a folder and its subfolders: name, address relative to the demo, bytes of all parts. @param {string} folder */
function localModels(folder) {
  const namesIn = (/** @type {string} */ path) => {
    try {
      return readdirSync(join(folder, path)).filter((name) => !name.startsWith('.'));
    } catch {
      return [];
    }
  };
  return ['', ...namesIn('')].flatMap((subfolder) => {
    const files = namesIn(subfolder).flatMap((name) => {
      const filePath = /\.(gguf|bq4)$/.test(name) && resolveInside(folder, join(subfolder, name));
      const stat = filePath && statSync(filePath);
      return stat && stat.isFile() ? [{ name, model: name.replace(PART, '/'), bytes: stat.size }] : [];
    });
    return files
      .filter(({ name }) => Number(PART.exec(name)?.[1] ?? 1) === 1)
      .map(({ name, model }) => ({
        name: basename(name.replace(PART, ''), extname(name)),
        url: ['..', LOCAL_FOLDER, subfolder, name].filter(Boolean).map(encodeURIComponent).join('/'),
        bytes: files.reduce((sum, file) => sum + (file.model === model ? file.bytes : 0), 0),
      }));
  });
}

/**
 * Parses a header with one `bytes=` range. Several ranges and other units are ignored; the response is then the complete file.
 * @param {string | undefined} header
 * @param {number} size
 * @returns {{start: number, end: number} | 'unsatisfiable' | undefined}  `end`: offset of the last byte
 */
export function parseRange(header, size) {
  const match = /^bytes=\s*(\d*)-(\d*)\s*$/.exec(header ?? '');
  if (!match || (!match[1] && !match[2])) return undefined;
  if (!match[1]) {
    const suffixLength = Number(match[2]);
    return suffixLength && size ? { start: Math.max(0, size - suffixLength), end: size - 1 } : 'unsatisfiable';
  }
  const start = Number(match[1]);
  const end = match[2] ? Math.min(Number(match[2]), size - 1) : size - 1;
  if (match[2] && Number(match[2]) < start) return undefined;
  return start < size ? { start, end } : 'unsatisfiable';
}

/** @typedef {import('node:http').IncomingMessage} Request */
/** @typedef {import('node:http').ServerResponse} Response */
/**
 * Properties of a server. `common`: headers of all responses; `compressed`: gzipped files, by path and ETag; without it, responses are
 * not compressed.
 * @typedef {{root: string, sources?: string, folders: readonly string[], home: string, hosts: string[], common: Record<string, string>, models?: string, compressed?: Map<string, Promise<Buffer>>}} Site
 */

/**
 * Sends a text.
 * @param {Request} request @param {Response} response @param {Site} site
 * @param {number} status @param {Record<string, string | number>} [headers] @param {string} [text]
 */
function sendText(request, response, { common }, status, headers = {}, text = '') {
  response.writeHead(status, {
    ...common,
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    ...headers,
  });
  response.end(request.method === 'HEAD' ? '' : text);
}

/** Returns the real path of the file at a public path; undefined if no file is there. @param {string} path @param {Site} site */
function findFile(path, { root, sources, folders, models }) {
  if (models && path.startsWith(`${LOCAL_FOLDER}/`)) return resolveInside(models, path.slice(LOCAL_FOLDER.length));
  return resolvePublic(path, root, folders) ?? (sources && resolvePublic(path, sources, folders));
}

/** Whether a request accepts a compressed response with the complete file. @param {Request} request */
const acceptsCompression = ({ headers }) =>
  headers.range === undefined && /\bgzip\b/.test(String(headers['accept-encoding']));

/**
 * Sends a file: completely, compressed, as a range, or its headers only.
 * @param {Request} request @param {Response} response @param {Site} site
 * @param {{ path: string, filePath: string, file: import('node:fs/promises').FileHandle, stat: import('node:fs').Stats }} target
 */
async function sendFile(request, response, site, { path, filePath, file, stat }) {
  const { common, compressed } = site;
  const isCompressed = compressed !== undefined && COMPRESSIBLE.test(path) && acceptsCompression(request);
  const etag = `"${stat.size.toString(16)}-${Math.trunc(stat.mtimeMs).toString(16)}${isCompressed ? '-gzip' : ''}"`;
  const headers = {
    ...common,
    ...(common === HEADERS && FETCHING_WORKERS.includes(path) && FETCHING_HEADERS),
    ...(common === HEADERS && path.endsWith('.html') && importMapPolicy(await readFile(filePath, 'utf8'))),
    ...(path === ROOT_SERVICE_WORKER && { 'Service-Worker-Allowed': '/' }),
    'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream',
    ...(compressed && COMPRESSIBLE.test(path) && { Vary: 'Accept-Encoding' }),
    ...(isCompressed && { 'Content-Encoding': 'gzip' }),
    ETag: etag,
    'Accept-Ranges': 'bytes',
  };
  if (request.headers['if-none-match'] === etag) {
    response.writeHead(304, headers);
    return response.end();
  }
  if (isCompressed) {
    const key = `${filePath} ${etag}`;
    const body = compressed.get(key) ?? readFile(filePath).then((bytes) => promisify(gzip)(bytes, { level: 9 }));
    compressed.set(key, body);
    const { length } = await body;
    response.writeHead(200, { ...headers, 'Content-Length': length });
    return response.end(request.method === 'HEAD' ? '' : await body);
  }
  const isCurrentVersion = request.headers['if-range'] === undefined || request.headers['if-range'] === etag;
  const range = request.method === 'GET' && isCurrentVersion ? parseRange(request.headers.range, stat.size) : undefined;
  if (range === 'unsatisfiable')
    return sendText(
      request,
      response,
      site,
      416,
      { 'Content-Range': `bytes */${stat.size}` },
      `expected a range within ${stat.size} bytes, found "${request.headers.range}"\n`,
    );
  const { start, end } = range ?? { start: 0, end: stat.size - 1 };
  response.writeHead(range ? 206 : 200, {
    ...headers,
    'Content-Length': end - start + 1,
    ...(range ? { 'Content-Range': `bytes ${start}-${end}/${stat.size}` } : {}),
  });
  if (request.method === 'HEAD' || end < start) return response.end();
  await pipeline(createReadStream('', { fd: file, start, end, autoClose: false }), response);
}

/** Responds to a request. @param {Request} request @param {Response} response @param {Site} site */
async function respond(request, response, site) {
  const { folders, home, hosts, models } = site;
  /** @param {number} status @param {Record<string, string | number>} [headers] @param {string} [text] */
  const send = (status, headers, text) => sendText(request, response, site, status, headers, text);
  const name = hostName(request.headers.host);
  if (!isOurs(name, { hosts })) return send(403, {}, `expected a host name of this server, found "${name}"\n`);
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return send(405, { Allow: 'GET, HEAD' }, `expected GET or HEAD, found ${request.method}\n`);
  const target = request.url ?? '/';
  if (/^\/([?#]|$)/.test(target)) return send(302, { Location: home + target.slice(1) });
  let path = publicPath(target, models ? [...folders, LOCAL_FOLDER] : folders);
  if (path === undefined) return send(404, {}, 'not found\n');
  if (path.endsWith('/')) path += 'index.html';

  if (models && path === 'demo/local.json') {
    const isEmbedderList = target.endsWith('?embedders');
    const entries = localModels(models).filter((model) => (model.name === EMBEDDER) === isEmbedderList);
    return send(200, { 'Content-Type': TYPES['.json'] }, `${JSON.stringify(entries)}\n`);
  }
  const filePath = findFile(path, site);
  if (filePath === undefined) return send(404, {}, 'not found\n');
  const file = await open(filePath).catch(() => undefined);
  try {
    const stat = await file?.stat();
    if (stat?.isDirectory()) return send(301, { Location: `${target.split(/[?#]/, 1)[0]}/` });
    if (!file || !stat?.isFile()) return send(404, {}, 'not found\n');
    await sendFile(request, response, site, { path, filePath, file, stat });
  } finally {
    await file?.close();
  }
}

/**
 * Serves folders of `root` until closed.
 * @param {{root: string, sources?: string, port?: number, host?: string, folders?: readonly string[], home?: string, hosts?: string[], policy?: boolean, models?: string, compress?: boolean, plain?: boolean}} options
 *   `sources`: second root, for files that `root` does not contain; `port`: 0 (the default) is any free port; `home`: target of the
 *   redirect of `/`; `hosts`: host names to accept besides localhost and IP addresses; `policy`: whether responses have a
 *   Content-Security-Policy; `models`: folder of models that the demo lists; `compress`: gzips the files that hosts compress, which is
 *   useful over a network only; `plain`: sends no headers that a host sends only if it is configured so
 * @returns {Promise<{url: string, port: number, close: () => Promise<void>}>}
 *   rejects with code EADDRINUSE if the port is in use
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
  const { [POLICY]: csp, ...otherHeaders } = HEADERS;
  const commonHeaders = plain ? { 'Cache-Control': HEADERS['Cache-Control'] } : policy ? HEADERS : otherHeaders;
  /** @type {Map<string, Promise<Buffer>> | undefined} */
  const compressed = compress ? new Map() : undefined;
  const server = createServer((request, response) => {
    respond(request, response, {
      root,
      sources,
      folders,
      home,
      hosts,
      common: commonHeaders,
      models,
      compressed,
    }).catch((error) => {
      // A connection that the browser closes during a response is not an error.
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
