// Tests of `npm install git+…`: npm clones the repository, runs `prepare`, which builds the package, and packs it. The installed package
// runs, and its modules have the same bytes as those built here. npm in a checkout builds nothing.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MODEL = join(ROOT, 'models/chat.bq4');
const folder = mkdtempSync(join(tmpdir(), 'bq4-git-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const run = promisify(execFile);

/** A repository of what this checkout has, committed or not. */
function repository() {
  const place = join(folder, 'repository');
  const git = (/** @type {string[]} */ ...words) => execFileSync('git', words, { cwd: place, stdio: 'ignore' });
  const names = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT })
    .toString()
    .split('\0')
    .filter((name) => name && existsSync(join(ROOT, name)));
  for (const name of names) {
    mkdirSync(dirname(join(place, name)), { recursive: true });
    cpSync(join(ROOT, name), join(place, name));
  }
  git('init', '-q');
  git('add', '-A');
  git('-c', 'user.name=bq4', '-c', 'user.email=bq4@bq4.invalid', 'commit', '-q', '-m', 'what is here');
  return pathToFileURL(place).href;
}

const SCRIPT = `import { createEngine, fromFile } from 'bq4/node';
const engine = await createEngine({ threads: 1 });
const model = await engine.load(fromFile(process.argv[2]), { contextTokens: 64 });
console.log(JSON.stringify((await model.generate('Once', { temperature: 0, maxTokens: 8 }).result).tokens));
await engine.close();
`;

// npm fetches what package.json names, and everything is compiled.
test(
  'npm install git+file://…: all that the package has, modules of the same bytes as those built here, and it runs',
  { timeout: 600_000 },
  async () => {
    const place = join(folder, 'app');
    mkdirSync(place);
    writeFileSync(join(place, 'package.json'), '{ "name": "app", "private": true, "type": "module" }\n');
    await run('npm', ['install', '--no-audit', '--no-fund', `git+${repository()}`], { cwd: place });
    writeFileSync(join(place, 'app.js'), SCRIPT);
    const { stdout } = await run(process.execPath, ['app.js', MODEL], { cwd: place });
    const engine = await createEngine({ threads: 1 });
    const model = await engine.load(fromFile(MODEL), { contextTokens: 64 });
    const { tokens: ids } = await model.generate('Once', { temperature: 0, maxTokens: 8 }).result;
    await engine.close();
    assert.deepEqual(JSON.parse(stdout), ids);
    const installed = join(place, 'node_modules/bq4');
    assert.ok(existsSync(join(installed, 'build/types/js/index.d.ts')), 'types');
    assert.ok(!existsSync(join(installed, 'js')), 'as it is packed');
    // Compiled anew, in another folder.
    const modules = readdirSync(join(ROOT, 'build/wasm')).filter((name) => name.endsWith('.wasm'));
    assert.ok(modules.length > 10);
    for (const name of modules) {
      const [here, there] = [ROOT, installed].map((at) => readFileSync(join(at, 'build/wasm', name)));
      assert.ok(here.equals(there), `${name} differs`);
    }
    const cli = await run('npx', ['--no-install', 'bq4', 'run', MODEL, 'Once', '--max-tokens', '3', '--json'], {
      cwd: place,
    });
    assert.equal(JSON.parse(cli.stdout).tokens.length, 3);
  },
);
