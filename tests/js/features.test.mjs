import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { pickBuild, RELAXED, SIMD128 } from '../../js/wasm/build-choice.js';

test('each probe is a valid module with exactly the tested instructions', () => {
  assert.ok(WebAssembly.validate(SIMD128));
  // fd 0f is i8x16.splat, fd 93 02 is opcode 0x113: 0x13 | 0x80, then 2 (LEB128).
  assert.deepEqual([...SIMD128.slice(-3)], [0xfd, 0x0f, 0x0b]);
  assert.deepEqual([...RELAXED.slice(-4)], [0xfd, 0x93, 0x02, 0x0b]);
  const count = [...RELAXED].filter((byte, i) => byte === 0xfd && RELAXED[i + 1] === 0x0f).length;
  assert.equal(count, 3, 'the relaxed dot has three operands');
});

test('damaged probes fail validation', () => {
  const unknown = Uint8Array.from(SIMD128);
  unknown[unknown.length - 2] = 0x9a; // fd 9a: no such instruction
  assert.ok(!WebAssembly.validate(unknown));
  const untyped = Uint8Array.from(SIMD128);
  untyped[14] = 0x7f; // the function now promises an i32
  assert.ok(!WebAssembly.validate(untyped));
  assert.ok(!WebAssembly.validate(SIMD128.slice(0, -1)));
});

test('the relaxed probe distinguishes a V8 with relaxed SIMD from one without', () => {
  const program = `import(${JSON.stringify(new URL('../../js/wasm/build-choice.js', import.meta.url).href)})
    .then((f) => console.log(WebAssembly.validate(f.SIMD128), WebAssembly.validate(f.RELAXED), f.pickBuild().build))`;
  const run = (...flags) => spawnSync(process.execPath, [...flags, '-e', program], { encoding: 'utf8' }).stdout.trim();
  const help = spawnSync(process.execPath, ['--v8-options'], { encoding: 'utf8' }).stdout;
  if (help.includes('--experimental-wasm-relaxed-simd ')) {
    // Node 20: behind a flag.
    assert.equal(run(), 'true false simd128');
    assert.equal(run('--experimental-wasm-relaxed-simd'), 'true true relaxed');
  } else {
    assert.equal(run(), 'true true relaxed');
  }
});

test('chooseBuild returns a build and the reason', () => {
  const has =
    (...probes) =>
    (bytes) =>
      probes.includes(bytes);
  assert.deepEqual(pickBuild(undefined, has(SIMD128, RELAXED)), {
    build: 'relaxed',
    reason: 'relaxed SIMD is available',
  });
  assert.deepEqual(pickBuild(undefined, has(SIMD128)), {
    build: 'simd128',
    reason: 'relaxed SIMD is not available here',
  });
  assert.deepEqual(pickBuild('simd128', has(SIMD128, RELAXED)), {
    build: 'simd128',
    reason: 'requested by the option build',
  });
  assert.equal(pickBuild('relaxed16', has(SIMD128, RELAXED)).build, 'relaxed16');
  assert.throws(() => pickBuild('relaxed16', has(SIMD128)), { code: 'NO_SIMD' });
  assert.throws(() => pickBuild('relaxed', has(SIMD128)), { code: 'NO_SIMD' });
});

test('a browser without SIMD gives an error that names browsers with SIMD', () => {
  assert.throws(
    () => pickBuild(undefined, () => false),
    (/** @type {any} */ e) =>
      e.code === 'NO_SIMD' && /Chrome.* 100/.test(e.hint) && /Firefox 114/.test(e.hint) && /Safari 16\.4/.test(e.hint),
  );
});
