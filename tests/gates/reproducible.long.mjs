// The modules are the same bytes whenever and wherever they are built with one emcc.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { wasmHashes } from '../../tools/size.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

test('built again in another folder, the modules are the same bytes', { timeout: 900_000 }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-rebuilt-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ['c', 'web', 'emscripten.mk']) cpSync(join(root, name), join(folder, name), { recursive: true });
  const built = spawnSync('make', ['-f', 'emscripten.mk', '-j2', '-s', 'wasm'], {
    cwd: folder,
    env: { ...process.env, MAKEFLAGS: '' },
    encoding: 'utf8',
  });
  assert.equal(built.status, 0, built.stderr);
  const names = readdirSync(join(root, 'build/wasm')).filter((name) => name.endsWith('.wasm'));
  assert.ok(names.length > 10);
  for (const name of names) {
    const [here, there] = [root, folder].map((at) => readFileSync(join(at, 'build/wasm', name)));
    assert.ok(here.equals(there), `${name} differs`);
  }
});

test('the package tells the SHA-256 of each module', () => {
  const listed = readFileSync(join(root, 'dist/SHA256SUMS'), 'utf8');
  assert.equal(listed, wasmHashes());
  assert.match(listed, /^[0-9a-f]{64} {2}\.\.\/build\/wasm\/bq4-relaxed\.wasm$/m);
});
