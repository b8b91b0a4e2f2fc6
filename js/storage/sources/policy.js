/** Requests that a Content-Security-Policy forbids: to whoever fetches they look like a server that can't be reached. Loaded when one did. */

/** Origins that were forbidden since the first question. @type {Set<string> | undefined} */
let blocked;

function watch() {
  blocked = new Set();
  globalThis.addEventListener?.('securitypolicyviolation', ({ effectiveDirective, blockedURI }) => {
    if (effectiveDirective === 'connect-src' && URL.canParse(blockedURI)) blocked?.add(new URL(blockedURI).origin);
  });
}

/**
 * Whether a request to an address was forbidden after this was first asked: so a second failure tells.
 * @param {string} url
 * @returns {Promise<string>} what to do about it, or ''
 */
export async function forbidden(url) {
  if (!blocked) watch();
  await new Promise((resolve) => setTimeout(resolve)); // the event may come after the failure
  const { origin } = new URL(url);
  return blocked?.has(origin)
    ? `name ${origin} in connect-src, in the policy of the page and in that of the worker's script`
    : '';
}
