// Tests of the choice of a build, by a measurement of dot products and by a self-test. The modules are real, some with a changed byte;
// replacements of the probe are slow on purpose.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { resolveBuilds } from '../../js/shared/builds.js';
import { fastestBuild, MEASURED_BUILDS } from '../../js/wasm/build-choice.js';
import { measureBuilds } from '../../js/wasm/wasm.js';
import { tinyModel } from './fixture.mjs';
import { setTimeouts } from './timeouts.mjs';

const BUILDS = /** @type {any} */ (resolveBuilds(undefined));
/** @param {Uint8Array} bytes */
const address = (bytes) => `data:application/wasm;base64,${Buffer.from(bytes).toString('base64')}`;

/** A signed number as wasm holds it. @param {bigint} n */
function leb(n) {
  const out = [];
  for (; ; n >>= 7n) {
    const byte = Number(n & 0x7fn);
    if (n >> 6n === 0n || n >> 6n === -1n) return [...out, byte];
    out.push(byte | 0x80);
  }
}

/** A probe with which all dots but one take some milliseconds. @param {import('../../js/shared/types.js').Build} fast */
function probeWhereFast(fast) {
  const steps = leb(3_000_000n);
  const body = [
    0, // no locals
    0x20,
    0,
    0x41,
    MEASURED_BUILDS.indexOf(fast),
    0x47,
    0x41,
    ...steps,
    0x6c,
    0x21,
    0, // n = (table != fast) * steps
    0x03,
    0x40,
    0x20,
    0,
    0x41,
    1,
    0x6b,
    0x22,
    0,
    0x41,
    0,
    0x4a,
    0x0d,
    0,
    0x0b, // do n-- while (n > 0)
    0x20,
    0,
    0x0b,
  ];
  const name = Buffer.from('multiply');
  return address(
    Uint8Array.from([
      0,
      0x61,
      0x73,
      0x6d,
      1,
      0,
      0,
      0,
      1,
      6,
      1,
      0x60,
      1,
      0x7f,
      1,
      0x7f, // (i32) -> i32
      3,
      2,
      1,
      0,
      7,
      name.length + 4,
      1,
      name.length,
      ...name,
      0,
      0,
      10,
      body.length + 2,
      1,
      body.length,
      ...body,
    ]),
  );
}

/** A build whose known answer is another one. @param {string} url */
function wrongBuild(url) {
  const header = readFileSync(new URL('../../c/kernels/kernels.h', import.meta.url), 'utf8');
  const answer = BigInt(/** @type {string[]} */ (/BQ_KNOWN_ANSWER (0x[0-9a-f]+)ull/.exec(header))[1]);
  const bytes = readFileSync(new URL(url));
  const at = bytes.indexOf(Uint8Array.from(leb(BigInt.asIntN(64, answer))));
  assert.ok(at > 0);
  bytes[at] ^= 1;
  return address(bytes);
}

/**
 * Builds are measured by what this thread computes, and threads have all the time that they need: a busy machine takes the core away
 * for longer than the probe may take.
 * @param {import('node:test').TestContext} t
 */
function countCpuTime(t) {
  const now = () => {
    const { user, system } = /** @type {any} */ (process).threadCpuUsage();
    return (user + system) / 1000;
  };
  setTimeouts(t, { now, threadStart: Infinity, threadsReady: Infinity });
}

/** What an engine is and says. @param {import('../../js/shared/types.js').EngineOptions} options */
async function run(options) {
  const engine = await createEngine(options);
  const model = await engine.load(fromBytes(await tinyModel({ type: 'bq4' })));
  const { tokens: ids } = await (await model.createSession()).generate('Once upon', { temperature: 0, maxTokens: 12 })
    .result;
  await engine.close();
  return { info: engine.info, ids };
}

/** What is chosen by a clock that ticks every `tick` ms, where a call takes so long. @param {(table: number, ms: number) => number} takes  at that moment @param {number} [tick] */
function chosen(takes, tick = 0.005) {
  let ms = 0;
  const now = () => ((ms += 0.0001), Math.floor(ms / tick) * tick);
  const build = fastestBuild((table) => void (ms += takes(table, ms)), now);
  return { build, ms };
}

test('the fastest dot product is found for any speed of the first code and any resolution of the clock', () => {
  const [noVnni, vnni] = [
    [0.14, 0.14, 0.06],
    [0.14, 0.05, 0.09],
  ];
  const cold = [0.4, 0.18, 0.2]; // of the first code: SIMD128 has the most instructions, so it suffers the most
  for (const tick of [0.005, 0.1, 1]) {
    assert.equal(chosen((table) => noVnni[table], tick).build, 'relaxed16', `${tick}`);
    assert.equal(chosen((table) => vnni[table], tick).build, 'relaxed', `${tick}`);
  }
  for (const [optimized, build] of /** @type {const} */ ([
    [noVnni, 'relaxed16'],
    [vnni, 'relaxed'],
    [[0.04, 0.05, 0.06], 'simd128'],
  ]))
    assert.equal(chosen((table, ms) => (ms < 25 ? cold : optimized)[table]).build, build);
  const late = chosen((table) => cold[table]);
  assert.equal(late.build, 'relaxed', 'better code that does not come in time');
  assert.ok(late.ms < 90, `${late.ms}`);
  assert.equal(chosen(() => 0.1).build, 'relaxed', 'where it makes no difference');
});

test('other load on the machine and a slow first call do not change the choice', () => {
  // Somebody else has the core for 3 of each 7 ms.
  let [calls, next] = [0, 4];
  const takes = (/** @type {number} */ table, /** @type {number} */ ms) => {
    const alone = (calls++ < 3 ? 8 : 1) * (ms < 30 ? [0.4, 0.18, 0.2] : [0.14, 0.14, 0.06])[table];
    if (ms < next) return alone;
    next = ms + 7;
    return alone + 3;
  };
  assert.equal(chosen(takes).build, 'relaxed16');
});

for (const threads of [1, 2])
  test(`the fastest build is loaded, ${threads} thread(s), with the same tokens`, async (t) => {
    countCpuTime(t);
    const relaxed = await run({ threads, wasmUrl: { ...BUILDS, probe: probeWhereFast('relaxed') } });
    assert.deepEqual([relaxed.info.build, relaxed.info.reason], ['relaxed', 'relaxed SIMD is available']);
    for (const build of /** @type {const} */ (['simd128', 'relaxed16'])) {
      const other = await run({ threads, wasmUrl: { ...BUILDS, probe: probeWhereFast(build) } });
      assert.equal(other.info.build, build);
      assert.match(other.info.reason, /fastest .* by a measurement/);
      assert.equal(other.info.threads, relaxed.info.threads);
      assert.deepEqual(other.ids, relaxed.ids);
    }
  });

for (const threads of [1, 2])
  test(`a build that fails its self-test is replaced by another, ${threads} thread(s)`, async (t) => {
    countCpuTime(t);
    const wrong = { relaxed: wrongBuild(BUILDS.relaxed), 'relaxed-threads': wrongBuild(BUILDS['relaxed-threads']) };
    const probe = probeWhereFast('relaxed');
    for (const build of /** @type {const} */ ([undefined, 'relaxed'])) {
      const { info, ids } = await run({ threads, build, wasmUrl: { ...BUILDS, ...wrong, probe } });
      assert.equal(info.build, 'simd128');
      assert.match(info.reason, /self test of the relaxed kernels failed/);
      assert.deepEqual(ids, (await run({ threads: 1 })).ids);
    }
  });

test('a build that fails its self-test is not used', async () => {
  const wrong = { relaxed: wrongBuild(BUILDS.relaxed), simd128: wrongBuild(BUILDS.simd128) };
  const refused = (/** @type {string} */ kernels) => ({
    code: 'NO_ENGINE',
    message: `the self test of the ${kernels} kernels failed on this machine`,
  });
  await assert.rejects(createEngine({ threads: 1, wasmUrl: wrong }), refused('simd128'));
  await assert.rejects(createEngine({ threads: 1, build: 'simd128', wasmUrl: wrong }), refused('simd128'));
  await assert.rejects(
    createEngine({ threads: 1, wasmUrl: wrong.relaxed }),
    refused('relaxed'),
    'one address is one build',
  );
});

test('a requested build is not measured; without a probe relaxed SIMD is used', async (t) => {
  countCpuTime(t);
  const slow = { ...BUILDS, probe: probeWhereFast('simd128') };
  assert.equal(await measureBuilds({ wasmUrl: slow }), 'simd128');
  for (const build of MEASURED_BUILDS) {
    assert.equal(await measureBuilds({ build, wasmUrl: slow }), undefined);
    const engine = await createEngine({ threads: 1, build, wasmUrl: slow });
    assert.equal(engine.info.build, build);
    await engine.close();
  }
  assert.equal(await measureBuilds({ wasmUrl: { relaxed: BUILDS.relaxed, simd128: BUILDS.simd128 } }), undefined);
  const nothing = new URL('./nothing.wasm', import.meta.url);
  assert.equal(await measureBuilds({ wasmUrl: { ...BUILDS, probe: nothing } }), undefined);
});

test('wasmUrl can be a folder that contains all modules by name', async (t) => {
  setTimeouts(t, { threadStart: Infinity, threadsReady: Infinity });
  const folder = new URL('../../build/wasm/', import.meta.url);
  for (const named of [resolveBuilds(folder), resolveBuilds(folder.href)]) {
    const { length } = Object.keys(named).filter((name) => name.endsWith('-rare') && delete named[name]);
    assert.equal(length, 6);
    assert.deepEqual(named, BUILDS);
  }
  const engine = await createEngine({ threads: 2, wasmUrl: folder });
  assert.equal(engine.info.threads, 2);
  await engine.close();
});

test('the packaged probe multiplies like the kernels', async () => {
  const { instance } = await WebAssembly.instantiate(readFileSync(new URL(BUILDS.probe)));
  const { multiply } = /** @type {any} */ (instance.exports);
  assert.deepEqual(
    MEASURED_BUILDS.map((_, table) => multiply(table)),
    [0, 0, 0],
  );
  assert.ok(MEASURED_BUILDS.includes(fastestBuild(multiply)));
});
