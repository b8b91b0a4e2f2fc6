// The first code example of README.md as a script, with the address of another model.
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { realModel } from '../../tools/setup/models.mjs';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
export const [, code] = /\n## Install\n[^]*?```js\n([^]*?)```/.exec(readme) ?? [];

/** Starts a server of SmolLM2. @param {import('node:test').TestContext} t @returns {Promise<string>} address of the model */
export async function modelServer(t) {
  const server = createServer((request, response) => {
    const body = readFileSync(String(realModel('smollm2')));
    const [, from, to] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? [];
    if (from === undefined) return void response.writeHead(200, { 'accept-ranges': 'bytes' }).end(body);
    const end = Math.min(to ? Number(to) + 1 : body.length, body.length);
    response
      .writeHead(206, { 'content-range': `bytes ${from}-${end - 1}/${body.length}` })
      .end(body.subarray(Number(from), end));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return `http://127.0.0.1:${port}/SmolLM2.gguf`;
}

/**
 * Writes the example as a script that exports the reply as `reply`.
 * @param {string} folder @param {string} url  of the model @param {string} [from]  address of the package @returns {string} path of the script
 */
export function writeScript(folder, url, from = 'bq4') {
  const path = join(folder, 'app.mjs');
  const text = code.replace("'bq4'", `'${from}'`).replace(/'hf:\S+'/, `'${url}'`);
  writeFileSync(path, `${text}\nexport const reply = text;\n`);
  return path;
}
