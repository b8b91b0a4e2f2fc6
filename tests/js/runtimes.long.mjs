// Tests of the installed package in the oldest supported versions of Node, in Deno and in Bun: the library and the command line.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';
import { appFolder, consumers, programs } from '../consumers/install.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MODEL = join(ROOT, 'models/chat.bq4');
const exec = promisify(execFile);

/** Arguments before a script's name. @type {Record<string, string[]>} */
const RUNTIMES = {
  node20: [],
  node22: [],
  bun: [],
  deno: ['run', '--allow-all', '--node-modules-dir=manual'],
};

describe('the package, run by', () => {
  /** @type {string} */
  let above;
  /** @type {ReturnType<typeof appFolder>} */
  let app;
  /** @type {number[]} */
  let ids;
  before(
    async () => {
      above = await consumers();
      app = appFolder(above);
      cpSync(join(ROOT, 'tests/consumers/run.mjs'), join(app.folder, 'run.mjs'));
      const engine = await createEngine({ threads: 1 });
      const model = await engine.load(fromFile(MODEL), { contextTokens: 64 });
      ({ tokens: ids } = await model.generate('Once', { temperature: 0, maxTokens: 8 }).result);
      await engine.close();
    },
    { timeout: 600_000 },
  );
  after(() => app?.remove());

  for (const [name, words] of Object.entries({ ...RUNTIMES, 'this Node': [] }))
    test(name, async () => {
      const program = programs(above)[/** @type {'bun'} */ (name)] ?? process.execPath;
      const run = (/** @type {string[]} */ ...line) => exec(program, [...words, ...line], { cwd: app.folder });
      const { stdout, stderr } = await run('run.mjs', MODEL);
      const says = { ids, paged: ids, residency: 'paged', threads: 2 };
      assert.deepEqual(JSON.parse(stdout), { own: says, worker: says }, stderr);
      assert.equal(stderr, '');
      const cli = ['node_modules/bq4/dist/cli.js', 'run', MODEL, 'Once', '--temperature', '0', '--max-tokens', '8'];
      assert.deepEqual(JSON.parse((await run(...cli, '--json')).stdout).tokens, ids);
    });
});
