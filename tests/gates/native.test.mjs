// Tests of the system functions that c/ uses: only memory and string functions. So there is no libm (its results differ between platforms),
// no allocation, no files, no clocks, no exit, and no global variables.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const LIBRARY = fileURLToPath(new URL('../../build/native/libbq4.a', import.meta.url));
const ALLOWED = new Set(['memcpy', 'memmove', 'memset', 'memcmp', 'memchr', 'strlen', 'strcmp', 'strncmp']);
/** Of compilers that protect the stack or link position-independent code by default. */
const COMPILER = new Set(['__stack_chk_fail', '_GLOBAL_OFFSET_TABLE_']);

const symbols = execFileSync('nm', ['-P', '-A', LIBRARY], { encoding: 'utf8', maxBuffer: 1 << 26 })
  .split('\n')
  .filter(Boolean)
  .map((line) => /^\S*\[(\S+)\]: (\S+) (\S)/.exec(line)?.slice(1) ?? assert.fail(line));

test('c/ calls only memory and string functions of the system', () => {
  const defined = new Set(symbols.filter(([, , kind]) => kind !== 'U').map(([, name]) => name));
  const foreign = symbols.filter(
    ([, name, kind]) => kind === 'U' && !defined.has(name) && !ALLOWED.has(name) && !COMPILER.has(name),
  );
  assert.deepEqual(
    foreign.map(([file, name]) => `${file}: ${name}`),
    [],
  );
});

test('c/ has no variables outside functions', () => {
  const variables = symbols.filter(([, , kind]) => /[bBdDcCsSgG]/.test(kind));
  assert.deepEqual(
    variables.map(([file, name]) => `${file}: ${name}`),
    [],
  );
});

test('public names of c/ begin with bq_', () => {
  const visible = symbols.filter(([, name, kind]) => /[A-TV-Z]/.test(kind) && !name.startsWith('bq_'));
  assert.deepEqual(
    visible.map(([file, name]) => `${file}: ${name}`),
    [],
  );
});

test('all headers of c/ can be included in one file, in either order', () => {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const headers = readdirSync(join(root, 'c'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.h'))
    .filter((name) => !/^kernels\/(simd|relaxed)/.test(name)) // they include wasm_simd128.h
    .sort();
  assert.ok(headers.length > 40);
  for (const list of [headers, headers.toReversed()])
    execFileSync(
      process.env.GCC ?? 'gcc',
      ['-std=c11', '-Wall', '-Wextra', '-Werror', '-Ic', '-fsyntax-only', '-xc', '-'],
      {
        cwd: root,
        input: list.map((name) => `#include "${name}"\n`).join(''),
      },
    );
});
