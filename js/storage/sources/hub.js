/**
 * Names of models on a hub with the API of huggingface.co: `hf:owner/name`, `hf:owner/name:Q4_K_M` or
 * `hf:owner/name/file.gguf`, optionally with `@revision`. The hub's API lists the files of a repository, the best file is chosen, and its address is loaded.
 * This module is loaded on demand.
 */
import { kind } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { isNode, nodeModule } from '../../shared/node.js';
import { checkBy, checkOptions } from '../../shared/options.js';
import { integrityOf } from '../../wasm/sha256.js';
import { decodePart } from './file-name.js';
import { readRange } from './read.js';
import { RemoteSource } from './retry.js';
import { partsOf } from './split.js';

/** @import { Source } from './types.js' */

export const HUB = 'https://huggingface.co';
/** Size of the largest heap that WebAssembly can have, in bytes. */
const MAX_HEAP = 65535 * 65536;
/** Share of a memory budget that weights may take; the rest is for sessions. */
const WEIGHTS_SHARE = 0.85;
/** Largest size of a list of files, in bytes. */
const MAX_LIST_BYTES = 16 << 20;
/** Bits per weight as in names of files ("Q4_K_M", "IQ4_XS", "F16"), in order of preference. */
const PREFERRED_BITS = [4, 5, 6, 3, 8, 2, 16, 1, 32];

/** Hint for repositories that require an access token. */
const ACCESS_ADVICE = 'pass an access token, fromUrl(name, { token }), or download the file there';

/** @typedef {Extract<Source, { kind: 'hub' }>} HubSource */
/**
 * A file of a repository; `integrity`: its SHA-256, in the notation of the option, if the hub lists it.
 * @typedef {{ path: string, bytes: number, integrity?: string }} HubFile
 */

/** Returns the URL of a hub, with a path that ends in "/". Throws ARGUMENT. @param {string | URL | undefined} hubUrl */
export function hubAddress(hubUrl = HUB) {
  const url = URL.canParse(String(hubUrl)) ? new URL(String(hubUrl)) : null;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new BqError('ARGUMENT', `expected the hub's http address, found "${hubUrl}"`);
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

/** Returns the address of a path on a hub. @param {URL} hub @param {string} path */
export const pathOnHub = (hub, path) => new URL(path.split('/').map(encodeURIComponent).join('/'), hub).href;

/**
 * Returns the hints for statuses of the hub's responses.
 * @param {string} repo
 * @returns {Record<number, string>}
 */
const statusHints = (repo) => ({
  401: `${repo} is private, gated or does not exist: check its name, accept its conditions on the hub's page; ${ACCESS_ADVICE}`,
  403: `${repo} is private or gated: accept its conditions on the hub's page; ${ACCESS_ADVICE}`,
  404: `check the names of the repository, of the file and of the revision`,
});

/**
 * Returns the files that can be loaded. The parts of a model in several files are one file.
 * @param {HubFile[]} files
 */
function loadableFiles(files) {
  const bytesOf = new Map(files.map(({ path, bytes }) => [path, bytes]));
  return files
    .filter(({ path }) => /\.(gguf|bq4)$/.test(path) && !/mmproj|imatrix/i.test(path))
    .filter(({ path }) => !/-\d{5}-of-\d{5}\.gguf$/.test(path) || partsOf(path).length > 0)
    .map(({ path, bytes, integrity }) => ({
      path,
      integrity,
      bytes: partsOf(path).reduce((sum, part) => sum + (bytesOf.get(part) ?? 0), 0) || bytes,
    }));
}

/** Returns the bits per weight that a file's name contains; 0 if it contains none. @param {string} path */
function bitsOf(path) {
  const [, quantized, float] = /[-._](?:I?Q|T?Q|MXFP|NVFP|bq)(\d)|[-._](?:B?F)(16|32)/i.exec(path) ?? [];
  return Number(quantized ?? float ?? 0);
}

/** Whether the name of a file contains a type of weights, such as Q4_K_M. @param {string} path @param {string} type */
const hasType = (path, type) => new RegExp(`[-._/]${type}(?=[-.])`, 'i').test(`/${path}`);

/**
 * Returns the best file of at most `maxBytes`: Q4_K_M first, then 4 or 5 bits per weight, then the other types in order
 * of preference; of several such files the largest. Returns the smallest file if none is small enough. `reason`: why
 * this file was chosen.
 * @param {HubFile[]} files @param {number} maxBytes
 * @returns {(HubFile & { reason: string }) | undefined}
 */
export function bestFile(files, maxBytes) {
  const rank = (/** @type {HubFile} */ { path }) => {
    if (/Q4_K_M/i.test(path)) return -1;
    // 4 and 5 bits are one class.
    const at = PREFERRED_BITS.indexOf(bitsOf(path));
    return at < 0 ? PREFERRED_BITS.length : Math.max(at, 1);
  };
  const candidates = loadableFiles(files);
  const fitting = candidates
    .filter(({ bytes }) => bytes <= maxBytes)
    .sort((a, b) => rank(a) - rank(b) || b.bytes - a.bytes);
  const [best] = fitting.length ? fitting : candidates.sort((a, b) => a.bytes - b.bytes);
  const room = `the ${Math.floor(maxBytes / 1e6)} MB for weights`;
  const bits = best && bitsOf(best.path);
  const reason = fitting.length
    ? `of ${candidates.length} files, ${fitting.length} fit into ${room}; ${bits ? `${bits} bits per weight are the best of them` : 'the largest one'}`
    : `none of ${candidates.length} files fits into ${room}; the smallest one`;
  return best && { ...best, reason };
}

/** Returns the memory budget in bytes if none is given: half of the memory, at most the largest heap. */
async function defaultBudget() {
  const { navigator } = /** @type {any} */ (globalThis);
  const bytes = isNode ? (await nodeModule('os')).totalmem() : (navigator?.deviceMemory ?? 8) * 2 ** 30;
  return Math.min(bytes / 2, MAX_HEAP);
}

/**
 * Returns the SHA-256 of a GGUF file in the notation of `integrity`. Other files have hashes of their own.
 * @param {string} path @param {unknown} oid  as the hub lists it, hexadecimal
 */
function integrityOfListed(path, oid) {
  if (!/\.gguf$/.test(path) || partsOf(path).length || !/^[0-9a-f]{64}$/.test(String(oid))) return undefined;
  return integrityOf(Uint8Array.from(String(oid).match(/../g) ?? [], (byte) => parseInt(byte, 16)));
}

/**
 * Returns the SHA-256 of a named file; undefined if its hub doesn't list it, or if the file is completely cached.
 * @param {URL} hub @param {HubSource} source @param {string} path @param {string} url
 * @param {AbortSignal | undefined} signal @param {any} cache
 */
async function listedIntegrity(hub, source, path, url, signal, cache) {
  if (!/\.gguf$/.test(path) || (await cache?.find?.(url)?.catch(() => null))?.complete) return undefined;
  const folder = path.includes('/') ? `/${path.slice(0, path.lastIndexOf('/'))}` : '';
  const files = await listFiles(hub, source, signal, folder).catch(() => {
    signal?.throwIfAborted();
    return []; // such as a mirror that has only files
  });
  return files.find((file) => file.path === path)?.integrity;
}

/** Returns the headers of requests to the hub. @param {string | undefined} token */
const headersOf = (token) => (token ? { Authorization: `Bearer ${token}` } : undefined);

/**
 * Requests the list of a repository's files. Throws NETWORK, HTTP_STATUS, FORMAT.
 * @param {URL} hub @param {HubSource} source @param {AbortSignal} [signal]
 * @param {string} [folder]  only the files in this folder, '' or with '/' at its beginning. Default: all files
 * @returns {Promise<HubFile[]>}
 */
async function listFiles(hub, { repo, revision, retries = 1, retryDelay, timeout, token }, signal, folder) {
  const path = `api/models/${repo}/tree/${revision}${folder ?? ''}`;
  const list = new RemoteSource({
    kind: 'url',
    url: pathOnHub(hub, path) + (folder === undefined ? '?recursive=true' : ''),
    retries,
    retryDelay,
    timeout,
    single: true,
    hints: statusHints(repo),
    headers: headersOf(token),
  });
  try {
    const text = new TextDecoder().decode(await readRange(list, 0, MAX_LIST_BYTES, signal));
    return JSON.parse(text).flatMap((/** @type {any} */ { type, path, size, lfs }) =>
      type === 'file' ? { path: String(path), bytes: Number(size), integrity: integrityOfListed(path, lfs?.oid) } : [],
    );
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof BqError) throw cause;
    throw new BqError('FORMAT', `expected a list of files from ${hub.host}, found something else`, {
      cause,
      hint: 'check the address of the hub',
    });
  } finally {
    await list.close();
  }
}

/**
 * Returns the files of a repository that are completely cached.
 * @param {any} cache @param {string} prefix  common beginning of their addresses @returns {Promise<HubFile[]>}
 */
async function cachedFiles(cache, prefix) {
  const stored = /** @type {import('../cache/types.js').Listed[]} */ ((await cache?.list?.()) ?? []);
  return stored
    .filter(({ url, complete }) => complete && url.startsWith(prefix))
    .map(({ url, fileBytes }) => ({ path: decodePart(url.slice(prefix.length)), bytes: fileBytes }));
}

/** @param {RegExp} pattern */
const textLike = (pattern) => (/** @type {unknown} */ value) => typeof value === 'string' && pattern.test(value);

/** Checks of the fields that `fromUrl` parses from a name. */
const NAME_FIELDS = {
  file: kind('the path of a file in the repository', textLike(/^[^@?#]+$/)),
  type: kind('a type of weights, such as Q4_K_M', textLike(/^[\w-]+$/)),
  revision: kind('a branch, a tag or a commit', textLike(/^[\w./-]+$/)),
};

/**
 * Checks all fields of a hub source except `repo`, since callers can create sources without `fromUrl`. Throws ARGUMENT.
 * @param {any} source @returns {HubSource}
 */
function checkHubSource({ file, type, revision = 'main', hubUrl, token, retries, retryDelay, timeout, ...source }) {
  return {
    ...source,
    ...checkBy(NAME_FIELDS, 'hub', { file, type, revision }),
    ...checkOptions('fromUrl', { hubUrl, token, retries, retryDelay, timeout }),
  };
}

/**
 * Returns the error of a repository without a file that can be loaded, or without one of the requested type.
 * @param {string} repo @param {HubFile[]} files @param {string} [type]
 */
function noFile(repo, files, type) {
  const loadable = loadableFiles(files);
  if (type && loadable.length)
    return new BqError('NOT_A_MODEL', `expected a file of the type ${type} in ${repo}, found none`, {
      hint: `its files are: ${loadable.map(({ path }) => path).join(', ')}`,
    });
  return new BqError('NOT_A_MODEL', `expected a GGUF file in ${repo}, found none of its ${files.length} files`, {
    hint: `use a repository with GGUF files, or convert this one: npx bq4 convert hf:${repo} model.bq4`,
  });
}

/**
 * Returns the source of the file that a name on the hub refers to. Without a network the file is chosen among the
 * cached ones. Throws NETWORK, HTTP_STATUS, FORMAT; NOT_A_MODEL if the repository has no file that can be loaded.
 * @param {HubSource} source
 * @param {{ memoryBudget?: number, signal?: AbortSignal, cache?: unknown }} options
 * @returns {Promise<Source>}
 */
export async function resolveHub(source, { memoryBudget, signal, cache }) {
  const { kind: _, repo, file, type, revision, hubUrl, token, ...sourceOptions } = checkHubSource(source);
  const hub = hubAddress(hubUrl);
  const prefix = pathOnHub(hub, `${repo}/resolve/${revision}/`);
  let path = file;
  let integrity;
  let facts;
  if (!path) {
    const files = await listFiles(hub, { ...source, revision }, signal).catch(async (error) => {
      const stored = error?.code === 'NETWORK' ? await cachedFiles(cache, prefix) : [];
      if (!stored.length) throw error;
      return stored;
    });
    const ofType = files.filter((entry) => !type || hasType(entry.path, type));
    const best = bestFile(ofType, WEIGHTS_SHARE * (memoryBudget ?? (await defaultBudget())));
    if (!best) throw noFile(repo, files, type);
    ({ path, integrity } = best);
    facts = { file: path, fileReason: type ? `requested by the type ${type}; ${best.reason}` : best.reason };
  }
  const url = pathOnHub(hub, `${repo}/resolve/${revision}/${path}`);
  if (file) integrity = await listedIntegrity(hub, { ...source, revision }, file, url, signal, cache);
  return {
    kind: 'url',
    url,
    ...sourceOptions,
    integrity,
    hints: statusHints(repo),
    headers: headersOf(token),
    facts,
  };
}
