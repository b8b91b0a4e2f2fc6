// Tests of the ABI, which is defined in three places: in C (web/border.h, and two structs of c/bq.h), as a list for the linker
// (web/exports.txt) and as data for JavaScript (js/wasm/abi.js). The three must agree to the byte.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { KV_TYPES } from '../../js/shared/names.js';
import { ABI, functions, structs, THREADS, THREAD_STACK } from '../../js/wasm/abi.js';

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
/** The text of a header without comments and directives. @param {string} path */
const declarations = (path) =>
  read(path)
    .replace(/\/\*[^]*?\*\//g, '')
    .replace(/^#.*$/gm, '');
const header = declarations('web/border.h');
/** The structs of the public C interface that JavaScript writes, with pointers as u32. */
const publicStructs = declarations('c/bq.h')
  .match(/typedef struct (bq_logit_bias|bq_sample_options) \{[^}]*\} \1;/g)
  .join('\n')
  .replace('bq_logits_hook hook;', 'void *hook_ctx; void *hook_change;')
  .replace(/(?:const )?\w+ \*(\w+);/g, 'uint32_t $1;');

/** The letter of js/wasm/abi.js for a C type. */
const letter = (type) => {
  if (type.includes('*')) return 'u';
  const [name] = type.replace('const', '').trim().split(/\s+/);
  return { uint32_t: 'u', double: 'f', void: 'v' }[name];
};

test('functions of border.h, exports.txt and abi.js', () => {
  const declared = [...header.matchAll(/^\s*((?:const )?\w+ \*?)(bqw_\w+)\(([^)]*)\);/gm)].map(
    ([, result, name, args]) => {
      const letters = args.trim() === 'void' ? '' : args.split(',').map(letter).join('');
      return [name, letter(result) + letters];
    },
  );
  assert.ok(declared.length > 30, 'the header was understood');
  const ours = Object.entries(functions).map(([name, signature]) => [name, signature.replace('s', 'u')]);
  assert.deepEqual(Object.fromEntries(ours), Object.fromEntries(declared));
  const exported = read('web/exports.txt').split('\n').filter(Boolean);
  assert.deepEqual(exported, [...exported].sort(), 'exports.txt is sorted');
  assert.deepEqual(exported, Object.keys(functions).sort());
});

test('structs of C and abi.js have the same fields at the same offsets', () => {
  const found = {};
  for (const [, name, body] of (header + publicStructs).matchAll(/typedef struct (bqw?_\w+) \{([^}]*)\}/g)) {
    let end = 0;
    let align = 1;
    found[name] = [];
    for (const [, type, names] of body.matchAll(/(\w+) ([^;]+);/g)) {
      const bytes = { uint32_t: 4, float: 4, double: 8, char: 1 }[type];
      const kind = { uint32_t: 'u32', float: 'f32', double: 'f64', char: 'u8' }[type];
      for (const text of names.split(',')) {
        const [, field, count = '1'] = /(\w+)(?:\[(\d+)\])?/.exec(text);
        const offset = Math.ceil(end / bytes) * bytes;
        found[name].push({ name: field, kind, offset, count: Number(count) });
        end = offset + bytes * Number(count);
        align = Math.max(align, bytes);
      }
    }
    assert.equal(structs[name]?.size, Math.ceil(end / align) * align, `size of ${name}`);
    // Options of `generate` have their names in JavaScript.
    const fields = structs[name].fields.map((field) => ({
      ...field,
      name: field.name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    }));
    assert.deepEqual(fields, found[name], name);
  }
  assert.deepEqual(Object.keys(structs).sort(), Object.keys(found).sort());
});

test('border.h and abi.js have the same version of the ABI', () => {
  assert.equal(ABI, Number(/#define BQ_ABI (\d+)u/.exec(read('c/bq.h'))[1]));
});

test('kernels.h and names.js have the same types of the KV cache', () => {
  const rows = read('c/kernels/kernels.h').matchAll(/^ {2}(?:FLOATS|BYTES|PACKED)\(table, \w+, (\w+),/gm);
  assert.deepEqual(
    Array.from(rows, ([, name]) => name),
    KV_TYPES,
  );
});

test('border.h and abi.js have the same constants for threads', () => {
  const defined = (/** @type {string} */ name) =>
    Number(new RegExp(`#define ${name} (\\d+)u`).exec(read('web/border.h'))[1]);
  assert.deepEqual([THREADS, THREAD_STACK], [defined('BQW_THREADS'), defined('BQW_THREAD_STACK')]);
});
