// Tests of the development server: it responds only to its own host names, and serves no file outside its public folders, also through
// links.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { serve } from '../../tools/serve.mjs';
import { testFolder } from './folders.mjs';

const { fresh } = testFolder('serve');
const [root, elsewhere] = [fresh(), fresh()];
mkdirSync(join(root, 'demo/inner'), { recursive: true });
mkdirSync(join(root, 'private'));
writeFileSync(join(root, 'demo/a.txt'), 'public');
writeFileSync(join(root, 'private/secret.txt'), 'private');
writeFileSync(join(elsewhere, 'secret.txt'), 'private');
symlinkSync(join(elsewhere, 'secret.txt'), join(root, 'demo/link.txt'));
symlinkSync(elsewhere, join(root, 'demo/inner/folder'));
symlinkSync(join(root, 'private'), join(root, 'demo/neighbour'));
symlinkSync(join(root, 'demo/a.txt'), join(root, 'demo/within.txt'));
symlinkSync(elsewhere, join(root, 'linked'));
const site = await serve({ root, folders: ['demo', 'linked'], hosts: ['dev.example'] });
after(() => site.close());

/** @param {string} path @param {string} [host] @returns {Promise<[status: number | undefined, body: string]>} */
const get = (path, host = `localhost:${site.port}`) =>
  new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port: site.port, path, headers: { host } }, async (response) => {
      let body = '';
      for await (const part of response.setEncoding('utf8')) body += part;
      resolve([response.statusCode, body]);
    })
      .on('error', reject)
      .end();
  });

test('requests with another host name are refused before a file is read', async () => {
  for (const host of ['evil.example', 'evil.example:80', 'localhost.evil.example', '127.0.0.1.evil.example'])
    assert.equal((await get('/demo/a.txt', host))[0], 403, host);
  const own = ['localhost', 'LOCALHOST:1', '127.0.0.1', '[::1]:80', 'a.localhost', 'dev.example:8080'];
  for (const host of own) assert.deepEqual(await get('/demo/a.txt', host), [200, 'public'], host);
});

test('links that lead out of a public folder are not followed; the folder itself may be one', async () => {
  for (const path of ['link.txt', 'inner/folder/secret.txt', 'neighbour/secret.txt', 'inner/folder', 'neighbour/'])
    assert.equal((await get(`/demo/${path}`))[0], 404, path);
  assert.deepEqual(await get('/demo/within.txt'), [200, 'public']);
  assert.deepEqual(await get('/linked/secret.txt'), [200, 'private']);
});
