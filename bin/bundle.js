// `bq4 bundle`: engine, tokenizer, chat format and a small model in one page, which works from a disk and without a network.
import { createHash } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { stdout } from 'node:process';
import { createEngine, fromFile } from '../js/node.js';
import { BqError } from '../js/shared/errors.js';

/** Bytes of a model that a page may carry: a browser holds the page as text, in base64, before it holds the model. */
const MOST = 256 * 2 ** 20;

const STYLE = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{margin:0 auto;max-width:44rem;min-height:100dvh;display:flex;flex-direction:column;padding:0 1rem;box-sizing:border-box}
h1{font-size:1.1rem;margin:1rem 0 0}p{margin:.25rem 0}small,#status{color:GrayText}
#log{flex:1;padding:1rem 0;display:flex;flex-direction:column;gap:.75rem}
article{white-space:pre-wrap;overflow-wrap:anywhere;padding:.5rem .75rem;border-radius:.75rem;unicode-bidi:plaintext}
.user{align-self:end;max-width:85%;background:color-mix(in srgb,AccentColor 18%,Canvas)}
form{display:flex;gap:.5rem;position:sticky;bottom:0;background:Canvas;padding:.5rem 0 1rem}
textarea{flex:1;font:inherit;padding:.5rem;border-radius:.5rem;resize:none;min-width:0}
button{font:inherit;padding:.5rem 1rem;border-radius:.5rem}`;

/** @param {string} text */
const escaped = (text) =>
  text.replace(
    /[&<>"]/g,
    (c) => /** @type {Record<string, string>} */ ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c],
  );

/** For the policy of the page. @param {string} text */
const hashOf = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** A file that comes with the package. NO_ENGINE. @param {URL} url */
const own = (url) =>
  readFile(url).catch((cause) => {
    throw new BqError('NO_ENGINE', `${url.pathname} is missing`, {
      cause,
      hint: 'in a copy of the repository: npm run build && npm run dist',
    });
  });

/** @param {URL} url */
const base64 = async (url) => (await own(url)).toString('base64');

/**
 * The page. READ, FORMAT …: what is no model; ARGUMENT: too large.
 * @param {string} file  a .bq4 or .gguf
 * @param {{ title?: string }} options
 */
async function pageOf(file, { title }) {
  const engine = await createEngine();
  const { name, license, fileBytes, rareTypes } = await engine.plan(fromFile(file)).finally(() => engine.close());
  if (fileBytes > MOST)
    throw new BqError('ARGUMENT', `${file} has ${fileBytes} bytes, a page may carry ${MOST}`, {
      hint: 'serve the model beside the page and load it by its address',
    });
  const script = (await own(new URL('../dist/single.js', import.meta.url)))
    .toString()
    .replaceAll('</script', '<\\/script');
  const builds = ['relaxed', 'simd128', ...(rareTypes ? ['relaxed-rare', 'simd128-rare'] : [])];
  const wasm = async (/** @type {string} */ build) =>
    `<script type="text/plain" id="bq4-${build}">${await base64(new URL(`../build/wasm/bq4-${build}.wasm`, import.meta.url))}</script>`;
  const policy = `default-src 'none'; script-src ${hashOf(script)} 'wasm-unsafe-eval'; style-src ${hashOf(STYLE)}; connect-src data:; img-src data:; base-uri 'none'; form-action 'none'`;
  const shown = escaped(title ?? (name || 'A language model'));
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
<title>${shown}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
<body>
<header><h1>${shown}</h1><p><small>A language model in this file, on your CPU. It makes things up.${license ? ` Licence: ${escaped(license)}.` : ''}</small></p></header>
<main id="log" role="log" aria-label="Conversation" tabindex="0"></main>
<form id="form"><textarea id="message" rows="2" aria-label="Message" placeholder="Write something" autofocus></textarea>
<button id="send" disabled>Send</button><button id="stop" type="button" hidden>Stop</button></form>
<p id="status" role="status">Loading…</p>
${(await Promise.all(builds.map(wasm))).join('\n')}
<script type="text/plain" id="bq4-model">${(await readFile(file)).toString('base64')}</script>
<script type="module">${script}</script>
</body>
</html>
`;
}

/** @param {string} file @param {string} to @param {{ title?: string }} options */
export async function bundle(file, to, options) {
  const page = await pageOf(file, options);
  await writeFile(to, page);
  stdout.write(`${to}: ${(await stat(to)).size} bytes, opens without a server or a network\n`);
}
