// Tests of addresses, names and values in errors: long ones are shortened to their beginning and end.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { connect } from '../../js/connect.js';
import { createEngine } from '../../js/engine/create.js';
import { load } from '../../js/node.js';
import { BqError, packError, unpackError } from '../../js/shared/errors.js';
import { matchTensors } from '../../js/format/bq4/names.js';
import { fromFile, fromUrl, toSource } from '../../js/storage/sources/index.js';
import { CONFIG } from './checkpoints.mjs';

/** Characters of a message and of a hint with one long word in it; those of a text of many words. */
const MESSAGE_LIMIT = 1200;
const MOST_OF_TEXT = 6000;
const letters = 'A'.repeat(1 << 20);

/** @type {import('../../js/shared/types.js').Engine} */
let engine;
before(async () => {
  engine = await createEngine({ threads: 1 });
});
after(() => engine.close());

/** @type {Record<string, () => unknown>} */
const calls = {
  'a data: address that is no model': () => engine.load(`data:application/octet-stream;base64,${letters}`),
  'a data: address that no fetch can read': () => engine.load(fromUrl(`data:${letters}`, { retries: 0 })),
  'a data: address of JSON with spaces': () => engine.load(`data:application/json,{ "a": "${'b '.repeat(1 << 19)}" }`),
  'an invalid address': () => fromUrl(`ht tp://${letters}`),
  'a name on a hub': () => fromUrl(`hf:${letters}`),
  'the scheme of an address': () => engine.plan(fromUrl(`${letters}:x`, { retries: 0 })),
  'a path': () => engine.load(fromFile(letters)),
  'a kind of source': () => engine.load(/** @type {any} */ ({ kind: letters })),
  'the name of a Blob': () => engine.load(new File(['x'], `${letters}.gguf`)),
  'the name of an option': () => engine.load('data:,x', /** @type {any} */ ({ [letters]: 1 })),
  'the value of an option': () => engine.load('data:,x', /** @type {any} */ ({ kv: letters })),
  'the address of a build': () => load('data:,x', { wasmUrl: `data:application/wasm;base64,${letters}` }),
  'the address of a server': () => connect(`data:text/plain,${letters}`),
  'a hub': () => engine.load(fromUrl('hf:a/b', { hubUrl: `data:,${letters}` })),
  'a list of addresses': () => toSource([`ftp://${letters} `]),
};

for (const [name, call] of Object.entries(calls))
  test(`${name} of a mebibyte is shortened`, async () => {
    const error = await Promise.resolve()
      .then(call)
      .then(
        () => assert.fail('expected an error'),
        (reason) => reason,
      );
    assert.equal(error.name, 'BqError', error.stack?.slice(0, 500));
    const most = name.includes('spaces') ? MOST_OF_TEXT : MESSAGE_LIMIT;
    assert.ok(error.message.length < most, `message: ${error.message.length} characters`);
    assert.ok(error.hint.length < MOST_OF_TEXT, `hint: ${error.hint.length}`);
    const details = JSON.stringify(error.details);
    assert.ok(details.length < MESSAGE_LIMIT, `details: ${details.length}`);
    const unpacked = /** @type {any} */ (unpackError(packError(error)));
    assert.deepEqual([unpacked.message, unpacked.details], [error.message, error.details], 'the same over a port');
  });

/** @param {() => unknown} call @returns {any} */
function errorOf(call) {
  try {
    call();
  } catch (error) {
    return error;
  }
  return assert.fail('expected an error');
}

test('details: texts are shortened; numbers, objects and the text of a reply are not', () => {
  const call = { id: '1', function: { name: 'f', arguments: letters } };
  const given = { url: letters, status: 404, text: letters, call, offset: undefined };
  const error = new BqError('HTTP_STATUS', 'x', { details: given });
  const { details } = error;
  assert.ok(details.url.length < MESSAGE_LIMIT);
  assert.deepEqual([details.status, details.text, details.call], [404, letters, call]);
  assert.equal(given.url, letters, 'what the caller has stays');
  assert.deepEqual(/** @type {any} */ (unpackError(packError(error))).details, details, 'the same over a port');
});

test('names of tensors are shortened', () => {
  const { details } = errorOf(() => matchTensors(CONFIG, new Map([[letters, { dims: [1] }]])));
  assert.ok(details.tensors[0].length < MESSAGE_LIMIT);
});

test('details of a server that cannot be reached or quotes its request are shortened', async () => {
  const address = `http://127.0.0.1:1/${letters}`;
  const answers = [
    () => Promise.reject(new TypeError('fetch failed')),
    async () =>
      new Response(JSON.stringify({ error: { message: 'x', param: letters, details: { name: letters } } }), {
        status: 400,
      }),
  ];
  for (const fetch of answers)
    await assert.rejects(connect(address, { fetch }).chat.completions.create({ messages: [] }), (error) => {
      const details = JSON.stringify(/** @type {any} */ (error).details);
      assert.ok(details.length < 3 * MESSAGE_LIMIT, `details: ${details.length}`);
      return true;
    });
});

test('a word of 64 MiB, such as a model in a data: address, is shortened', () => {
  const { message } = new BqError('READ', `${'A'.repeat(1 << 26)} is gone`);
  assert.equal(message, `${'A'.repeat(200)}…${'A'.repeat(50)} is gone`);
});

test('short texts are quoted completely', () => {
  const address = `ht tp://${'a/'.repeat(150)}model.gguf`;
  assert.throws(() => fromUrl(address), { message: `expected a full address, found "${address}"` });
});

test('a hint of a server that is no text is ignored', async () => {
  const fetch = async () => new Response(JSON.stringify({ error: { message: letters, hint: 5 } }), { status: 400 });
  await assert.rejects(
    connect('http://127.0.0.1:1/v1', { fetch }).chat.completions.create({ messages: [] }),
    (error) => {
      assert.equal(/** @type {any} */ (error).hint, '5');
      assert.ok(/** @type {any} */ (error).message.length < MESSAGE_LIMIT);
      return true;
    },
  );
});

test('the command line shortens arguments in its messages', () => {
  const word = 'a'.repeat(100_000);
  for (const args of [[word], ['inspect', word], ['run', word, '--prompt', 'x'], ['inspect', 'x', '--top-k', word]]) {
    const { stderr, status } = spawnSync(process.execPath, ['bin/bq4.js', ...args], { encoding: 'utf8' });
    assert.notEqual(status, 0);
    assert.ok(stderr.length < 3 * MESSAGE_LIMIT, `${args[0].slice(0, 9)}: ${stderr.length} characters`);
  }
});

test('the class has its name in the minified bundle, too', async () => {
  const { BqError: Bundled } = await import(String(new URL('../../dist/node.js', import.meta.url)));
  assert.equal(Bundled.name, 'BqError');
  assert.match(inspect(new Bundled('READ', 'gone')), /^BqError: gone/);
});
