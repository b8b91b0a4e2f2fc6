/**
 * Opens models on a hub with the API of huggingface.co: `hf:owner/name`. Small files are fetched completely; weights
 * are read with range requests. The revision is resolved to a commit once, and all files are from that commit. Node
 * only.
 */
import { BqError } from '../shared/errors.js';
import { openBytes } from '../storage/sources/bytes.js';
import { HUB, hubAddress, pathOnHub } from '../storage/sources/hub.js';
import { openHfFolder } from './hf-folder.js';

/** @import { ByteSource } from '../storage/sources/types.js' */

/**
 * @typedef {object} HubOptions
 * @property {string} [revision]  branch, tag or commit; default "main"
 * @property {string} [endpoint]  default https://huggingface.co
 * @property {string} [token]     sent only to the endpoint's origin, not to redirect targets
 * @property {AbortSignal} [signal]
 */

/** Names of files that are fetched completely: configurations, tokenizers, templates. */
const SMALL_FILE = /^(?!.*\.\.)([\w.-]+|\d_\w+\/config)\.(json|txt|model|jinja|tiktoken)$/;
const MAX_SMALL_BYTES = 64 << 20;
/** Largest number of files that a message lists. */
const MAX_LISTED_FILES = 12;
const MAX_REDIRECTS = 8;
const MAX_ATTEMPTS = 4;
/** Delay before the second attempt; doubled for each further attempt. */
const RETRY_DELAY_MS = 500;
const TIMEOUT_MS = 60_000;

/** @param {string} input */
export const isHubName = (input) => input.startsWith('hf:');

/** @param {number} ms @param {AbortSignal} [signal] */
const delay = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve(undefined)), { once: true });
  });

/** One repository at one endpoint. */
class Hub {
  /** @param {string} repo @param {HubOptions} options */
  constructor(repo, { endpoint = HUB, token, revision = 'main', signal }) {
    this.repo = repo;
    this.signal = signal;
    this.token = token;
    this.revision = revision;
    this.endpoint = hubAddress(endpoint);
  }

  /**
   * Returns the error for an unsuccessful response.
   * @param {Response} response @param {string} item  the requested item: name of a file, or "the list of files"
   */
  errorFor({ status, headers }, item) {
    const code = headers.get('x-error-code') ?? '';
    const subject = `${item} of ${this.repo}`;
    const tokenHint = this.token ? 'check that the token has access' : 'pass --token, or set HF_TOKEN';
    if (code === 'GatedRepo')
      return new BqError('HTTP_STATUS', `${this.repo} is gated (HTTP ${status})`, {
        hint: `accept its conditions on the hub's page; ${tokenHint}`,
        details: { status },
      });
    if (code === 'RevisionNotFound')
      return new BqError('HTTP_STATUS', `${this.repo} has no revision "${this.revision}"`, {
        hint: 'check --revision',
        details: { status },
      });
    if (code === 'EntryNotFound')
      return new BqError('HTTP_STATUS', `${subject} does not exist (HTTP ${status})`, { details: { status } });
    if (status === 401 || status === 403)
      return new BqError('HTTP_STATUS', `the hub denies access to ${subject} (HTTP ${status})`, {
        hint: `it is private, gated or does not exist; ${tokenHint}`,
        details: { status },
      });
    if (status === 404 || code === 'RepoNotFound')
      return new BqError('HTTP_STATUS', `the hub has no ${subject} (HTTP ${status})`, {
        hint: 'check the name, and the revision',
        details: { status },
      });
    return new BqError('HTTP_STATUS', `the hub responds with HTTP ${status} to the request for ${subject}`, {
      hint: 'try again later',
      details: { status },
    });
  }

  /**
   * Fetches and follows redirects. `fetch` does not follow them itself, since it could send the token to other origins.
   * `url` of the result is the address after the redirects.
   * @param {URL} url @param {Record<string, string>} headers @returns {Promise<{ response: Response, url: URL }>}
   */
  async follow(url, headers) {
    const signals = [AbortSignal.timeout(TIMEOUT_MS), ...(this.signal ? [this.signal] : [])];
    for (let i = 0; i <= MAX_REDIRECTS; i++) {
      const isTrusted = this.token && url.origin === this.endpoint.origin;
      const response = await fetch(url, {
        redirect: 'manual',
        signal: AbortSignal.any(signals),
        headers: { ...headers, ...(isTrusted && { authorization: `Bearer ${this.token}` }) },
      });
      const to = response.status >= 300 && response.status < 400 ? response.headers.get('location') : null;
      if (!to) return { response, url };
      await response.body?.cancel();
      url = new URL(to, url);
      if (!/^https?:$/.test(url.protocol) || (this.endpoint.protocol === 'https:' && url.protocol !== 'https:'))
        throw new BqError(
          'NETWORK',
          `${this.repo} is redirected to ${url.protocol}//${url.host}, which is not followed`,
        );
    }
    throw new BqError('NETWORK', `${this.repo} is redirected more than ${MAX_REDIRECTS} times`);
  }

  /**
   * Calls a function again after network errors and temporary HTTP errors.
   * @template T @param {string} item  the requested item, for errors
   * @param {(attempts: number) => Promise<T>} attempt  called with the number of previous attempts
   * @returns {Promise<T>}
   */
  async retry(item, attempt) {
    for (let attempts = 0; ; attempts++) {
      this.signal?.throwIfAborted();
      try {
        return await attempt(attempts);
      } catch (cause) {
        this.signal?.throwIfAborted();
        const status = cause instanceof BqError ? Number(cause.details?.status ?? 0) : 0;
        const isPermanent =
          cause instanceof BqError && cause.code !== 'TRUNCATED' && !(status === 429 || status >= 500);
        if (isPermanent) throw cause;
        if (attempts + 1 >= MAX_ATTEMPTS)
          throw cause instanceof BqError
            ? cause
            : new BqError(
                'NETWORK',
                `${item} of ${this.repo} can't be fetched: ${/** @type {Error} */ (cause).message}`,
                { cause, hint: 'check the connection and run the command again' },
              );
        await delay(RETRY_DELAY_MS * 2 ** attempts, this.signal);
      }
    }
  }

  /** @param {string} path */
  address(path) {
    return new URL(pathOnHub(this.endpoint, path));
  }

  /** Fetches the commit and the file names of the revision. @returns {Promise<{ sha: string, names: string[] }>} */
  async list() {
    return this.retry('the list of files', async () => {
      const { response } = await this.follow(this.address(`api/models/${this.repo}/revision/${this.revision}`), {});
      if (!response.ok) throw this.errorFor(response, 'the list of files');
      const { sha, siblings } = await response.json().catch((cause) => {
        throw new BqError('FORMAT', `the hub's response about ${this.repo} is not valid JSON`, {
          cause,
          hint: 'check --endpoint',
        });
      });
      const names = Array.isArray(siblings)
        ? siblings.map((s) => s?.rfilename).filter((name) => typeof name === 'string')
        : [];
      if (typeof sha !== 'string' || !/^[0-9a-f]{7,64}$/.test(sha))
        throw new BqError('FORMAT', `the hub's response about ${this.repo} has no commit ("sha")`, {
          hint: 'check --endpoint',
        });
      return { sha, names };
    });
  }

  /** @param {string} sha @param {string} name */
  fileAddress(sha, name) {
    return this.address(`${this.repo}/resolve/${sha}/${name}`);
  }

  /** Fetches a small file completely. @param {string} sha @param {string} name */
  async fetchFile(sha, name) {
    return this.retry(name, async () => {
      const { response } = await this.follow(this.fileAddress(sha, name), {});
      if (!response.ok) throw this.errorFor(response, name);
      if (Number(response.headers.get('content-length')) > MAX_SMALL_BYTES)
        throw new BqError('FORMAT', `${name} of ${this.repo} exceeds the limit of ${MAX_SMALL_BYTES} bytes`);
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (bytes.length > MAX_SMALL_BYTES)
        throw new BqError('FORMAT', `${name} of ${this.repo} exceeds the limit of ${MAX_SMALL_BYTES} bytes`);
      return bytes;
    });
  }

  /**
   * Opens a file that is read with range requests.
   * @param {string} sha @param {string} name @returns {Promise<ByteSource>}
   */
  async open(sha, name) {
    const address = this.fileAddress(sha, name);
    /** Target of the redirects. Further requests are sent to it directly until one fails. @type {URL | null} */
    let target = null;
    const range = (/** @type {number} */ from, /** @type {number} */ to) =>
      this.retry(name, async () => {
        const { response, url } = await this.follow(target ?? address, { range: `bytes=${from}-${to - 1}` });
        const previous = target;
        target = url;
        if (response.status !== 206) {
          await response.body?.cancel();
          target = null;
          // The signature of a redirect target expires after some minutes. After TRUNCATED, retry() calls this function
          // again, which then sends its request to the hub.
          if (previous) throw new BqError('TRUNCATED', `the download address of ${name} has expired`);
          if (response.ok)
            throw new BqError('NETWORK', `the hub ignores the range request for ${name} of ${this.repo}`, {
              hint: 'download the folder and convert it from the disk',
            });
          throw this.errorFor(response, name);
        }
        const [, start, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '') ?? [];
        if (Number(start) !== from)
          throw new BqError('NETWORK', `the hub sends another range of ${name} than requested`);
        const bytes = new Uint8Array(await response.arrayBuffer());
        if (bytes.length !== Math.min(to, Number(size)) - from)
          throw new BqError('TRUNCATED', `the response for ${name} is incomplete`);
        return { bytes, size: Number(size) };
      });
    const { size } = await range(0, 1);
    return {
      name: `hf:${this.repo}/${name}`,
      size,
      remote: true,
      type: '',
      async *stream(offset, end) {
        if (Math.min(end, size) > offset) yield (await range(offset, Math.min(end, size))).bytes;
      },
      close: async () => {},
    };
  }
}

/**
 * Opens a model on a hub. Throws NETWORK, HTTP_STATUS, ARGUMENT, and the errors of openHf.
 * @param {string} input  hf:owner/name
 * @param {HubOptions} options
 * @returns {Promise<import('./checkpoint.js').Checkpoint>}
 */
export async function openHub(input, options) {
  const repo = input.slice('hf:'.length);
  if (!/^[\w.-]+(\/[\w.-]+)?$/.test(repo) || repo.split('/').some((part) => /^\.+$/.test(part)))
    throw new BqError('ARGUMENT', `invalid model name "${input}": expected hf:owner/name`);
  const hub = new Hub(repo, options);
  const { sha, names } = await hub.list();
  const ggufs = names.filter((name) => name.endsWith('.gguf'));
  if (ggufs.length && !names.some((name) => /\.(safetensors|bin|pth?)$/.test(name)))
    throw new BqError('NOT_A_MODEL', `${input} contains GGUF files, which need no conversion`, {
      hint: `load one by its address: ${ggufs
        .slice(0, MAX_LISTED_FILES)
        .map((name) => hub.fileAddress(sha, name).href)
        .join(' ')}${ggufs.length > MAX_LISTED_FILES ? ` or another of ${ggufs.length}` : ''}`,
    });
  /** Small files, each of which is fetched only once. @type {Map<string, Promise<Uint8Array>>} */
  const smallFiles = new Map();
  const fetchOnce = (/** @type {string} */ name) => {
    if (!smallFiles.has(name)) smallFiles.set(name, hub.fetchFile(sha, name));
    return /** @type {Promise<Uint8Array>} */ (smallFiles.get(name));
  };
  return openHfFolder(
    {
      path: input,
      names,
      has: (name) => names.includes(name),
      open: async (name) => (SMALL_FILE.test(name) ? openBytes(await fetchOnce(name)) : hub.open(sha, name)),
      stamp: () => `${repo} ${sha}`,
    },
    null,
    repo.split('/').at(-1) ?? repo,
  );
}
