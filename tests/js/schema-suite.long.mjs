// Compares structured output with other programs: draft 7 of JSON-Schema-Test-Suite with ajv, and the masks with llguidance.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { runSuite } from '../tools/schema_suite.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PYTHON = process.env.BQ4_PYTHON ?? 'python3';
const SUITE = join(process.env.BQ4_SHARED ?? join(ROOT, '../shared'), 'data/json/schema-draft7');

test(
  'draft 7: 95 of 100 groups compile, and ajv accepts every text',
  { skip: existsSync(SUITE) ? false : `no ${SUITE}` },
  async (t) => {
    const { groups, compiled, texts, invalid, refused } = await runSuite(SUITE, 8);
    t.diagnostic(`${compiled} of ${groups} groups, ${texts} texts`);
    assert.deepEqual(invalid, []);
    assert.ok(groups >= 257, `only ${groups} groups were found`);
    assert.ok(compiled >= 0.95 * groups, refused.join('\n'));
    // Refused by name: none for an error of another kind.
    for (const one of refused) assert.match(one, /support/);
  },
);

const real = realModel('smollm2');
const lacks =
  spawnSync(PYTHON, ['-c', 'import llguidance, numpy']).status !== 0 &&
  `${PYTHON} lacks the packages llguidance and numpy (tools/requirements-test.txt)`;

test(
  "masks over SmolLM2's vocabulary are llguidance's, but for what compare.py names",
  { skip: real ? lacks : NO_REAL_MODEL },
  (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'bq4-masks-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const tool = (/** @type {string} */ name) => join(ROOT, 'tests/tools/masks', name);
    execFileSync(process.execPath, [tool('walk.mjs'), /** @type {string} */ (real), folder]);
    const { status, stdout, stderr } = spawnSync(PYTHON, ['-B', tool('compare.py'), folder], { encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
    t.diagnostic(stdout.trim());
    assert.ok(Number(/^\d+/.exec(stdout)?.[0]) > 500, stdout);
  },
);
