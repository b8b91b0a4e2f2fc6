/**
 * Diagnoses why a worker could not be created or its script could not be loaded, because browsers report no reason or
 * no remedy. This module is loaded on such a failure. It imports nothing, so that the page's entry stays one file.
 */

const NOT_COPIED =
  'bundlers that leave URLs unchanged (esbuild, Rollup) do not copy the files that bq4 loads: copy bq4/dist and bq4/build/wasm beside ' +
  'the page and pass { worker } (docs/guides/bundlers.md, "Bundlers")';

const SCOPE_HOISTED =
  'Parcel loses modules of workers when it hoists scopes: build with --no-scope-hoist (docs/guides/bundlers.md, "Bundlers")';

const OUTSIDE_ROOT =
  "Vite's development server serves no files outside its root: add the folder of bq4 to server.fs.allow";

const TRUSTED_TYPES = "allow bq4's folder by a policy of the page (docs/guides/hosting.md, Trusted Types)";

/**
 * Requests a worker's script again and diagnoses the answer. The script's URL is read from the code that created the
 * worker, which a bundler may have changed. A relative URL is resolved against the address of the script with this
 * code, which is in the error's stack.
 * @param {string} code   code of the function that creates the worker
 * @param {Error} error
 * @returns {Promise<{ message: string, hint: string, details?: { url: string, status: number } } | undefined>}
 *   undefined if the reason is unknown
 */
export async function whyNoWorker(code, { message: refusal, stack = '' }) {
  if (refusal.includes('TrustedScriptURL')) return { message: refusal, hint: TRUSTED_TYPES };
  const [missingModule] = /Cannot find module '\w+'/.exec(stack) ?? [];
  if (missingModule) return { message: `its bundled script failed with "${missingModule}"`, hint: SCOPE_HOISTED };
  const [, relativeUrl, pageUrl] =
    /new Worker\((?:[^]{0,9}?new URL\(\s*(?:\/\*.*?\*\/\s*)?["'`]([^"'`]+)|\s*["'`]([^"'`]+))/.exec(code) ?? [];
  const [script] = /https?:\S+?(?=:\d+:\d+)/.exec(stack) ?? [];
  if (!pageUrl && !(relativeUrl && script)) return undefined;
  const url = new URL(relativeUrl ?? pageUrl, relativeUrl ? script : document.baseURI).href;
  const answer = await fetch(url).catch(() => undefined);
  void answer?.body?.cancel();
  const { status = 0 } = answer ?? {};
  const type = answer?.headers.get('content-type') ?? '';
  const details = { url, status };
  if (status >= 400) {
    const hint = status === 403 && url.includes('/@fs/') ? OUTSIDE_ROOT : NOT_COPIED;
    return { message: `${url} responds with HTTP ${status}`, hint, details };
  }
  if (!answer || /^(text|application)\/(x-)?(java|ecma)script/.test(type)) return undefined;
  const isPage = /html/.test(type);
  return {
    message: `${url}: expected a script, found the content type "${type}"`,
    hint: isPage ? `the server responds with a page for a missing file: ${NOT_COPIED}` : 'serve .js as text/javascript',
    details,
  };
}
