// Cross-Origin Storage: files of all sites by their SHA-256. No browser has it yet, so these tests use a stand-in for
// `navigator.crossOriginStorage` with the interface of its explainer (github.com/WICG/cross-origin-storage).
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';
import { createEngine, fromUrl } from '../../js/node.js';
import { faultServer } from '../server/faults.mjs';
import { testFolder } from './folders.mjs';
import { randomGguf, SMALL } from './gguf-writer.mjs';

const file = randomGguf({ ...SMALL, layers: 40 });
/** The file with other last bytes. */
const other = Buffer.from(file).fill(1, file.length - 8);
const { fresh } = testFolder('cross-origin');
const digest = createHash('sha256').update(file);
const hash = digest.copy().digest('hex');
const integrity = `sha256-${digest.digest('base64')}`;

/** Files by their hash. @type {Map<string, Uint8Array>} */
const files = new Map();
/** Names of calls, and the error of all requests if access is refused. @type {{ calls: string[], refuses: boolean }} */
const state = { calls: [], refuses: false };

/** @param {{ algorithm: string, value: string }} request @param {{ create?: boolean, origins?: string }} [options] */
async function requestFileHandle({ algorithm, value }, { create = false, origins } = {}) {
  assert.equal(algorithm, 'SHA-256');
  state.calls.push(create ? `create for ${origins}` : 'request');
  if (state.refuses) throw new DOMException('refused by the user', 'NotAllowedError');
  if (!create && !files.has(value)) throw new DOMException('no such file', 'NotFoundError');
  /** @type {Uint8Array[]} */
  const pieces = [];
  return {
    getFile: async () => new File([/** @type {Uint8Array<ArrayBuffer>} */ (files.get(value))], ''),
    createWritable: async () => ({
      write: async (/** @type {Uint8Array} */ bytes) => void pieces.push(bytes),
      abort: async () => void state.calls.push('abort'),
      async close() {
        state.calls.push('close');
        const bytes = Buffer.concat(pieces);
        if (createHash('sha256').update(bytes).digest('hex') !== value)
          throw new DOMException('another hash', 'DataError');
        files.set(value, bytes);
      },
    }),
  };
}
Object.defineProperty(navigator, 'crossOriginStorage', { value: { requestFileHandle }, configurable: true });
after(() => delete (/** @type {any} */ (navigator).crossOriginStorage));

/**
 * An engine of a site: with a cache of its own.
 * @param {import('node:test').TestContext} t
 */
async function site(t) {
  const engine = await createEngine({ threads: 1, cache: { path: fresh(), crossOrigin: true } });
  t.after(() => engine.close());
  return engine;
}

/** @param {import('../../js/shared/types.js').Engine} engine @param {string} url @param {object} [options] */
async function idsOf(engine, url, options = { integrity }) {
  const model = await engine.load(fromUrl(url, { retries: 0 }), { contextTokens: 64, ...options });
  const session = await model.createSession();
  const { tokens } = await session.generate('Once upon a time', { temperature: 0, maxTokens: 6 }).result;
  await model.close();
  return [tokens.join(), model.info.authenticated];
}

test('a file that one site has downloaded is not downloaded by another one, and its hash is checked', async (t) => {
  const server = await faultServer({ '/model.gguf': file });
  t.after(server.close);
  const url = server.at('/model.gguf');
  const first = await site(t);
  const expected = await idsOf(first, url);
  assert.deepEqual(state.calls.splice(0), ['request', 'create for *', 'close']);
  assert.deepEqual([...files.keys()], [hash]);
  assert.deepEqual(await idsOf(first, url), expected);
  assert.deepEqual(state.calls.splice(0), [], 'its own cache has the file');

  const requests = server.asked().length;
  const second = await site(t);
  assert.deepEqual(await idsOf(second, url), expected);
  assert.equal(server.asked().length, requests);
  assert.deepEqual(state.calls.splice(0), ['request']);

  files.set(hash, other);
  await assert.rejects(idsOf(second, url), { code: 'INTEGRITY' });
  files.clear();
});

test('without a hash, without access and after an interrupted download nothing is stored for other sites', async (t) => {
  const server = await faultServer({ '/model.gguf': file });
  t.after(server.close);
  const url = server.at('/model.gguf');
  state.calls.length = 0;
  await idsOf(await site(t), url, {});
  assert.deepEqual(state.calls.splice(0), []);

  state.refuses = true;
  await idsOf(await site(t), url);
  assert.deepEqual(state.calls.splice(0), ['request', 'create for *']);
  state.refuses = false;

  const engine = await site(t);
  server.faults = [{ drop: 3_000_000 }];
  await assert.rejects(idsOf(engine, url), { code: 'NETWORK' });
  assert.deepEqual(state.calls.splice(0), ['request', 'create for *', 'abort']);
  server.faults = [];
  await idsOf(engine, url);
  assert.deepEqual(state.calls.splice(0), ['request'], 'the first part is not downloaded again');
  assert.equal(files.size, 0);

  server.faults = [{ file: other }];
  await assert.rejects(idsOf(await site(t), url), { code: 'INTEGRITY' });
  assert.deepEqual(state.calls.splice(0), ['request', 'create for *', 'abort']);
});
