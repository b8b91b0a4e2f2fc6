// Tests of interrupted conversions: they continue at the same position and write the same bytes as without an interruption; a state that
// does not match is discarded.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CONFIG, hfConfig, hfFolder, randomWeights } from './checkpoints.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-resume-'));
after(() => rmSync(folder, { recursive: true }));
// 40 MB as f32 in ten layers.
const config = { ...CONFIG, layers: 10, hidden: 256, ffn: 1024, vocab: 512 };
const input = hfFolder(join(folder, 'in'), randomWeights(config), { config: hfConfig(config), dtype: 'F32' });
const script = `
  import { convert } from ${JSON.stringify(new URL('../../js/convert/index.js', import.meta.url).href)};
  const [from, to, at, hash] = process.argv.slice(1);
  let first = -1;
  const onProgress = (done, total) => {
    if (first < 0) first = done / total;
    if (done / total > Number(at)) process.kill(process.pid, 'SIGKILL');
  };
  const report = await convert(from, to, { quant: 'f32', hash, onProgress });
  console.log(JSON.stringify({ first, report }));`;

/** @param {string} to @param {number} [at]  share of the work after which it is killed @param {string} [hash] */
function run(to, at = 2, hash = 'xxh64') {
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', script, input, to, String(at), hash],
    { encoding: 'utf8' },
  );
  assert.equal(at > 1 ? status : signal, at > 1 ? 0 : 'SIGKILL', stderr);
  return at > 1 ? JSON.parse(stdout) : null;
}
/** Without the random id, and the sums over it. @param {string} path */
function comparable(path) {
  const bytes = readFileSync(path);
  const prefix = Number(bytes.readBigUInt64LE(24));
  bytes.fill(0, 40, 64);
  const sum = bytes.lastIndexOf('SUM8', prefix);
  return bytes.fill(0, sum + 16, sum + 24);
}
const whole = join(folder, 'whole.bq4');
const { report: wanted } = run(whole);

for (const hash of ['xxh64', 'sha256']) {
  test(`killed twice, ${hash}: the last run begins late, and makes the same file and report`, () => {
    const out = join(folder, `${hash}.bq4`);
    const same = join(folder, `whole-${hash}.bq4`);
    run(same, 2, hash);
    run(out, 0.45, hash);
    assert.deepEqual(
      [existsSync(out), existsSync(`${out}.part`), existsSync(`${out}.part.journal`)],
      [false, true, true],
    );
    run(out, 0.8, hash);
    const { first, report } = run(out, 2, hash);
    assert.ok(first > 0.5, `begun at ${first}`);
    assert.ok(comparable(out).equals(comparable(same)));
    assert.deepEqual(report.tensors, wanted.tensors);
    assert.ok(!readdirSync(folder).some((name) => name.includes('.part')), 'nothing beside it');
  });
}

test('a changed partial file, a truncated journal or another input is converted again from an earlier position', () => {
  const out = join(folder, 'changed.bq4');
  run(out, 0.7);
  const part = readFileSync(`${out}.part`);
  part[3_000_000] ^= 1;
  writeFileSync(`${out}.part`, part);
  assert.ok(run(out).first < 0.2);
  assert.ok(comparable(out).equals(comparable(whole)));
  run(out, 0.7);
  writeFileSync(`${out}.part.journal`, readFileSync(`${out}.part.journal`).subarray(0, -20));
  const { first } = run(out);
  assert.ok(first > 0.05 && first < 0.7, `begun at ${first}`);
  assert.ok(comparable(out).equals(comparable(whole)));
  run(out, 0.7);
  utimesSync(join(input, 'model.safetensors'), new Date(), new Date(Date.now() + 5000));
  assert.ok(run(out).first < 0.2);
  assert.ok(comparable(out).equals(comparable(whole)));
});
