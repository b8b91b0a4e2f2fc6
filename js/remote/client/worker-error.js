/**
 * Why a worker's script could not be loaded: browsers say only that it couldn't. Loaded when that has happened; it imports nothing,
 * so that the page's own thread goes on beginning with one file.
 */

const LEFT =
  'a bundler that leaves addresses as they are (esbuild, Rollup) has not copied what bq4 loads: copy bq4/dist and bq4/build/wasm beside ' +
  'the page and pass { worker } (docs/guides/bundlers.md, "Bundlers")';

const HOISTED =
  'Parcel loses modules of workers where it hoists scopes: build with --no-scope-hoist (docs/guides/bundlers.md, "Bundlers")';

const OUTSIDE =
  "Vite's own server shows nothing from outside its root: name the folder where bq4 lies in server.fs.allow";

/**
 * Asks again for a worker's script, and says what is wrong with it. Its address is nowhere to be seen but in the code that has asked for
 * it, as the bundler left it, and in the trace of an error from the script that this code is in.
 * @param {string} code   of the function that makes the worker
 * @param {string} stack
 * @returns {Promise<{ message: string, hint: string, details?: { url: string, status: number } } | undefined>}
 */
export async function whyNoWorker(code, stack) {
  const [lacking] = /Cannot find module '\w+'/.exec(stack) ?? [];
  if (lacking) return { message: `what a bundler made of its script ends with "${lacking}"`, hint: HOISTED };
  const [, moved, plain] =
    /new Worker\((?:[^]{0,9}?new URL\(\s*(?:\/\*.*?\*\/\s*)?["'`]([^"'`]+)|\s*["'`]([^"'`]+))/.exec(code) ?? [];
  const [script] = /https?:\S+?(?=:\d+:\d+)/.exec(stack) ?? [];
  if (!plain && !(moved && script)) return undefined;
  const url = new URL(moved ?? plain, moved ? script : document.baseURI).href;
  const answer = await fetch(url).catch(() => undefined);
  void answer?.body?.cancel();
  const { status = 0 } = answer ?? {};
  const type = answer?.headers.get('content-type') ?? '';
  const details = { url, status };
  if (status >= 400) {
    const hint = status === 403 && url.includes('/@fs/') ? OUTSIDE : LEFT;
    return { message: `${url} answers ${status}`, hint, details };
  }
  if (!answer || /^(text|application)\/(x-)?(java|ecma)script/.test(type)) return undefined;
  const page = /html/.test(type);
  return {
    message: `${url} is no script: it is served as "${type}"`,
    hint: page ? `the host answers with a page where it has no file: ${LEFT}` : 'serve .js as text/javascript',
    details,
  };
}
