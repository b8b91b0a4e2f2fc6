// Tests of the packed package, installed by npm without a network: the first code example of README.md with its bare import, and the
// command.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { pack } from '../browser/packed.mjs';
import { modelServer, writeScript } from './readme.mjs';

const run = promisify(execFile);

test(
  'npm install of the tarball, a bare import and an address: SmolLM2 says Paris',
  { skip: realModel('smollm2') ? false : NO_REAL_MODEL },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'bq4-install-'));
    t.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, 'package.json'), '{ "name": "app", "private": true }\n');
    await run('npm', ['install', '--offline', '--no-audit', '--no-fund', pack(folder)], { cwd: folder });
    assert.deepEqual(
      readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.')),
      ['bq4'],
      'it depends on nothing',
    );
    assert.ok(existsSync(join(folder, 'node_modules/bq4/build/types/js/index.d.ts')), 'types');
    const { stdout } = await run(process.execPath, [writeScript(folder, await modelServer(t))], { cwd: folder });
    assert.match(stdout, /Paris/);
    const help = await run('npx', ['--no-install', 'bq4', '--help'], { cwd: folder });
    assert.match(help.stdout, /bq4 run/);
  },
);
