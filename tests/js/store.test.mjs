// Tests of the store in Node: a directory, and memory. tests/browser/store.test.mjs tests it in browsers.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createEngine } from '../../js/node.js';
import { openStore } from '../../js/storage/cache/index.js';
import { encodeRecord, PREFIX, replay } from '../../js/storage/cache/layout.js';
import { lock } from '../../js/storage/cache/locks.js';
import { until } from '../waiting.mjs';
import { cases, digest, writeFile, makeFile, MIB, run } from './store-suite.mjs';
import { setTimeouts } from './timeouts.mjs';

const path = mkdtempSync(join(tmpdir(), 'bq4-store-'));
after(() => rmSync(path, { recursive: true }));
const mounts = mkdtempSync(join(tmpdir(), 'bq4-mounts-'));
after(() => rmSync(mounts, { recursive: true }));

for (const options of [{ backend: 'memory' }, { backend: 'file', path }]) {
  for (const name of Object.keys(cases)) test(`${options.backend}: ${name}`, () => run(name, options));
}

test('a record of the journal is valid only if it is complete and its hash matches', () => {
  const all = Buffer.concat([
    encodeRecord(0xffffffff, 7n),
    encodeRecord(0, 1n),
    encodeRecord(1, null),
    encodeRecord(2, 2n ** 64n - 1n),
    encodeRecord(0, undefined),
  ]);
  const right = new Map([
    [0xffffffff, 7n],
    [1, null],
    [2, 2n ** 64n - 1n],
  ]);
  assert.deepEqual(replay(all), right);
  assert.deepEqual(
    replay(all.subarray(0, -1)),
    new Map([
      [0xffffffff, 7n],
      [0, 1n],
      [1, null],
      [2, 2n ** 64n - 1n],
    ]),
    'torn',
  );
  assert.deepEqual(replay(new Uint8Array(77)), new Map(), 'zeros');
  for (let at = 0; at < all.length; at++) {
    const damaged = Buffer.from(all);
    damaged[at] ^= 64;
    const [index, hash] = /** @type {const} */ ([
      [0xffffffff, undefined],
      [0, undefined],
      [1, undefined],
      [2, undefined],
      [0, 1n],
    ])[Math.floor(at / 24)];
    const expected = new Map(right);
    if (hash === undefined) expected.delete(index);
    else expected.set(index, hash);
    assert.deepEqual(replay(damaged), expected, `byte ${at}`);
  }
});

test('directory: a truncated segment, an incomplete journal and a writer in another process are handled', async () => {
  const file = makeFile(30, 3);
  const options = { backend: /** @type {const} */ ('file'), path, name: 'harmed', hash: digest };
  let store = await openStore(options);
  await writeFile(store, file);
  const [{ key }] = await store.list();
  await store.close();
  const folder = join(path, 'harmed', key);
  const journal = join(folder, 'journal');
  truncateSync(join(folder, 's0'), 2 * MIB + 300);
  truncateSync(journal, 24 * 4 - 1);
  const there = async (/** @type {string} */ what, /** @type {boolean[]} */ expected) => {
    const entry = await store.open(file.options);
    assert.deepEqual(
      [0, 1, 2].map((c) => entry.has(c)),
      expected,
      what,
    );
    return entry;
  };
  store = await openStore(options);
  let entry = await there('both', [true, true, false]);
  await entry.drop(1); // is good, so it stays
  await entry.waitFor(1);
  assert.equal(statSync(journal).size, 24 * 4 - 1);
  await entry.write(2, file.data[2]);
  await store.close();
  assert.equal(statSync(journal).size, 24 * 4);

  store = await openStore(options);
  entry = await there('healed', [true, true, true]);
  await entry.close();
  truncateSync(journal, 24 * 3);
  writeFileSync(join(path, 'harmed', `${key}.lock`), String(process.ppid));
  entry = await there('being written elsewhere', [true, true, false]);
  assert.equal(entry.role, 'reader');
  await entry.close();
  await assert.rejects(store.delete(key), { code: 'IN_USE' });
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  writeFileSync(join(path, 'harmed', `${key}.lock`), String(pid)); // dead
  entry = await there('nobody writes', [true, true, false]);
  assert.equal(entry.role, 'writer');
  await entry.close();
  await store.delete(key);
  await store.close();
});

test('directory: a lock without a process id is handled', async () => {
  const options = { backend: /** @type {const} */ ('file'), path, name: 'nameless' };
  const store = await openStore(options);
  const file = makeFile(37, 1);
  await writeFile(store, file);
  const [{ key }] = await store.list();
  const lock = join(path, 'nameless', `${key}.lock`);
  truncateSync(join(path, 'nameless', key, 'journal'), 0);
  const role = async (/** @type {string} */ text, /** @type {number} */ seconds) => {
    writeFileSync(lock, text);
    utimesSync(lock, seconds, seconds);
    const entry = await store.open(file.options);
    const seen = entry.role;
    await entry.close();
    return seen;
  };
  // Killed before it was written.
  const now = Date.now() / 1000;
  for (const text of ['', 'x', '0', '-1', '1.5']) assert.equal(await role(text, now - 60), 'writer', `"${text}"`);
  // About to be written; on a machine that is too busy to look in time, look again.
  for (;;) {
    const since = Date.now();
    const seen = await role('', since / 1000);
    if (Date.now() - since > 1500) continue;
    assert.equal(seen, 'reader');
    break;
  }
  rmSync(lock);
  await store.clear();
  await store.close();
});

test('directory: a lock from another container or machine is valid while its time is updated', async (t) => {
  setTimeouts(t, { lockPing: 10 });
  const store = await openStore({ backend: 'file', path, name: 'containers' });
  const file = makeFile(39, 1);
  await writeFile(store, file);
  const [{ key }] = await store.list();
  const lock = join(path, 'containers', `${key}.lock`);
  truncateSync(join(path, 'containers', key, 'journal'), 0);
  const open = async (/** @type {string} */ text, /** @type {number} */ seconds) => {
    writeFileSync(lock, text);
    utimesSync(lock, seconds, seconds);
    return store.open(file.options);
  };
  const now = Date.now() / 1000;
  // The same id as this process, as in containers, and one that does not run here.
  for (const id of [process.pid, spawnSync(process.execPath, ['-e', '']).pid]) {
    const reader = await open(`${id} elsewhere pid:[1]`, now);
    assert.equal(reader.role, 'reader');
    await reader.close();
  }
  const writer = await open(`${process.pid} elsewhere pid:[1]`, now - 600);
  assert.equal(writer.role, 'writer');
  utimesSync(lock, now - 600, now - 600);
  await until('a newer time of the lock', async () => statSync(lock).mtimeMs > (now - 60) * 1000);
  await writer.close();
  assert.ok(!existsSync(lock));
  await store.clear();
  await store.close();
});

test('directory: after a deletion that failed the file can be used and deleted', async () => {
  const store = await openStore({ backend: 'file', path, name: 'undeleted' });
  const file = makeFile(38, 1);
  await writeFile(store, file);
  const [{ key }] = await store.list();
  const lock = join(path, 'undeleted', `${key}.lock`);
  mkdirSync(lock); // so that no lock can be taken
  await assert.rejects(store.delete(key), { code: 'STORAGE', message: /can't be deleted: EISDIR/ });
  const entry = await store.open(file.options);
  assert.equal(entry.complete, true);
  await entry.close();
  rmSync(lock, { recursive: true });
  await store.delete(key);
  assert.deepEqual(await store.list(), []);
  await store.close();
});

/** Runs a script in a shell that can mount, as `unshare` allows to users on most systems. @param {string} shell @param {string} script */
const unshared = (shell, script) =>
  spawnSync('unshare', ['-rm', 'sh', '-ec', shell, '', process.execPath, script], { encoding: 'utf8', cwd: mounts });
const MOUNT = 'mkdir -p full; mount -t tmpfs -o size=6m tmpfs full';
const noMount = unshared(MOUNT, '').status !== 0 && 'this system allows no mount';

test(
  'directory: on a full disk files can be deleted, and a new file takes the place of an older one',
  { skip: noMount },
  () => {
    const suite = new URL('./store-suite.mjs', import.meta.url).href;
    const store = new URL('../../js/storage/cache/index.js', import.meta.url).href;
    const script = join(mounts, 'full.mjs');
    writeFileSync(
      script,
      `import { writeFileSync } from 'node:fs';
    import { makeFile, writeFile } from ${JSON.stringify(suite)};
    import { openStore } from ${JSON.stringify(store)};
    const store = await openStore({ backend: 'file', path: 'full' });
    const names = async () => (await store.list()).map(({ name, complete }) => name + ' ' + complete);
    await writeFile(store, makeFile(1, 3));
    try {
      writeFileSync('full/rest', new Uint8Array(6 << 20));
    } catch {}
    await writeFile(store, makeFile(2, 2));
    console.log(await names());
    try {
      writeFileSync('full/more', new Uint8Array(6 << 20));
    } catch {}
    for (const { key } of await store.list()) await store.delete(key);
    console.log(await names());
    await store.close();`,
    );
    const { stdout, stderr } = unshared(`${MOUNT}; exec "$@"`, script);
    assert.equal(stderr, '');
    assert.equal(stdout, "[ 'file-2.bq4 true' ]\n[]\n");
  },
);

test(
  'a folder that cannot be created is reported with the reason of the file system',
  { skip: process.platform === 'linux' ? false : 'only Linux has /proc' },
  async () => {
    for (const [path, reason] of [
      ['/proc/bq4/models', /ENOENT/],
      ['/dev/null', /ENOTDIR/],
    ])
      await assert.rejects(openStore({ backend: 'file', path: String(path) }), { code: 'STORAGE', message: reason });
  },
);

for (const name of ['about', 'journal', 'prefix', 's0', 'used'])
  test(`a folder in place of the file "${name}" is replaced by the next download`, async () => {
    const options = { backend: /** @type {const} */ ('file'), path, name: `folder-${name}`, hash: digest };
    const store = await openStore(options);
    const file = makeFile(38, 2);
    await writeFile(store, file);
    const [{ key }] = await store.list();
    const place = join(path, options.name, key, name);
    rmSync(place);
    mkdirSync(join(place, 'folder'), { recursive: true });
    assert.ok((await store.list()).length <= 1);
    const entry = await store.open(file.options);
    if (!entry.has(PREFIX) || !(await entry.readPrefix())) await entry.writePrefix(file.prefix);
    for (const [c, bytes] of file.data.entries())
      if (!(await entry.read(c))) assert.equal(await entry.write(c, bytes), true, `chunk ${c}: ${entry.problem}`);
    assert.equal(entry.problem, null);
    await entry.close();
    assert.deepEqual(
      (await store.list()).map(({ complete }) => complete),
      [true],
    );
    await store.clear();
    await store.close();
  });

test('entries without bytes are removed by the next visit, unless they are in use', async () => {
  const options = { backend: /** @type {const} */ ('file'), path, name: 'tidy' };
  const store = await openStore(options);
  const entry = await store.open(makeFile(32, 1).options);
  const next = await openStore(options);
  const visit = async (/** @type {number} */ seed) => {
    await writeFile(next, makeFile(seed, 1));
    return readdirSync(join(path, 'tidy')).filter((name) => name === entry.key).length;
  };
  assert.equal(await visit(35), 1);
  assert.deepEqual(
    (await store.list()).map(({ fileId }) => Number(fileId)),
    [35],
    'nothing of it is listed',
  );
  await store.close();
  assert.equal(await visit(36), 0);
  await next.clear();
  await next.close();
});

test('a lock that another tab never releases does not hold up a load', async () => {
  const options = { backend: /** @type {const} */ ('file'), path, name: 'locked', hash: digest, stallTimeout: 1 };
  const file = makeFile(37, 1);
  const store = await openStore(options);
  await writeFile(store, file);
  const [{ key }] = await store.list();
  for (const kind of ['make', 'use']) {
    const release = await lock(`bq4-store/file/${path}/locked/locked/${key}/${kind}`, { wait: true });
    const entry = await store.open(file.options);
    assert.equal(entry.problem?.code, 'STORAGE');
    assert.match(String(entry.problem?.message), /can't be stored in the cache: .*time/);
    await release?.();
    await entry.close();
    const next = await store.open(file.options);
    assert.deepEqual([next.problem, next.complete], [null, true], kind);
    await next.close();
  }
  await store.clear();
  await store.close();
});

test('invalid content of one file does not affect others', async () => {
  const options = { backend: /** @type {const} */ ('file'), path, name: 'nonsense', hash: digest };
  const [good, bad] = [makeFile(33, 1), makeFile(34, 1)];
  const store = await openStore(options);
  await writeFile(store, bad);
  const [{ key }] = await store.list();
  const about = JSON.parse(readFileSync(join(path, 'nonsense', key, 'about'), 'utf8'));
  await writeFile(store, good);
  for (const text of [
    'null',
    '7',
    '{}',
    '{"url":"x","fileBytes":-1,"prefixBytes":5}',
    '{"url":"x","fileBytes":10,"prefixBytes":50}',
    // Possible numbers, but of another file.
    JSON.stringify({ ...about, fileBytes: bad.options.fileBytes + 1 }),
    JSON.stringify({ ...about, prefixBytes: 1 }),
    '"',
  ]) {
    writeFileSync(join(path, 'nonsense', key, 'about'), text);
    assert.deepEqual(
      (await store.list()).map(({ url }) => url),
      [good.options.url],
      text,
    );
    assert.ok(await store.find(good.options.url));
    assert.equal(await store.find(bad.options.url), null);
    const entry = await store.open(bad.options);
    assert.deepEqual([entry.problem, entry.has(0)], [null, false], 'made again');
    await entry.close();
    await writeFile(store, bad);
    assert.equal((await store.list()).length, 2);
  }
  await store.clear();
  await store.close();
});

test('a folder may be a file: address; other addresses are refused instead of becoming a folder', async () => {
  const folder = join(path, 'by-address');
  for (const address of [pathToFileURL(folder), pathToFileURL(folder).href]) {
    const engine = await createEngine({ threads: 1, cache: /** @type {any} */ (address) });
    assert.deepEqual([engine.store?.backend, engine.store?.reason], ['file', '']);
    await engine.close();
    assert.deepEqual(readdirSync(folder), ['models']);
    rmSync(folder, { recursive: true });
  }
  for (const address of ['https://x.example/models', 'hf:owner/name'])
    await assert.rejects(openStore({ path: address }), {
      code: 'ARGUMENT',
      message: `path: expected a folder, found ${JSON.stringify(address)}`,
    });
  await assert.rejects(createEngine({ threads: 1, cache: 'https://x.example/models' }), { code: 'ARGUMENT' });
});

test('a size limit of 0 is the reason why nothing is stored', async () => {
  const store = await openStore({ path, maxBytes: 0 });
  const entry = await store.open(makeFile(31, 1).options);
  assert.equal(entry.problem?.message, 'nothing is stored: maxBytes is 0');
  await store.close();
});

test('without a folder Node caches nothing and reports it', async () => {
  const store = await openStore();
  const entry = await store.open(makeFile(31, 1).options);
  assert.equal(store.backend, 'memory');
  assert.match(String(entry.problem?.message), /nothing is stored: file: the option path/);
  assert.equal(entry.problem?.code, 'STORAGE');
  await store.close();
  await assert.rejects(openStore({ backend: 'opfs' }), { code: 'STORAGE' });
});

test('no temporary files are left', () => {
  for (const name of readdirSync(path)) assert.deepEqual(readdirSync(join(path, name)), [], name);
});
