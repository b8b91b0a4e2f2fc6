// Tests of integrity: what it is the hash of, forged files that no checksum detects, and the output of the commands.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';
import { createEngine, fromBytes, fromUrl } from '../../js/node.js';
import { inspect } from '../../bin/inspect.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { CONFIG, tinyModel } from './fixture.mjs';
import { reseal } from './reseal.mjs';
import { faultServer } from '../server/faults.mjs';
import { v1 } from './v1.mjs';

const engine = await createEngine({ build: 'simd128', threads: 1 });
after(() => engine.close());
const QUICK = { retries: 1, retryDelay: 1 };
const config = { layers: 3, hidden: 192, ffn: 512 };

const sha256 = (bytes) => new Uint8Array(createHash('sha256').update(bytes).digest());
const text = (hash) => `sha256-${Buffer.from(hash).toString('base64')}`;
const prefixOf = (file) => file.subarray(0, Number(new DataView(file.buffer).getBigUint64(24, true)));
/** All checksums of a file right again. */
function forge(file, kind) {
  const bytes = file.slice();
  const prefix = prefixOf(bytes).length;
  bytes[bytes.length - 9] ^= 1;
  const at = Buffer.from(bytes.subarray(0, prefix)).indexOf('HASH') + 24;
  const chunks = Math.ceil((bytes.length - prefix) / 2 ** 20);
  const last = bytes.subarray(prefix + (chunks - 1) * 2 ** 20);
  if (kind === 'sha256') bytes.set(sha256(last), at + 32 * (chunks - 1));
  return reseal(bytes);
}

const plain = await tinyModel({ config });
const hashed = await tinyModel({ config, sha256 });

test('the integrity of a file with SHA-256 chunks is the hash of its header', async () => {
  const integrity = text(sha256(prefixOf(hashed)));
  const model = await engine.load(fromBytes(hashed), { integrity });
  assert.equal(model.info.authenticated, true);
  await model.close();
  const unasked = await engine.load(fromBytes(hashed));
  assert.equal(unasked.info.authenticated, false);
  await unasked.close();
  await assert.rejects(engine.load(fromBytes(hashed), { integrity: text(sha256(hashed)) }), { code: 'INTEGRITY' });
  const forged = forge(hashed, 'sha256');
  await (await engine.load(fromBytes(forged))).close(); // as good as any, to whom nothing was said
  await assert.rejects(engine.load(fromBytes(forged), { integrity }), { code: 'INTEGRITY' });
  const damaged = hashed.slice();
  damaged[damaged.length - 9] ^= 1;
  await assert.rejects(engine.load(fromBytes(damaged), { integrity }), { code: 'CHECKSUM' });
});

test('the integrity of a file with other hashes is the hash of the complete file, and no token precedes its last byte', async (t) => {
  const integrity = text(sha256(plain));
  const model = await engine.load(fromBytes(plain), { integrity });
  assert.equal(model.info.authenticated, true);
  await model.close();
  await assert.rejects(engine.load(fromBytes(plain), { integrity: text(sha256(prefixOf(plain))) }), {
    code: 'INTEGRITY',
  });
  const other = await tinyModel({ config, seed: 2 });
  const server = await faultServer(other);
  t.after(server.close);
  const streamed = await engine.load(fromUrl(server.url, QUICK), { integrity, streaming: true });
  const session = await streamed.createSession();
  await assert.rejects(session.generate('the', { maxTokens: 1 }).result, { code: 'INTEGRITY' });
  await assert.rejects(streamed.loaded, { code: 'INTEGRITY' });
  await streamed.close();
});

test('the integrity of a file with hashes in a companion is the hash of the complete file', async (t) => {
  const { file, json } = await v1({ ...CONFIG, hidden: 64, ffn: 96 });
  const other = file.slice();
  other[other.length - 9] ^= 1;
  const companion = new TextEncoder().encode(JSON.stringify(json));
  const server = await faultServer({ '/v1.bq4': file, '/v1.json': companion });
  t.after(server.close);
  const integrity = text(sha256(file));
  const load = () => engine.load(fromUrl(server.at('/v1.bq4'), QUICK), { integrity });
  const model = await load();
  assert.equal(model.info.authenticated, true);
  await model.close();
  server.files['/v1.bq4'] = other;
  await assert.rejects(load(), { code: 'INTEGRITY' });
});

test('a forged file is replaced by the true one of a mirror', async (t) => {
  const [forged, right] = [await faultServer(forge(hashed, 'sha256')), await faultServer(hashed)];
  t.after(forged.close);
  t.after(right.close);
  const integrity = text(sha256(prefixOf(hashed)));
  await assert.rejects(engine.load(fromUrl(forged.url, QUICK), { integrity }), { code: 'INTEGRITY' });
});

test('inspect prints the integrity, and load accepts it', async () => {
  for (const file of [plain, hashed]) {
    const { integrity, hashes } = await inspect(openBytes(file));
    assert.deepEqual(hashes.damaged, []);
    assert.equal(integrity, text(sha256(file === plain ? file : prefixOf(file))));
    await (await engine.load(fromBytes(file), { integrity })).close();
  }
  const { hashes } = await inspect(openBytes(hashed.map((b, i) => (i === hashed.length - 1 ? b ^ 1 : b))));
  assert.equal(hashes.kind, 'sha-256');
  assert.equal(hashes.damaged.length, 1);
});

test('an invalid integrity gives ARGUMENT', async () => {
  for (const integrity of ['', 'sha256-', 'sha384-AAAA', `sha256-${'A'.repeat(43)}`, 'x'.repeat(51)])
    await assert.rejects(engine.load(fromBytes(plain), { integrity }), { code: 'ARGUMENT' });
});
