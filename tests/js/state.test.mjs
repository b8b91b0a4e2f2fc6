// Tests of sessions at the ABI: forks, and saved sessions, which another instance of the same file continues.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MORE, OK } from '../../js/wasm/abi.js';
import { tinyModel } from './fixture.mjs';
import { openLogits } from './logits.mjs';

const PIECE = 10_000;
const prompt = Array.from({ length: 300 }, (_, i) => (i * 7) % 40);
const bytes = await tinyModel({ config: { context: 512 } });

/** @param {Awaited<ReturnType<typeof openLogits>>} opened */
function save({ wasm, session }) {
  const saved = new Uint8Array(wasm.call('bqw_session_state_bytes', session));
  wasm.scope((take) => {
    const at = take(PIECE);
    for (let i = 0; i < saved.length; i += PIECE) {
      const n = Math.min(PIECE, saved.length - i);
      wasm.check('bqw_session_save', session, i, at, n);
      saved.set(wasm.bytes(at, n), i);
    }
  });
  return saved;
}

/** @param {Awaited<ReturnType<typeof openLogits>>} opened @param {Uint8Array} saved */
function restore({ wasm, session }, saved) {
  return wasm.scope((take) => {
    const at = take(PIECE);
    let status = MORE;
    for (let i = 0; i < saved.length && status === MORE; i += PIECE) {
      const part = saved.subarray(i, i + PIECE);
      wasm.bytes(at, part.length).set(part);
      status = wasm.check('bqw_session_restore', session, at, part.length);
    }
    return status;
  });
}

for (const kv of /** @type {const} */ (['f32', 'f16', 'i8', 'i4', 'i2'])) {
  test(`another instance continues a saved session with the same bits, for any context: ${kv}`, async () => {
    const one = await openLogits({ kind: 'bytes', bytes }, { kv });
    const logits = one.start(prompt);
    const other = await openLogits({ kind: 'bytes', bytes }, { kv, contextTokens: 301, threads: 2 });
    assert.equal(restore(other, save(one)), OK);
    assert.deepEqual(other.run(), logits);
    assert.deepEqual(other.next(5), one.next(5));
    one.close();
    other.close();
  });
}

test('a session saved with another model or type is refused; a truncated one is reported as incomplete', async () => {
  const one = await openLogits({ kind: 'bytes', bytes });
  one.start(prompt);
  const saved = save(one);
  const another = await openLogits({ kind: 'bytes', bytes: await tinyModel({ config: { context: 512 } }) });
  const i8 = await openLogits({ kind: 'bytes', bytes }, { kv: 'i8' });
  saved[8] ^= 1;
  assert.throws(() => restore(another, saved), { code: 'MISMATCH', message: /another model/ });
  saved[8] ^= 1;
  assert.throws(() => restore(i8, saved), { code: 'MISMATCH', message: /KV cache type 0, this one has 2/ });
  assert.equal(restore(one, saved.subarray(0, -1)), MORE);
  for (const { close } of [one, another, i8]) close();
});

test('a fork continues independently', async () => {
  const one = await openLogits({ kind: 'bytes', bytes }, { sessions: 2 });
  const alone = one.another();
  const start = prompt.slice(0, 200); // the fork needs blocks of its own: none is planned
  one.start(start);
  alone.start(start);
  one.wasm.call('bqw_session_free', alone.session);
  const fork = one.wasm.out('bqw_session_fork', one.session);
  const local = one.next(3);
  one.wasm.check('bqw_session_append', fork, 3);
  while (one.wasm.check('bqw_session_run', fork, 0) !== OK);
  const theirs = one.wasm.f32(one.wasm.out('bqw_session_logits', fork), local.length);
  assert.deepEqual(theirs.slice(), local);
  one.wasm.check('bqw_session_free', fork);
  one.close();
});
