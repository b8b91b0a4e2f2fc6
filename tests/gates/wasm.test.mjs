// Tests of each shipped module: its size, its imports and exports, and that no instruction has a result that depends on the machine.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { quantizing } from '../../js/quantize/abi.js';
import {
  CONVERTER_MODULES,
  GRAMMAR_MODULE,
  GRAMMAR_LIMIT,
  MODULE_LIMIT,
  PROBE_MODULE,
  PROBE_LIMIT,
  OPTIONAL_KERNELS,
  OPTIONAL_KERNELS_LIMIT,
  moduleSizes,
} from '../../tools/size.mjs';
import { countChained, countOpcodes, relaxedOpcodes, sections } from './opcodes.mjs';

/** i32x4.relaxed_dot_i8x16_i7x16_add_s: exact as the kernels use it (docs/inside/architecture.md). */
const RELAXED_DOT = 'fd 113';
/** i16x8.relaxed_dot_i8x16_i7x16_s: so is this. */
const RELAXED16_DOT = 'fd 112';
/** What a build may have, by its name. @param {string} name */
const relaxedOf = (name) =>
  name.includes('relaxed16') ? [RELAXED16_DOT] : name.includes('relaxed') ? [RELAXED_DOT] : [];
/** i32x4.dot_i16x8_s */
const SIMD128_DOT = 'fd ba';
/** What emcc exports of its own accord; js/ never calls them. */
const EMCC_EXPORTS = /^(_?emscripten_stack_\w+|__indirect_function_table|stack(Save|Restore|Alloc))$/;

/** Only converters call these. */
const ENCODING = ['bqw_dequantize', 'bqw_encode'];

/** Of all modules: each is compressed once. */
const SIZES = moduleSizes();

const ROOT = new URL('../../', import.meta.url);
/** @param {string} path */
const read = (path) => readFileSync(new URL(path, ROOT));
const promised = read('web/exports.txt').toString().split('\n').filter(Boolean);

test('there are six builds with optional kernels, the probe, a module for grammars and two for converters', () => {
  assert.deepEqual(
    SIZES.map(({ name }) => name),
    [
      'bq4-convert-threads.wasm',
      'bq4-convert.wasm',
      GRAMMAR_MODULE,
      PROBE_MODULE,
      'bq4-relaxed-rare.wasm',
      'bq4-relaxed-threads-rare.wasm',
      'bq4-relaxed-threads.wasm',
      'bq4-relaxed.wasm',
      'bq4-relaxed16-rare.wasm',
      'bq4-relaxed16-threads-rare.wasm',
      'bq4-relaxed16-threads.wasm',
      'bq4-relaxed16.wasm',
      'bq4-simd128-rare.wasm',
      'bq4-simd128-threads-rare.wasm',
      'bq4-simd128-threads.wasm',
      'bq4-simd128.wasm',
    ],
  );
});

test('the probe is small, imports nothing and contains the dot product of each build', () => {
  const bytes = read(`build/wasm/${PROBE_MODULE}`);
  const { gzip = Infinity } = SIZES.find(({ name }) => name === PROBE_MODULE) ?? {};
  assert.ok(gzip < PROBE_LIMIT, `${gzip} bytes`);
  const module = new WebAssembly.Module(bytes);
  assert.deepEqual(WebAssembly.Module.imports(module), []);
  assert.ok(WebAssembly.Module.exports(module).some(({ name }) => name === 'multiply'));
  const opcodes = countOpcodes(bytes);
  assert.deepEqual([...relaxedOpcodes(bytes).keys()].sort(), [RELAXED16_DOT, RELAXED_DOT]);
  // As many multiplications with each: 2 passes of 16 with a relaxed instruction, 3 of 8 with the other.
  const simd128 = 3 * 8 * (opcodes.get(SIMD128_DOT) ?? 0);
  for (const dot of [RELAXED_DOT, RELAXED16_DOT]) assert.equal(2 * 16 * (opcodes.get(dot) ?? 0), simd128);
});

test('the module for grammars is small, imports nothing and has no instruction that depends on the machine', () => {
  const bytes = read(`build/wasm/${GRAMMAR_MODULE}`);
  const { gzip = Infinity } = SIZES.find(({ name }) => name === GRAMMAR_MODULE) ?? {};
  assert.ok(gzip < GRAMMAR_LIMIT, `${gzip} bytes`);
  assert.deepEqual(WebAssembly.Module.imports(new WebAssembly.Module(bytes)), []);
  assert.deepEqual([...relaxedOpcodes(bytes).keys()], []);
});

test('the list of exports is sorted and has no duplicates', () => {
  assert.deepEqual(promised, [...new Set(promised)].sort());
});

for (const { name, gzip } of SIZES.filter(({ name }) => OPTIONAL_KERNELS.test(name))) {
  const bytes = read(`build/wasm/${name}`);
  const module = new WebAssembly.Module(bytes);

  test(`${name} is under ${OPTIONAL_KERNELS_LIMIT} bytes gzipped`, () => {
    assert.ok(gzip < OPTIONAL_KERNELS_LIMIT, `${gzip} bytes`);
  });

  test(`${name} uses memory and table of its instance, and has no data`, () => {
    assert.deepEqual(
      WebAssembly.Module.imports(module).map(({ module: from, name, kind }) => `${from}.${name}: ${kind}`),
      [
        'env.__stack_pointer: global',
        'env.__table_base: global',
        'env.memory: memory',
        'env.__indirect_function_table: table',
      ],
    );
    assert.deepEqual(
      WebAssembly.Module.exports(module)
        .map(({ name }) => name)
        .filter((name) => name !== '__wasm_call_ctors'), // does nothing where there is no data
      ['bq_rare_matmul'],
    );
    // Sections 8 and 11: a function to begin with, data.
    assert.deepEqual(
      [...sections(bytes)].map(({ id }) => id).filter((id) => id === 8 || id === 11),
      [],
    );
  });

  test(`${name} uses SIMD, and no relaxed instruction but the exact dot product`, () => {
    assert.ok([...countOpcodes(bytes).keys()].some((opcode) => opcode.startsWith('fd ')));
    assert.deepEqual([...relaxedOpcodes(bytes).keys()], relaxedOf(name));
    if (!relaxedOf(name).includes(RELAXED_DOT)) return;
    const all = countOpcodes(bytes).get(RELAXED_DOT) ?? 0;
    assert.ok(countChained(bytes, RELAXED_DOT) < 0.03 * all, `${countChained(bytes, RELAXED_DOT)} of ${all}`);
  });
}

for (const { name, gzip } of SIZES.filter(
  ({ name }) => name !== PROBE_MODULE && name !== GRAMMAR_MODULE && !OPTIONAL_KERNELS.test(name),
)) {
  const bytes = read(`build/wasm/${name}`);
  const module = new WebAssembly.Module(bytes);
  const shared = name.includes('-threads');
  /** @param {number} pages */
  const memoryOf = (pages) => new WebAssembly.Memory({ initial: pages, maximum: pages, shared });

  if (!CONVERTER_MODULES.test(name))
    test(`${name} is under ${MODULE_LIMIT} bytes gzipped`, () => {
      assert.ok(gzip < MODULE_LIMIT, `${gzip} bytes`);
    });

  test(`${name} has one kernel table, its own`, () => {
    const tables = ['scalar', 'simd128', 'relaxed', 'relaxed16'].filter((table) => bytes.includes(`\0${table}\0`));
    assert.deepEqual(tables, [/relaxed\d*/.exec(name)?.[0] ?? 'simd128']);
  });

  test(`${name} imports only its memory, a clock and the stop request`, () => {
    assert.deepEqual(WebAssembly.Module.imports(module), [
      { module: 'env', name: 'now', kind: 'function' },
      { module: 'env', name: 'stop', kind: 'function' },
      { module: 'env', name: 'memory', kind: 'memory' },
    ]);
  });

  test(`${name} exports the functions of web/exports.txt`, () => {
    const exports = WebAssembly.Module.exports(module).filter(({ name }) => !EMCC_EXPORTS.test(name));
    const globals = exports
      .filter(({ kind }) => kind === 'global')
      .map(({ name }) => name)
      .sort();
    const functions = exports
      .filter(({ kind }) => kind === 'function')
      .map(({ name }) => name)
      .sort();
    assert.deepEqual(
      functions,
      CONVERTER_MODULES.test(name)
        ? [...promised, ...Object.keys(quantizing)].sort()
        : promised.filter((promise) => !ENCODING.includes(promise)),
    );
    assert.deepEqual(globals, ['__heap_base', '__stack_pointer']);
    assert.equal(exports.length, functions.length + globals.length);
  });

  test(`${name} uses SIMD, and no relaxed instruction but the exact dot product`, () => {
    assert.ok([...countOpcodes(bytes).keys()].some((opcode) => opcode.startsWith('fd ')));
    assert.deepEqual([...relaxedOpcodes(bytes).keys()], relaxedOf(name));
  });

  // One sum computed to its end before the next makes engines spill what the sums share: a third of
  // the speed (docs/log/speed.md). wasm-opt -O3 would do that; the compiler is kept from it by simd_pin.
  // Some 2 % come out so, in the loops for one token; with -O3 three quarters do.
  if (relaxedOf(name).includes(RELAXED_DOT))
    test(`${name} interleaves the dot products of several sums`, () => {
      const all = countOpcodes(bytes).get(RELAXED_DOT) ?? 0;
      assert.ok(countChained(bytes, RELAXED_DOT) < 0.03 * all, `${countChained(bytes, RELAXED_DOT)} of ${all}`);
    });

  test(`${name} ${shared ? 'has atomic instructions, including waits' : 'has no atomic instruction'}`, () => {
    const atomic = [...countOpcodes(bytes).keys()].filter((opcode) => opcode.startsWith('fe '));
    if (shared)
      for (const wanted of ['fe 0', 'fe 1']) assert.ok(atomic.includes(wanted), `notify and wait32: ${atomic}`);
    else assert.deepEqual(atomic, []);
  });

  if (shared)
    test(`${name} writes its data once, however many threads share it`, () => {
      const memory = memoryOf(100);
      const instance = () =>
        /** @type {any} */ (new WebAssembly.Instance(module, { env: { memory, now: Number, stop: Number } }).exports);
      const [first, early] = [instance(), instance()];
      const base = first.__heap_base.value;
      assert.equal(first.bqw_init(base, memory.buffer.byteLength - base), 0);
      for (const other of [early, instance()])
        assert.notEqual(other.bqw_init(base, memory.buffer.byteLength - base), 0, 'it is initialised already');
    });

  test(`${name} links with a memory of any size, which cannot grow`, () => {
    for (const pages of [16, 17, 1000]) {
      const memory = memoryOf(pages);
      const { exports } = new WebAssembly.Instance(module, { env: { memory, now: Number, stop: Number } });
      const [heap, stack] = [exports.__heap_base, exports.__stack_pointer].map(
        (g) => /** @type {WebAssembly.Global} */ (g).value,
      );
      assert.ok(stack <= heap && heap < 16 * 65536, `stack ${stack}, heap ${heap}`);
      assert.throws(() => memory.grow(1), RangeError);
    }
  });
}

test('the parser of modules finds each relaxed instruction', () => {
  // A function body of one instruction: v128 operands come from `unreachable`, which allows all types.
  for (let op = 0x100; op <= 0x113; op++) {
    const body = [0, 0x00, 0xfd, (op & 0x7f) | 0x80, op >> 7, 0x1a, 0x0b];
    const bytes = Uint8Array.from([
      0,
      0x61,
      0x73,
      0x6d,
      1,
      0,
      0,
      0,
      1,
      4,
      1,
      0x60,
      0,
      0,
      3,
      2,
      1,
      0,
      10,
      body.length + 2,
      1,
      body.length,
      ...body,
    ]);
    assert.ok(WebAssembly.validate(bytes), op.toString(16));
    assert.deepEqual([...relaxedOpcodes(bytes)], [[`fd ${op.toString(16)}`, 1]]);
  }
});
