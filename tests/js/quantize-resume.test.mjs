// Tests of interrupted runs of `quantize`: it continues after the complete tensors, and writes the same bytes and report as without an
// interruption.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { tinyModel } from './fixture.mjs';
import { testFolder } from './folders.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { fresh } = testFolder('quantize-resume');
// As small as leaves several notes of the journal: one is made every 256 KB of the quantized file.
const MODEL = join(fresh(), 'model.bq4');
const SHAPE = { hidden: 192, layers: 5, heads: 3, kv_heads: 3, ffn: 512 };
writeFileSync(MODEL, await tinyModel({ config: SHAPE, type: 'bq8' }));
const TEXT = readFileSync(join(root, 'README.md'), 'utf8').slice(0, 2000);
const script = `
  import { withInput } from ${JSON.stringify(new URL('../../bin/model-input.js', import.meta.url).href)};
  import { quantize } from ${JSON.stringify(new URL('../../js/quantize/index.js', import.meta.url).href)};
  const [from, to, at, how, given] = process.argv.slice(1);
  const stop = new AbortController();
  const seen = { stages: [], kept: 0, all: 0 };
  const onProgress = (stage, done, total) => {
    if (!seen.stages.includes(stage)) seen.stages.push(stage);
    if ((stage !== 'write' && at >= 0) || done / total <= Number(at)) return;
    if (how === 'kill') process.kill(process.pid, 'SIGKILL');
    stop.abort();
  };
  const onKept = (kept, all) => Object.assign(seen, { kept, all });
  const options = { tokens: 64, ...JSON.parse(given), onProgress, onKept, signal: stop.signal };
  try {
    seen.report = await withInput(from, undefined, (input) => quantize(input, to, options));
  } catch (error) {
    if (error !== stop.signal.reason) throw error;
    seen.stopped = true;
  }
  console.log(JSON.stringify(seen));`;

/**
 * @param {string} to @param {object} options  of quantize
 * @param {{ at?: number, how?: 'kill' | 'stop' }} [end]  the share of the file behind which it ends; −1: before anything is read
 */
function run(to, options, { at = 2, how = 'kill' } = {}) {
  const { signal, status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      script,
      ...[MODEL, to, String(at), how],
      JSON.stringify({ calibrate: TEXT, threads: 1, ...options }),
    ],
    { encoding: 'utf8' },
  );
  if (at < 2 && how === 'kill') assert.equal(signal, 'SIGKILL', stderr);
  else assert.equal(status, 0, stderr);
  return stdout ? JSON.parse(stdout) : null;
}

/** @template T @param {() => T} make @returns {() => T} */
function once(make) {
  /** @type {T | undefined} */
  let output;
  return () => (output ??= make());
}
const names = (/** @type {string} */ folder) => readdirSync(folder).sort();

for (const { name, ...options } of [
  { name: 'in order, by two threads, then one', quant: 'bq4h', threads: 2 },
  { name: 'compensated', quant: 'bq3a', method: 'gptq' },
  { name: 'of chosen types', targetSize: 1_250_000, tokens: 16 },
])
  test(`killed, then stopped: ${name}`, () => {
    const folder = fresh();
    const [whole, out] = ['whole.bq4', 'out.bq4'].map((file) => join(folder, file));
    const wanted = run(whole, options);
    assert.equal(wanted.kept, 0);
    run(out, options, { at: 0.6 });
    assert.deepEqual([existsSync(out), existsSync(`${out}.part`)], [false, true]);
    const second = run(out, options, { at: 0.8, how: 'stop' });
    assert.ok(second.stopped && second.kept > 4, JSON.stringify(second));
    assert.deepEqual(names(folder), ['out.bq4.part', 'out.bq4.part.journal', 'whole.bq4']);
    const last = run(out, { ...options, threads: 1 });
    assert.ok(last.kept > second.kept && last.kept < last.all, JSON.stringify(last.kept));
    assert.ok(!last.stages.includes('choose'), 'types are known');
    assert.deepEqual({ ...last.report, output: '' }, { ...wanted.report, output: '' });
    assert.ok(readFileSync(out).equals(readFileSync(whole)));
    assert.deepEqual(names(folder), ['out.bq4', 'whole.bq4']);
  });

const options = { quant: 'bq4h', method: 'search' };

/** The files of a killed run, in a folder of its own, beside the finished file. */
function killed() {
  const folder = fresh();
  const [whole, out] = ['whole.bq4', 'out.bq4'].map((file) => join(folder, file));
  writeFileSync(whole, searched());
  const writeParts = () => partialFiles().forEach((bytes, i) => writeFileSync(`${out}${PART_ENDINGS[i]}`, bytes));
  writeParts();
  return { folder, whole: readFileSync(whole), out, part: `${out}.part`, journal: `${out}.part.journal`, writeParts };
}
const PART_ENDINGS = ['.part', '.part.journal'];
const partialFiles = once(() => {
  const out = join(fresh(), 'out.bq4');
  run(out, options, { at: 0.6 });
  return PART_ENDINGS.map((end) => readFileSync(`${out}${end}`));
});
const searched = once(() => {
  const whole = join(fresh(), 'whole.bq4');
  run(whole, options);
  return readFileSync(whole);
});

test('a journal of another text or other options is discarded and started again', () => {
  const { folder, out, writeParts } = killed();
  assert.equal(run(out, { ...options, calibrate: `${TEXT}.` }).kept, 0);
  writeParts();
  // Another one's part isn't left even where nothing comes of this.
  assert.ok(run(out, { ...options, tokens: 60 }, { at: -1, how: 'stop' }).stopped);
  assert.deepEqual(names(folder), ['out.bq4', 'whole.bq4']);
});

test('a changed partial file is started again; one that is too long is truncated', () => {
  const { folder, whole, out, part, writeParts } = killed();
  const bytes = readFileSync(part);
  bytes[Math.floor(0.3 * bytes.length)] ^= 1;
  writeFileSync(part, bytes);
  assert.equal(run(out, options).kept, 0);
  assert.ok(readFileSync(out).equals(whole));
  writeParts();
  writeFileSync(part, Buffer.concat([readFileSync(part), Buffer.alloc(5_000_000, 7)]));
  assert.ok(run(out, options).kept);
  assert.ok(readFileSync(out).equals(whole));
  assert.deepEqual(names(folder), ['out.bq4', 'whole.bq4']);
});

test('a truncated journal is continued; one with other lines is used up to these', () => {
  const { whole, out, journal } = killed();
  const text = readFileSync(journal, 'utf8');
  writeFileSync(journal, text.slice(0, -20));
  const { kept } = run(out, options, { at: 0.8, how: 'stop' });
  assert.ok(run(out, options, { at: 0.9, how: 'stop' }).kept > kept);
  writeFileSync(journal, `${text}null\n{"tensors":40}\n`);
  assert.ok(run(out, options).kept);
  assert.ok(readFileSync(out).equals(whole));
});

test('too little memory discards no finished work; files left by a kill are removed in the end', () => {
  const { folder, whole, out } = killed();
  writeFileSync(`${out}.part.floats.part`, 'x');
  assert.throws(
    () => run(out, { ...options, budget: 1e6 }),
    /calibration needs \d+ bytes of memory; the budget is \d+/,
  );
  assert.deepEqual(names(folder), ['out.bq4.part', 'out.bq4.part.journal', 'whole.bq4']);
  assert.ok(run(out, options).kept);
  assert.ok(readFileSync(out).equals(whole));
  assert.deepEqual(names(folder), ['out.bq4', 'whole.bq4']);
});

test('a stop before the first complete matrix leaves no file', () => {
  const folder = fresh();
  assert.ok(run(join(folder, 'out.bq4'), { quant: 'bq4h' }, { at: 0.001, how: 'stop' }).stopped);
  assert.deepEqual(names(folder), []);
});
