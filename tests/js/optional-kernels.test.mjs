// Tests of types whose kernels are in a separate module: it is fetched once, with the first model that needs it, and the bits are the same
// everywhere.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { resolveBuilds } from '../../js/shared/builds.js';
import { tinyModel } from './fixture.mjs';
import { createUnsharedEngine } from './unshared.mjs';

const BUILDS = /** @type {any} */ (resolveBuilds(new URL('../../build/wasm/', import.meta.url)));
const RARE = await tinyModel({ type: 'bq4_16' });
const USUAL = await tinyModel({ type: 'bq4_32' });

/** @param {import('../../js/shared/types.js').Engine} engine @param {Uint8Array} bytes */
async function idsOf(engine, bytes) {
  const model = await engine.load(fromBytes(bytes));
  const session = await model.createSession();
  const { tokens: ids } = await session.generate('Once upon a time', { temperature: 0, maxTokens: 12 }).result;
  await model.close();
  return ids;
}

/** Serves build/wasm and counts. @param {import('node:test').TestContext} t */
async function counting(t) {
  /** @type {string[]} */
  const asked = [];
  const server = createServer(({ url = '' }, answer) => {
    asked.push(url.slice(1));
    answer.setHeader('content-type', 'application/wasm');
    answer.end(readFileSync(new URL(`../../build/wasm${url}`, import.meta.url)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { asked, folder: `http://127.0.0.1:${/** @type {any} */ (server.address()).port}/` };
}

test('the plan reports whether a model needs optional kernels', async () => {
  const engine = await createEngine({ threads: 1 });
  assert.equal((await engine.plan(fromBytes(RARE))).rareTypes, true);
  assert.equal((await engine.plan(fromBytes(USUAL))).rareTypes, false);
  await engine.close();
});

test('every build computes the same with them, whatever shares the work', async () => {
  /** @type {number[][]} */
  const all = [];
  for (const build of /** @type {const} */ (['relaxed', 'relaxed16', 'simd128']))
    for (const threads of [1, 3]) {
      const engine = await createEngine({ build, threads });
      assert.equal(engine.info.threads, threads, engine.info.threadsReason);
      all.push(await idsOf(engine, RARE));
      await engine.close();
    }
  const engine = await createUnsharedEngine({ threads: 2 });
  const model = await engine.load(fromBytes(RARE));
  assert.equal(model.info.tensorParallel?.parts, 2);
  await model.close();
  all.push(await idsOf(engine, RARE));
  await engine.close();
  for (const ids of all) assert.deepEqual(ids, all[0]);
});

for (const type of ['bq3a', 'bq2a', 'bq2', 'bqt', 'bq4_64'])
  test(`${type}: all builds compute the same, one thread or two`, async () => {
    const bytes = await tinyModel({ type });
    /** @type {number[][]} */
    const all = [];
    for (const build of /** @type {const} */ (['relaxed', 'relaxed16', 'simd128']))
      for (const threads of [1, 2]) {
        const engine = await createEngine({ build, threads });
        assert.equal((await engine.plan(fromBytes(bytes))).rareTypes, true);
        all.push(await idsOf(engine, bytes));
        await engine.close();
      }
    for (const ids of all) assert.deepEqual(ids, all[0]);
  });

test('optional kernels are fetched once, when the first model needs them', async (t) => {
  const { asked, folder } = await counting(t);
  const engine = await createEngine({ build: 'simd128', threads: 2, wasmUrl: folder });
  await idsOf(engine, USUAL);
  assert.deepEqual(asked, ['bq4-simd128-threads.wasm']);
  await Promise.all([idsOf(engine, RARE), idsOf(engine, RARE)]);
  await idsOf(engine, USUAL);
  assert.deepEqual(asked, ['bq4-simd128-threads.wasm', 'bq4-simd128-threads-rare.wasm']);
  await engine.close();
});

/** @param {Record<string, string>} wasmUrl */
async function refused(wasmUrl) {
  const engine = await createEngine({ build: 'simd128', threads: 1, wasmUrl: /** @type {any} */ (wasmUrl) });
  const error = await engine.load(fromBytes(RARE)).catch((error) => error);
  assert.deepEqual(await idsOf(engine, USUAL), await usual(), 'others go on');
  await engine.close();
  return error;
}

async function usual() {
  const engine = await createEngine({ threads: 1 });
  const ids = await idsOf(engine, USUAL);
  await engine.close();
  return ids;
}

test('where they are not, are something else, or compute something else: a typed error', async () => {
  const { simd128 } = BUILDS;
  const address = (/** @type {Uint8Array} */ bytes) =>
    `data:application/wasm;base64,${Buffer.from(bytes).toString('base64')}`;
  const unknown = await refused({ relaxed: simd128, simd128 });
  assert.equal(unknown.code, 'NO_ENGINE');
  assert.match(unknown.message, /wasmUrl has no 'simd128-rare'/);
  assert.match(unknown.hint, /simd128-rare/);

  const other = await refused({ ...BUILDS, 'simd128-rare': BUILDS.grammar });
  assert.equal(other.code, 'NO_ENGINE');
  assert.match(other.message, /^can't load the optional kernels .*bq4-grammar\.wasm/);

  // A module that knows none of the types: (func (export "bq_rare_matmul") (param i32) (result i32) i32.const 0)
  const nothing = Uint8Array.of(
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f, 3, 2, 1, 0, 7, 18, 1, 14],
    ...Buffer.from('bq_rare_matmul'),
    ...[0, 0, 10, 6, 1, 4, 0, 0x41, 0, 0x0b],
  );
  const none = await refused({ ...BUILDS, 'simd128-rare': address(nothing) });
  assert.equal(none.code, 'UNSUPPORTED');
  assert.match(none.message, /needs the kernels of type bq4_16/);

  const bytes = readFileSync(new URL(BUILDS['simd128-rare']));
  const wrong = await refused({ ...BUILDS, 'simd128-rare': address(changed(bytes)) });
  assert.equal(wrong.code, 'NO_ENGINE');
  assert.match(wrong.message, /self test of the simd128 kernels failed/);
});

/** i32x4.dot_i16x8_s becomes i32x4.min_s everywhere. @param {Uint8Array} bytes */
function changed(bytes) {
  const out = Uint8Array.from(bytes);
  let found = 0;
  for (let i = 0; i + 2 < out.length; i++)
    if (out[i] === 0xfd && out[i + 1] === 0xba && out[i + 2] === 0x01) [out[i + 1], found] = [0xb6, found + 1];
  assert.ok(found > 100);
  return out;
}
