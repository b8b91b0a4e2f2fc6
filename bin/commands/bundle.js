/**
 * `bq4 bundle`: writes one HTML page with engine, tokenizer, chat format and a small model. The page works offline,
 * from the disk.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { stdout } from 'node:process';
import { fileSink } from '../../js/format/output.js';
import { createEngine, fromFile } from '../../js/node.js';
import { BqError } from '../../js/shared/errors.js';
import { value } from '../options.js';
import { readPackageFile } from '../package-files.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'writes one HTML page with the engine and a small model',
  operands: 'FILE PAGE.html',
  writesLast: true,
  options: { title: value('TEXT', 'title of the page (default: the name of the model)') },
  run: ([file, page], options) => bundle(file, page, options),
};

/** Largest model in a page, in bytes: before the model is loaded, the page with the model in base64 is in memory. */
const MAX_MODEL_BYTES = 256 * 2 ** 20;

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

/** Returns a source expression for the Content-Security-Policy of the page. @param {string} text */
const hashOf = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Reads a file of the package as base64. @param {string} path */
const base64 = async (path) => (await readPackageFile(path)).toString('base64');

/**
 * Returns the HTML of the page. Throws READ, FORMAT and others for an invalid model; ARGUMENT if the model is too
 * large.
 * @param {string} file  a .bq4 or .gguf
 * @param {{ title?: string }} options
 */
async function pageOf(file, { title }) {
  const engine = await createEngine();
  const { name, license, fileBytes, rareTypes } = await engine.plan(fromFile(file)).finally(() => engine.close());
  if (fileBytes > MAX_MODEL_BYTES)
    throw new BqError('ARGUMENT', `${file} has ${fileBytes} bytes; the limit for a page is ${MAX_MODEL_BYTES}`, {
      hint: 'serve the model beside the page and load it by its address',
    });
  const script = (await readPackageFile('dist/single.js')).toString().replaceAll('</script', '<\\/script');
  const builds = ['relaxed', 'simd128', ...(rareTypes ? ['relaxed-rare', 'simd128-rare'] : [])];
  const wasm = async (/** @type {string} */ build) =>
    `<script type="text/plain" id="bq4-${build}">${await base64(`build/wasm/bq4-${build}.wasm`)}</script>`;
  const policy = `default-src 'none'; script-src ${hashOf(script)} 'wasm-unsafe-eval'; style-src ${hashOf(STYLE)}; connect-src data:; img-src data:; base-uri 'none'; form-action 'none'`;
  const pageTitle = escaped(title ?? (name || 'A language model'));
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
<title>${pageTitle}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
<body>
<header><h1>${pageTitle}</h1><p><small>A language model in this file, on your CPU. It makes things up.${license ? ` Licence: ${escaped(license)}.` : ''}</small></p></header>
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
async function bundle(file, to, options) {
  const page = Buffer.from(await pageOf(file, options));
  const sink = await fileSink(to);
  try {
    await sink.write(0, page);
    await sink.finish();
  } finally {
    await sink.abort(); // deletes an incomplete page
  }
  stdout.write(`${to}: ${page.length} bytes; it works without a server and offline\n`);
}
