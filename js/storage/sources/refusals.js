/**
 * Requests that fail for good before they reach a server: `fetch` rejects as for a server that can't be reached. Loaded when
 * it did.
 */
import { BqError } from '../../shared/errors.js';

/** Origins that were forbidden since the first question. @type {Set<string> | undefined} */
let blocked;

function watch() {
  blocked = new Set();
  globalThis.addEventListener?.('securitypolicyviolation', ({ effectiveDirective, blockedURI }) => {
    if (effectiveDirective === 'connect-src' && URL.canParse(blockedURI)) blocked?.add(new URL(blockedURI).origin);
  });
}

/**
 * Why a request failed for good; null: it may go better another time. READ: no server has such an address. NETWORK: a policy forbids
 * it, which is known if it was forbidden after this was first asked, so that a second failure tells.
 * @param {string} url @param {unknown} cause
 * @returns {Promise<BqError | null>}
 */
export async function refusalOf(url, cause) {
  if (!/^https?:/.test(url))
    return new BqError('READ', `expected a readable address, found "${url}"`, {
      hint: 'addresses of http:, https:, data: and blob: are read, in Node of file:, in apps and extensions of their own schemes',
      cause,
    });
  if (!blocked) watch();
  await new Promise((resolve) => setTimeout(resolve)); // the event may come after the failure
  const { origin } = new URL(url);
  if (!blocked?.has(origin)) return null;
  return new BqError('NETWORK', `${url}: the Content-Security-Policy forbids it`, {
    hint: `name ${origin} in connect-src, in the policy of the page and in that of the worker's script`,
    cause,
  });
}
