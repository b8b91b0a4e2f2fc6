// Tests of hf:owner/name with a local hub that responds like huggingface.co.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { hubServer, SHA } from '../server/hub.mjs';
import { hfConfig, hfFolder, hfName, randomWeights, safetensors } from './checkpoints.mjs';
import { torchZip } from './torch-writer.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-hubs-'));
after(() => rmSync(folder, { recursive: true }));
const REPO = 'somebody/tiny-model';
const weights = randomWeights();
const named = [...weights].map(([name, tensor]) => /** @type {[string, any]} */ ([hfName(name), tensor]));
const config = Buffer.from(JSON.stringify(hfConfig()));
const halves = [named.slice(0, 6), named.slice(6)];
const sharded = {
  'config.json': config,
  'README.md': Buffer.from('# not fetched'),
  '.gitattributes': Buffer.from('x'),
  '../evil.json': Buffer.from('{}'),
  ...Object.fromEntries(halves.map((half, i) => [`model-${i}.safetensors`, safetensors(half)])),
  'model.safetensors.index.json': Buffer.from(
    JSON.stringify({
      weight_map: Object.fromEntries(
        halves.flatMap((half, i) => half.map(([name]) => [name, `model-${i}.safetensors`])),
      ),
    }),
  ),
};
/** Data of a file, without its random id. @param {string} path */
function dataOf(path) {
  const bytes = readFileSync(path);
  return bytes.subarray(Number(bytes.readBigUInt64LE(24)));
}
await convert(hfFolder(join(folder, 'here'), weights), join(folder, 'here.bq4'));
const wanted = dataOf(join(folder, 'here.bq4'));

/** @param {Record<string, Buffer>} files @param {import('../server/hub.mjs').HubFaults} [faults] @param {any} [options] */
async function fromHub(files, faults, options, name = REPO) {
  const server = await hubServer(REPO, files, faults);
  const out = join(folder, 'out.bq4');
  rmSync(out, { force: true });
  try {
    const report = await convert(`hf:${name}`, out, { endpoint: server.endpoint, ...options });
    return { report, data: dataOf(out), requests: server.requests };
  } finally {
    await server.close();
    assert.ok(
      !readdirSync(tmpdir()).some((file) => file.startsWith('bq4-hub-')),
      'nothing is left in the temporary folder',
    );
  }
}

test('shards and index are fetched by ranges of one commit; the access token is sent only to the hub', async () => {
  const { data, requests } = await fromHub(sharded, { token: 'secret' }, { token: 'secret', revision: 'v1' });
  assert.deepEqual(data, wanted);
  const cdn = requests.filter(({ host }) => host === 'cdn');
  assert.ok(
    cdn.length > 4 && cdn.every(({ token, range }) => token === undefined && range !== undefined),
    'no token, ranges only',
  );
  assert.ok(requests.filter(({ host }) => host === 'hub').every(({ token }) => token === 'Bearer secret'));
  assert.ok(
    requests.some(({ url }) => url.endsWith('/revision/v1')) &&
      requests.filter(({ url }) => url.includes('/resolve/')).every(({ url }) => url.includes(SHA)),
  );
  assert.ok(!requests.some(({ url }) => /README|gitattributes|evil/.test(url)), 'only what is needed');
});

test('pytorch_model.bin and a renamed repository are supported', async () => {
  const { data } = await fromHub(
    { 'config.json': config, 'pytorch_model.bin': torchZip(named) },
    { renamed: 'old/name' },
    {},
    'old/name',
  );
  assert.deepEqual(data, wanted);
});

test('truncated responses, a busy hub and an expired address are retried', async () => {
  const { data } = await fromHub(sharded, { cut: 1, busy: 1, expire: 3 });
  assert.deepEqual(data, wanted);
});

test('refusals of the hub have a hint', async () => {
  const cases = /** @type {const} */ ([
    [{ token: 'secret' }, {}, /has no|denies access/, /name|HF_TOKEN/],
    [{ gated: true }, {}, /is gated/, /conditions.*HF_TOKEN/],
    [{ gated: true }, { token: 'other' }, /is gated/, /token has access/],
    [{}, { revision: 'none' }, /no revision "none"/, /--revision/],
  ]);
  for (const [faults, options, message, hint] of cases)
    await assert.rejects(
      fromHub(sharded, faults, options),
      (/** @type {any} */ e) => (
        assert.equal(e.code, 'HTTP_STATUS', e.stack),
        assert.match(e.message, message),
        assert.match(e.hint, hint),
        true
      ),
    );
  await assert.rejects(fromHub(sharded, {}, {}, 'no/such'), { code: 'HTTP_STATUS', message: /no\/such/ });
  await assert.rejects(fromHub({ 'README.md': Buffer.from('x') }), { code: 'NOT_A_MODEL', message: /config\.json/ });
  const ggufs = Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`q/m ${i}.gguf`, Buffer.from('GGUF')]));
  await assert.rejects(
    fromHub({ 'config.json': config, ...ggufs }),
    (/** @type {any} */ e) =>
      e.code === 'NOT_A_MODEL' &&
      e.hint.includes(`/resolve/${SHA}/q/m%200.gguf http`) &&
      / or another of 15$/.test(e.hint),
  );
  for (const name of ['../../etc', 'a/b/c', 'a b', ''])
    await assert.rejects(convert(`hf:${name}`, join(folder, 'x.bq4')), { code: 'ARGUMENT' });
  await assert.rejects(convert('hf:a/b', join(folder, 'x.bq4'), { endpoint: 'ftp://x' }), { code: 'ARGUMENT' });
});

test('the command reads HF_ENDPOINT, HF_TOKEN and --revision', async () => {
  const server = await hubServer(REPO, sharded, { token: 'secret' });
  const program = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
  const child = spawn(
    process.execPath,
    [program, 'convert', `hf:${REPO}`, join(folder, 'cli.bq4'), '--revision', 'v1'],
    {
      env: { ...process.env, HF_ENDPOINT: server.endpoint, HF_TOKEN: 'secret' },
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  const [code] = await once(child, 'exit');
  await server.close();
  assert.equal(code, 0);
  assert.ok(server.requests.some(({ url }) => url.endsWith('/revision/v1')));
  assert.deepEqual(dataOf(join(folder, 'cli.bq4')), wanted);
});
