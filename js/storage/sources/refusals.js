/**
 * Detects requests that fail permanently before they reach a server: `fetch` rejects them in the same way as requests
 * to a server that can't be reached. Loaded after such a failure.
 */
import { BqError } from '../../shared/errors.js';

/**
 * Origins that a policy has blocked since the first call of `refusalOf`; undefined before.
 * @type {Set<string> | undefined}
 */
let blockedOrigins;

function watch() {
  blockedOrigins = new Set();
  globalThis.addEventListener?.('securitypolicyviolation', ({ effectiveDirective, blockedURI }) => {
    if (effectiveDirective === 'connect-src' && URL.canParse(blockedURI))
      blockedOrigins?.add(new URL(blockedURI).origin);
  });
}

/**
 * Returns the error of a request that failed permanently; null if another attempt may succeed. READ: the address can't
 * be fetched. NETWORK: a Content-Security-Policy blocks the request. That is known for requests after the first call,
 * so it is detected at the second failure.
 * @param {string} url @param {unknown} cause
 * @returns {Promise<BqError | null>}
 */
export async function refusalOf(url, cause) {
  if (!/^https?:/.test(url))
    return new BqError('READ', `expected a readable address, found "${url}"`, {
      hint: url.startsWith('blob:')
        ? 'it was revoked or is of another origin: load the Blob itself'
        : 'supported: http:, https:, data: and blob:, in Node file:, in apps and extensions their own schemes',
      cause,
    });
  const { username, password, origin } = new URL(url);
  if (username || password)
    // The cause is not attached, because it contains the password.
    return new BqError(
      'READ',
      `expected an address without a user name and password, found one for "${url.replace(/\/\/[^/]*@/, '//')}"`,
      { hint: 'fetch the file with an Authorization header and load the Blob, or use a signed address' },
    );
  if (!blockedOrigins) watch();
  await new Promise((resolve) => setTimeout(resolve)); // the event may be dispatched after the failure
  if (!blockedOrigins?.has(origin)) return null;
  return new BqError('NETWORK', `${url}: the Content-Security-Policy forbids it`, {
    hint: `add ${origin} to connect-src, in the policy of the page and in that of the worker's script`,
    cause,
  });
}
