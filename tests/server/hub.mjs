// A server with the interface of huggingface.co that converters use: the list of files of a revision, "resolve" by commit, redirects of
// large files to another host, ranges, errors in headers.
import { createServer } from 'node:http';

export const SHA = '0123456789abcdef0123456789abcdef01234567';

/**
 * @typedef {object} HubFaults
 * @property {string} [token]     requests without it get 401
 * @property {boolean} [gated]    files get 403
 * @property {string} [renamed]   former name of the repository, which is redirected
 * @property {number} [cut]       number of responses of the other host that break
 * @property {number} [expire]    number of responses of the other host after which its signature expires, once
 * @property {number} [busy]      number of first responses with 503
 */

/** Starts a server. @param {import('node:http').RequestListener} listener @returns {Promise<{ origin: string, close: () => Promise<void> }>} */
async function listen(listener) {
  const server = createServer(listener);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve(undefined));
      }),
  };
}

/** Starts the hub and the other host. @param {string} repo @param {Record<string, Buffer>} files  weights are on the other host @param {HubFaults} [faults] */
export async function hubServer(repo, files, faults = {}) {
  /** All requests, in order. @type {{ host: 'hub' | 'cdn', url: string, token: string | undefined, range: string | undefined }[]} */
  const requests = [];
  let { cut = 0, expire = Infinity, busy = 0 } = faults;
  let signature = 0;
  /** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response @param {Buffer} bytes @param {Record<string, string>} headers */
  const send = (request, response, bytes, headers) => {
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    if (from === undefined)
      return void response.writeHead(200, { ...headers, 'content-length': String(bytes.length) }).end(bytes);
    const end = Math.min(to === '' ? bytes.length : Number(to) + 1, bytes.length);
    response.writeHead(206, {
      ...headers,
      'content-range': `bytes ${from}-${end - 1}/${bytes.length}`,
      'content-length': String(end - Number(from)),
    });
    const part = bytes.subarray(Number(from), end);
    if (headers.large && part.length > 100 && cut-- > 0)
      return void response.write(part.subarray(0, 50), () => response.destroy());
    response.end(part);
  };
  const cdn = await listen((request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    requests.push({
      host: 'cdn',
      url: request.url ?? '',
      token: request.headers.authorization,
      range: request.headers.range,
    });
    if (Number(url.searchParams.get('signature')) !== signature) return void response.writeHead(403).end('expired');
    if (--expire === 0) signature++;
    const bytes = files[decodeURIComponent(url.pathname.slice(1))];
    send(request, response, bytes, { etag: '"abc"', large: '1' });
  });
  const hub = await listen((request, response) => {
    const path = decodeURIComponent((request.url ?? '').split('?')[0]);
    requests.push({ host: 'hub', url: path, token: request.headers.authorization, range: request.headers.range });
    if (busy-- > 0) return void response.writeHead(503).end();
    const fail = (/** @type {number} */ status, /** @type {string} */ code) =>
      void response.writeHead(status, { 'x-error-code': code, 'x-error-message': code }).end();
    if (faults.token && request.headers.authorization !== `Bearer ${faults.token}`) return fail(401, 'RepoNotFound');
    if (faults.renamed && path.includes(`/${faults.renamed}/`))
      return void response.writeHead(307, { location: path.replace(`/${faults.renamed}/`, `/${repo}/`) }).end();
    const [, revision] = new RegExp(`^/api/models/${repo}/revision/(.+)$`).exec(path) ?? [];
    if (revision) {
      if (!['main', 'v1', SHA].includes(revision)) return fail(404, 'RevisionNotFound');
      return void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ id: repo, sha: SHA, siblings: Object.keys(files).map((rfilename) => ({ rfilename })) }));
    }
    const [, name] = new RegExp(`^/${repo}/resolve/${SHA}/(.+)$`).exec(path) ?? [];
    if (!name) return fail(404, 'RepoNotFound');
    if (faults.gated) return fail(403, 'GatedRepo');
    if (!Object.hasOwn(files, name)) return fail(404, 'EntryNotFound');
    const headers = { 'x-repo-commit': SHA, etag: '"abc"' };
    if (!/\.(safetensors|bin)$/.test(name)) return send(request, response, files[name], headers);
    response
      .writeHead(302, {
        ...headers,
        location: `${cdn.origin}/${encodeURIComponent(name)}?signature=${signature}`,
        'x-linked-size': String(files[name].length),
        'x-linked-etag': '"abc"',
      })
      .end();
  });
  return {
    endpoint: hub.origin,
    requests,
    close: async () => {
      await hub.close();
      await cdn.close();
    },
  };
}
