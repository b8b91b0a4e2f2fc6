/**
 * Models on a hub that answers as huggingface.co does: `hf:owner/name`. What is small is fetched as a whole when it is asked for; weights are
 * read by ranges, of the commit that the revision named when it was asked for. In Node.
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
 * @property {string} [token]     goes to the endpoint's origin alone, never to where it redirects
 * @property {AbortSignal} [signal]
 */

/** What is fetched as a whole: configurations, tokenizers, templates. */
const SMALL = /^(?!.*\.\.)([\w.-]+|\d_\w+\/config)\.(json|txt|model|jinja|tiktoken)$/;
const MAX_SMALL = 64 << 20;
/** Files that a message lists. */
const MOST_NAMED = 12;
const MAX_REDIRECTS = 8;
const TRIES = 4;
const PAUSE_MS = 500;
const TIMEOUT_MS = 60_000;

/** @param {string} input */
export const isHubName = (input) => input.startsWith('hf:');

/** @param {number} ms @param {AbortSignal} [signal] */
const pause = (ms, signal) =>
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

  /** What an answer that is no success says. @param {Response} response @param {string} what */
  failed({ status, headers }, what) {
    const code = headers.get('x-error-code') ?? '';
    const named = `${what} of ${this.repo}`;
    const token = this.token ? 'the token may not read it' : 'pass --token, or set HF_TOKEN';
    if (code === 'GatedRepo')
      return new BqError('HTTP_STATUS', `${this.repo} is gated: the hub answers ${status}`, {
        hint: `accept its conditions on the hub's page; ${token}`,
        details: { status },
      });
    if (code === 'RevisionNotFound')
      return new BqError('HTTP_STATUS', `${this.repo} has no revision "${this.revision}"`, {
        hint: 'check --revision',
        details: { status },
      });
    if (code === 'EntryNotFound')
      return new BqError('HTTP_STATUS', `${named} is not there (${status})`, { details: { status } });
    if (status === 401 || status === 403)
      return new BqError('HTTP_STATUS', `the hub refuses ${named} (${status})`, {
        hint: `it is private, gated or does not exist; ${token}`,
        details: { status },
      });
    if (status === 404 || code === 'RepoNotFound')
      return new BqError('HTTP_STATUS', `the hub has no ${named} (${status})`, {
        hint: 'check the name, and the revision',
        details: { status },
      });
    return new BqError('HTTP_STATUS', `the hub answers ${status} for ${named}`, {
      hint: 'try again later',
      details: { status },
    });
  }

  /** Follows redirects by itself: the token goes to the endpoint alone. @param {URL} url @param {Record<string, string>} headers @returns {Promise<{ response: Response, url: URL }>} */
  async follow(url, headers) {
    const signals = [AbortSignal.timeout(TIMEOUT_MS), ...(this.signal ? [this.signal] : [])];
    for (let i = 0; i <= MAX_REDIRECTS; i++) {
      const own = this.token && url.origin === this.endpoint.origin;
      const response = await fetch(url, {
        redirect: 'manual',
        signal: AbortSignal.any(signals),
        headers: { ...headers, ...(own && { authorization: `Bearer ${this.token}` }) },
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
   * Tries again what may pass. @template T @param {string} what @param {(tried: number) => Promise<T>} attempt @returns {Promise<T>}
   */
  async again(what, attempt) {
    for (let tried = 0; ; tried++) {
      this.signal?.throwIfAborted();
      try {
        return await attempt(tried);
      } catch (cause) {
        this.signal?.throwIfAborted();
        const status = cause instanceof BqError ? Number(cause.details?.status ?? 0) : 0;
        const final = cause instanceof BqError && cause.code !== 'TRUNCATED' && !(status === 429 || status >= 500);
        if (final) throw cause;
        if (tried + 1 >= TRIES)
          throw cause instanceof BqError
            ? cause
            : new BqError(
                'NETWORK',
                `${what} of ${this.repo} can't be fetched: ${/** @type {Error} */ (cause).message}`,
                { cause, hint: 'check the connection; the conversion can be run again' },
              );
        await pause(PAUSE_MS * 2 ** tried, this.signal);
      }
    }
  }

  /** @param {string} path */
  address(path) {
    return new URL(pathOnHub(this.endpoint, path));
  }

  /** Commit and file names of the revision. @returns {Promise<{ sha: string, names: string[] }>} */
  async list() {
    return this.again('the list of files', async () => {
      const { response } = await this.follow(this.address(`api/models/${this.repo}/revision/${this.revision}`), {});
      if (!response.ok) throw this.failed(response, 'the list of files');
      const { sha, siblings } = await response.json().catch((cause) => {
        throw new BqError('FORMAT', `the hub's answer about ${this.repo} is no JSON`, {
          cause,
          hint: 'check --endpoint',
        });
      });
      const names = Array.isArray(siblings)
        ? siblings.map((s) => s?.rfilename).filter((name) => typeof name === 'string')
        : [];
      if (typeof sha !== 'string' || !/^[0-9a-f]{7,64}$/.test(sha))
        throw new BqError('FORMAT', `the hub does not tell the commit of ${this.repo}`, { hint: 'check --endpoint' });
      return { sha, names };
    });
  }

  /** @param {string} sha @param {string} name */
  fileAddress(sha, name) {
    return this.address(`${this.repo}/resolve/${sha}/${name}`);
  }

  /** A small file's bytes. @param {string} sha @param {string} name */
  async whole(sha, name) {
    return this.again(name, async () => {
      const { response } = await this.follow(this.fileAddress(sha, name), {});
      if (!response.ok) throw this.failed(response, name);
      if (Number(response.headers.get('content-length')) > MAX_SMALL)
        throw new BqError('FORMAT', `${name} of ${this.repo} has more than ${MAX_SMALL} bytes`);
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (bytes.length > MAX_SMALL)
        throw new BqError('FORMAT', `${name} of ${this.repo} has more than ${MAX_SMALL} bytes`);
      return bytes;
    });
  }

  /** A file of weights, by ranges. @param {string} sha @param {string} name @returns {Promise<ByteSource>} */
  async open(sha, name) {
    const address = this.fileAddress(sha, name);
    /** Where it was redirected to: asked there until it refuses. @type {URL | null} */
    let direct = null;
    const range = (/** @type {number} */ from, /** @type {number} */ to) =>
      this.again(name, async () => {
        const { response, url } = await this.follow(direct ?? address, { range: `bytes=${from}-${to - 1}` });
        const known = direct;
        direct = url;
        if (response.status !== 206) {
          await response.body?.cancel();
          direct = null;
          if (known) throw new BqError('TRUNCATED', `${name} is to be asked for anew`); // an address that was signed for some minutes
          if (response.ok)
            throw new BqError('NETWORK', `the hub sends ${name} of ${this.repo} as a whole, not by ranges`, {
              hint: 'fetch the folder and convert it from the disk',
            });
          throw this.failed(response, name);
        }
        const [, start, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '') ?? [];
        if (Number(start) !== from)
          throw new BqError('NETWORK', `the hub sends another range of ${name} than was asked for`);
        const bytes = new Uint8Array(await response.arrayBuffer());
        if (bytes.length !== Math.min(to, Number(size)) - from) throw new BqError('TRUNCATED', `${name} came short`);
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
 * NETWORK, HTTP_STATUS, ARGUMENT, and what openHf throws.
 * @param {string} input  hf:owner/name
 * @param {HubOptions} options
 * @returns {Promise<import('./checkpoint.js').Checkpoint>}
 */
export async function openHub(input, options) {
  const repo = input.slice('hf:'.length);
  if (!/^[\w.-]+(\/[\w.-]+)?$/.test(repo) || repo.split('/').some((part) => /^\.+$/.test(part)))
    throw new BqError('ARGUMENT', `"${input}" is no hf:owner/name`);
  const hub = new Hub(repo, options);
  const { sha, names } = await hub.list();
  const ready = names.filter((name) => name.endsWith('.gguf'));
  if (ready.length && !names.some((name) => /\.(safetensors|bin|pth?)$/.test(name)))
    throw new BqError('NOT_A_MODEL', `${input} has GGUF files: they run as they are, by their addresses`, {
      hint: `take one: ${ready
        .slice(0, MOST_NAMED)
        .map((name) => hub.fileAddress(sha, name).href)
        .join(' ')}${ready.length > MOST_NAMED ? ` or another of ${ready.length}` : ''}`,
    });
  /** Fetched once. @type {Map<string, Promise<Uint8Array>>} */
  const small = new Map();
  const whole = (/** @type {string} */ name) => {
    if (!small.has(name)) small.set(name, hub.whole(sha, name));
    return /** @type {Promise<Uint8Array>} */ (small.get(name));
  };
  return openHfFolder(
    {
      path: input,
      names,
      has: (name) => names.includes(name),
      open: async (name) => (SMALL.test(name) ? openBytes(await whole(name)) : hub.open(sha, name)),
      stamp: () => `${repo} ${sha}`,
    },
    null,
    repo.split('/').at(-1) ?? repo,
  );
}
