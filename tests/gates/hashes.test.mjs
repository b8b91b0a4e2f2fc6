// Tests that the package contains the hash of each module.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { wasmHashes } from '../../tools/size.mjs';

test('the package contains the SHA-256 of each module', () => {
  const listed = readFileSync(new URL('../../dist/SHA256SUMS', import.meta.url), 'utf8');
  assert.equal(listed, wasmHashes());
  assert.match(listed, /^[0-9a-f]{64} {2}\.\.\/build\/wasm\/bq4-relaxed\.wasm$/m);
});
