// README's first lines of code, as they are written there, but for where the package and the model are.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';

const ROOT = new URL('../../', import.meta.url);

test(
  'an install, a bare import and an address: SmolLM2 says Paris',
  { skip: realModel('smollm2') ? false : NO_REAL_MODEL },
  async (t) => {
    const readme = readFileSync(new URL('README.md', ROOT), 'utf8');
    const [, code] = /\n## Install\n[^]*?```js\n([^]*?)```/.exec(readme) ?? [];
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
    const folder = mkdtempSync(join(tmpdir(), 'bq4-readme-'));
    t.after(() => {
      server.close();
      server.closeAllConnections();
      rmSync(folder, { recursive: true });
    });
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
    assert.match(code, /from 'bq4';.*cache: 'auto'.*'https:\/\/huggingface\.co\/\S+\.gguf'/s);
    const script = join(folder, 'app.mjs');
    writeFileSync(
      script,
      `${code
        .replace("'bq4'", `'${new URL('js/index.js', ROOT)}'`)
        .replace("cache: 'auto'", '')
        .replace(/'https:\S+'/, `'http://127.0.0.1:${port}/SmolLM2.gguf'`)}
      export const said = choices[0].message.content;
      await engine.close();`,
    );
    const log = t.mock.method(console, 'log', () => {});
    const { said } = await import(pathToFileURL(script).href);
    assert.match(said, /Paris/);
    assert.deepEqual(log.mock.calls[0].arguments, [said]);
  },
);
