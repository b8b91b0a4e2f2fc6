/**
 * Models on a hub that answers as huggingface.co does: `hf:owner/name`, `hf:owner/name/file.gguf`, both with `@revision`. The files of a
 * repository are listed by the hub's API, the best one is chosen, and what is loaded is the address of that file. Loaded on demand.
 */
import { kind } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { isNode, nodeModule } from '../../shared/node.js';
import { checkBy, checkOptions } from '../../shared/options.js';
import { decoded } from './file-name.js';
import { readRange } from './read.js';
import { RemoteSource } from './retry.js';
import { partsOf } from './split.js';

/** @import { Source } from './types.js' */

export const HUB = 'https://huggingface.co';
/** The largest heap that WebAssembly can have, in bytes. */
const MAX_HEAP = 65535 * 65536;
/** The share of a memory budget that weights may take; the rest is for sessions. */
const WEIGHTS_SHARE = 0.85;
/** Bytes of a list of files at most. */
const MAX_LIST = 16 << 20;
/** Bits per weight, as names of files say them ("Q4_K_M", "IQ4_XS", "F16"), in the order of preference. */
const PREFERRED_BITS = [4, 5, 6, 3, 8, 2, 16, 1, 32];

/** @typedef {Extract<Source, { kind: 'hub' }>} HubSource */
/** A file of a repository, all of its parts together. @typedef {{ path: string, bytes: number }} HubFile */

/** ARGUMENT. @param {string | URL | undefined} hubUrl @returns {URL} with a path that ends in "/" */
export function hubAddress(hubUrl = HUB) {
  const url = URL.canParse(String(hubUrl)) ? new URL(String(hubUrl)) : null;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new BqError('ARGUMENT', `expected the hub's http address, found "${hubUrl}"`);
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

/** An address below the hub's. @param {URL} hub @param {string} path */
export const pathOnHub = (hub, path) => new URL(path.split('/').map(encodeURIComponent).join('/'), hub).href;

/**
 * What to do about a status that the hub answers; of other statuses there is nothing.
 * @param {string} repo @param {string} advice  to say who asks, or what to do without that
 * @returns {Record<number, string>}
 */
export const statusHints = (repo, advice) => ({
  401: `${repo} is private or gated, or there is no such repository: check its name, accept its conditions on the hub's page; ${advice}`,
  403: `${repo} is private or gated: accept its conditions on the hub's page; ${advice}`,
  404: `check the names of the repository, of the file and of the revision`,
});

/** Files that can be loaded, parts of one file as one. @param {HubFile[]} files */
function loadable(files) {
  const bytesOf = new Map(files.map(({ path, bytes }) => [path, bytes]));
  return files
    .filter(({ path }) => /\.(gguf|bq4)$/.test(path) && !/mmproj|imatrix/i.test(path))
    .filter(({ path }) => !/-\d{5}-of-\d{5}\.gguf$/.test(path) || partsOf(path).length > 0)
    .map(({ path, bytes }) => ({
      path,
      bytes: partsOf(path).reduce((sum, part) => sum + (bytesOf.get(part) ?? 0), 0) || bytes,
    }));
}

/** @param {string} path */
function bitsOf(path) {
  const [, quantized, float] = /[-._](?:I?Q|T?Q|MXFP|NVFP|bq)(\d)|[-._](?:B?F)(16|32)/i.exec(path) ?? [];
  return Number(quantized ?? float ?? 0);
}

/**
 * The best file: the largest of 4 to 5 bits per weight that fits, Q4_K_M before others; of other types if no file has such a type; the smallest
 * where none fits.
 * @param {HubFile[]} files @param {number} maxBytes
 * @returns {HubFile | undefined}
 */
export function bestFile(files, maxBytes) {
  const rank = (/** @type {HubFile} */ { path }) => {
    if (/Q4_K_M/i.test(path)) return -1;
    // 4 and 5 bits are one class.
    const at = PREFERRED_BITS.indexOf(bitsOf(path));
    return at < 0 ? PREFERRED_BITS.length : Math.max(at, 1);
  };
  const candidates = loadable(files);
  const fitting = candidates
    .filter(({ bytes }) => bytes <= maxBytes)
    .sort((a, b) => rank(a) - rank(b) || b.bytes - a.bytes);
  return fitting[0] ?? candidates.sort((a, b) => a.bytes - b.bytes)[0];
}

/** Bytes of memory that a model may take where no budget is given. */
async function defaultBudget() {
  const { navigator } = /** @type {any} */ (globalThis);
  const bytes = isNode ? (await nodeModule('os')).totalmem() : (navigator?.deviceMemory ?? 8) * 2 ** 30;
  return Math.min(bytes / 2, MAX_HEAP);
}

/** The repository's files. NETWORK, HTTP_STATUS, FORMAT. @param {URL} hub @param {HubSource} source @param {AbortSignal} [signal] @returns {Promise<HubFile[]>} */
async function listFiles(hub, { repo, revision, retries = 1, retryDelay, timeout }, signal) {
  const path = `api/models/${repo}/tree/${revision}`;
  const list = new RemoteSource({
    kind: 'url',
    url: `${pathOnHub(hub, path)}?recursive=true`,
    retries,
    retryDelay,
    timeout,
    single: true,
    hints: statusHints(repo, 'download it there and load it as a file'),
  });
  try {
    const text = new TextDecoder().decode(await readRange(list, 0, MAX_LIST, signal));
    return JSON.parse(text).flatMap((/** @type {any} */ { type, path, size }) =>
      type === 'file' ? { path: String(path), bytes: Number(size) } : [],
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

/** Files of the repository that the cache has completely. @param {any} cache @param {string} prefix  of their addresses @returns {Promise<HubFile[]>} */
async function cachedFiles(cache, prefix) {
  const stored = /** @type {import('../cache/types.js').Listed[]} */ ((await cache?.list?.()) ?? []);
  return stored
    .filter(({ url, complete }) => complete && url.startsWith(prefix))
    .map(({ url, fileBytes }) => ({ path: decoded(url.slice(prefix.length)), bytes: fileBytes }));
}

/** @param {RegExp} pattern */
const textLike = (pattern) => (/** @type {unknown} */ value) => typeof value === 'string' && pattern.test(value);

/** What `fromUrl` reads from a name. */
const NAMED = {
  file: kind('the path of a file in the repository', textLike(/^[^@?#]+$/)),
  revision: kind('a branch, a tag or a commit', textLike(/^[\w./-]+$/)),
};

/** A source of a hub as `fromUrl` makes it: what it has beside the repository, if it was made by hand, is checked here. ARGUMENT. @param {any} source @returns {HubSource} */
function checkedHub({ file, revision = 'main', hubUrl, retries, retryDelay, timeout, ...source }) {
  return {
    ...source,
    ...checkBy(NAMED, 'hub', { file, revision }),
    ...checkOptions('fromUrl', { hubUrl, retries, retryDelay, timeout }),
  };
}

/**
 * The address of the file that a name on the hub stands for. Without a network: that of one that the cache has.
 * NETWORK, HTTP_STATUS, FORMAT, NOT_A_MODEL: the repository has no file that can be loaded.
 * @param {HubSource} source
 * @param {{ memoryBudget?: number, signal?: AbortSignal, cache?: unknown }} options
 * @returns {Promise<Source>}
 */
export async function resolveHub(source, { memoryBudget, signal, cache }) {
  const { kind: _, repo, file, revision, hubUrl, ...sourceOptions } = checkedHub(source);
  const hub = hubAddress(hubUrl);
  const prefix = pathOnHub(hub, `${repo}/resolve/${revision}/`);
  let path = file;
  if (!path) {
    const files = await listFiles(hub, { ...source, revision }, signal).catch(async (error) => {
      const stored = error.code === 'NETWORK' ? await cachedFiles(cache, prefix) : [];
      if (!stored.length) throw error;
      return stored;
    });
    path = bestFile(files, WEIGHTS_SHARE * (memoryBudget ?? (await defaultBudget())))?.path;
    if (!path)
      throw new BqError('NOT_A_MODEL', `expected a GGUF file in ${repo}, found none of its ${files.length} files`, {
        hint: `name a repository with GGUF files, or convert this one: npx bq4 convert hf:${repo} model.bq4`,
      });
  }
  const hints = statusHints(repo, 'download it there and load it as a file');
  return { kind: 'url', url: pathOnHub(hub, `${repo}/resolve/${revision}/${path}`), ...sourceOptions, hints };
}
