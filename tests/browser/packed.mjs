// The installed package: the result of `npm pack` in the node_modules of a folder, and servers for pages that use it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { makeDist } from '../../tools/payload.mjs';
import { ROOT } from './site.mjs';

/** Builds dist/ and packs the package. @param {string} folder  of the tarball @returns {string} path of the tarball */
export function pack(folder) {
  assert.equal(makeDist(), '');
  const [{ filename }] = JSON.parse(
    execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  );
  return join(folder, filename);
}

/** Installs the package in a folder as npm would, but without a registry, since it has no dependencies. @param {string} folder */
export function installPacked(folder) {
  const tarball = pack(folder);
  const target = join(folder, 'node_modules/bq4');
  mkdirSync(target, { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '-C', target, '--strip-components=1']);
  rmSync(tarball);
}

/** @type {Record<string, string>} */
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.wasm': 'application/wasm',
};

/**
 * Serves all files of a folder, without ranges.
 * @param {string} folder
 * @param {{ headers?: Record<string, string>, fallback?: string }} [options]  `fallback`: the file that is served for unknown paths
 * @returns {Promise<{ url: string, asked: string[], close: () => Promise<void> }>}  `asked`: paths of the files that were served
 */
export async function folderHost(folder, { headers = {}, fallback } = {}) {
  /** @type {string[]} */
  const asked = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(String(request.url), 'http://localhost'); // URL resolves `..`.
    const path = decodeURIComponent(pathname.endsWith('/') ? `${pathname}index.html` : pathname);
    for (const name of [path, fallback ?? path])
      try {
        const body = readFileSync(join(folder, name));
        asked.push(name);
        const type = TYPES[extname(name)] ?? 'application/octet-stream';
        return void response.writeHead(200, { 'content-type': type, ...headers }).end(body);
      } catch {}
    response.writeHead(404, headers).end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://localhost:${port}/`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
