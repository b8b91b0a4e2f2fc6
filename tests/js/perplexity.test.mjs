// Tests of `bq4 perplexity`: results equal those of transformers for the same weights and text (tests/golden/make_perplexity.py).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { windowsOf } from '../../bin/commands/perplexity.js';
import { convert } from '../../js/convert/index.js';
import { tinyModel } from './fixture.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TINY = join(ROOT, 'tests/golden/tiny');
const GOLDEN = JSON.parse(readFileSync(join(ROOT, 'tests/golden/perplexity.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'bq4-perplexity-test-'));
const [text, coarse, plain, other] = ['text.txt', 'coarse', 'tiny.bq4', 'other.bq4'].map((name) => join(folder, name));
after(() => rmSync(folder, { recursive: true }));

before(async () => {
  writeFileSync(text, GOLDEN.text);
  mkdirSync(coarse);
  for (const name of readdirSync(TINY)) {
    const bytes = readFileSync(join(TINY, name));
    // As the script has it: three bits of each f32's mantissa stay.
    if (name.endsWith('.safetensors'))
      for (let at = 8 + Number(bytes.readBigUInt64LE(0)); at < bytes.length; at += 4)
        bytes.writeUInt32LE((bytes.readUInt32LE(at) & 0xfff00000) >>> 0, at);
    writeFileSync(join(coarse, name), bytes);
  }
  await convert(TINY, plain, { quant: 'f32' });
  writeFileSync(other, await tinyModel());
});

/** @param {string[]} args */
const bq4 = (...args) =>
  spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), 'perplexity', ...args], { encoding: 'utf8' });

/** @param {number} a @param {number} b @param {number} share */
const near = (a, b, share) => assert.ok(Math.abs(a / b - 1) < share, `${a}, not ${b}`);

for (const { context, stride, predicted, perplexity, against } of GOLDEN.measured)
  test(`windows of ${context}, one every ${stride}: perplexity and what another model differs`, () => {
    const sizes = ['--context', String(context), '--stride', String(stride), '--kv', 'f32', '--threads', '1', '--json'];
    const { status, stdout, stderr } = bq4(coarse, text, '--against', plain, ...sizes);
    assert.equal(status, 0, stderr);
    const found = JSON.parse(stdout);
    assert.deepEqual([found.tokens, found.context, found.stride], [GOLDEN.ids.length, context, stride]);
    assert.equal(found.predicted, predicted);
    near(found.perplexity, perplexity, 1e-5);
    near(found.against.perplexity, against.perplexity, 1e-5);
    near(found.against.kl, against.kl, 1e-3);
    assert.equal(found.against.agreement, against.agreement);
  });

test('perplexity compares a model with itself, in texts and with fewer tokens', () => {
  const { status, stdout, stderr } = bq4(plain, text, '--against', plain, '--tokens', '50', '--threads', '1');
  assert.equal(status, 0, stderr);
  assert.match(stdout, /49 predicted, in windows of 256 with a stride of 128\n/);
  assert.match(stdout, /mean KL +0\.000000\n/);
  assert.match(stdout, /the same for 100\.00 %\n/);
  const short = bq4(plain, text, '--context', '1');
  assert.deepEqual([short.status, /a context of at least 2 tokens, found 1\n/.test(short.stderr)], [2, true]);
});

test('each token is predicted once, with enough tokens before it', () => {
  for (const [n, context, stride] of [
    [1, 8, 4],
    [2, 8, 4],
    [8, 8, 4],
    [9, 8, 4],
    [100, 8, 7],
    [100, 64, 1],
  ]) {
    const scored = windowsOf(n, context, stride).flatMap(({ from, scored: first, end }) => {
      assert.ok(end - from <= context && (from === 0 || first - from >= context - stride), `${n} ${from} ${first}`);
      return Array.from({ length: end - first }, (_, i) => first + i);
    });
    assert.deepEqual(
      scored,
      Array.from({ length: n - 1 }, (_, i) => i + 1),
    );
  }
});

test('unsupported options are refused by name', () => {
  const empty = join(folder, 'empty.txt');
  writeFileSync(empty, '');
  /** @type {[string[], number, RegExp][]} */
  const wrong = [
    [[plain], 2, /expected FILE TEXT, found 1 argument/],
    [[plain, join(folder, 'none.txt')], 1, /READ.*none\.txt/s],
    [[plain, empty], 1, /expected at least 2/],
    [[plain, text, '--stride', '256'], 2, /--stride: expected an integer from 1 to 255, found "256"/],
    [[plain, text, '--against', other], 1, /MISMATCH.*vocabulary of 300/s],
    [[join(ROOT, 'tests/golden/fixtures/bert'), text], 1, /tokenizer|embedding model/],
  ];
  for (const [args, status, why] of wrong) {
    const found = bq4(...args);
    assert.match(found.stderr, why);
    assert.equal(found.status, status, args.join(' '));
  }
});
