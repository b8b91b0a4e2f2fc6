// What every backend of the store must do, as plain functions that throw: run in Node by store.test.mjs, in browsers by
// tests/browser/store.test.mjs.
import { openStore } from '../../js/storage/cache/index.js';
import { PREFIX } from '../../js/storage/cache/layout.js';
import { until } from '../waiting.mjs';

/** @import { Store } from '../../js/storage/cache/index.js' */

export const MIB = 1 << 20;

/** @param {unknown} value */
const show = (value) =>
  JSON.stringify(value, (_, v) =>
    typeof v === 'bigint' ? `${v}n` : v instanceof Uint8Array ? `${v.length} bytes` : v,
  );
/** @param {unknown} actual @param {unknown} expected @param {string} [what] */
export function equal(actual, expected, what = '') {
  if (show(actual) !== show(expected)) throw new Error(`${what}: ${show(actual)} instead of ${show(expected)}`);
}

/** Bytes that tell chunks and files apart. @param {number} seed @param {number} length */
export function noise(seed, length) {
  const words = new Uint32Array(Math.ceil(length / 4));
  let x = (seed * 2654435761 + 12345) >>> 0;
  for (let i = 0; i < words.length; i++) words[i] = x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
  return new Uint8Array(words.buffer, 0, length);
}

/** Stands for XXH64, which the engine brings. @param {Uint8Array} bytes */
export function digest(bytes) {
  let sum = BigInt(bytes.length);
  for (let i = 0; i < bytes.length; i += 997) sum = BigInt.asUintN(64, (sum ^ BigInt(bytes[i])) * 0x100000001b3n);
  return sum;
}

/** Stands for SHA-256 where a page has none, and the engine brings it: FNV-1a of all bytes, four times. */
export const sha256 = globalThis.crypto?.subtle
  ? undefined
  : (/** @type {Uint8Array} */ bytes) => {
      let sum = 0xcbf29ce484222325n;
      for (const byte of bytes) sum = BigInt.asUintN(64, (sum ^ BigInt(byte)) * 0x100000001b3n);
      return new Uint8Array(new BigUint64Array(4).fill(sum).buffer);
    };

/** @param {Uint8Array | null} a @param {Uint8Array} b */
export const same = (a, b) => !!a && a.length === b.length && a.every((byte, i) => byte === b[i]);
/** @param {boolean} good @param {string} what */
export function check(good, what) {
  if (!good) throw new Error(what);
}

/** A model file of our own. @param {number} seed @param {number} chunks  the last one is short */
export function makeFile(seed, chunks) {
  const prefixBytes = 4160;
  const prefix = noise(seed, prefixBytes);
  const data = Array.from({ length: chunks }, (_, c) =>
    noise(seed * 1000 + c + 1, c === chunks - 1 ? MIB / 2 + 7 : MIB),
  );
  const fileBytes = prefixBytes + data.reduce((sum, { length }) => sum + length, 0);
  const options = {
    url: `https://models.test/file-${seed}.bq4`,
    prefix,
    fileId: `${seed}`.padStart(32, '0'),
    fileBytes,
    prefixBytes,
  };
  return { prefix, data, fileBytes, prefixBytes, options, hashes: data.map(digest) };
}

/**
 * @param {Store} store
 * @param {ReturnType<typeof makeFile>} file
 * @param {number} [count]    of its chunks
 * @param {number} [damaged]  one that isn't what its hash says
 */
export async function keep(store, file, count = file.data.length, damaged = -1) {
  const entry = await store.open(file.options);
  await entry.writePrefix(file.prefix);
  for (let c = 0; c < count; c++)
    await entry.write(c, c === damaged ? noise(99, file.data[c].length) : file.data[c], digest(file.data[c]));
  const { problem } = entry;
  await entry.close();
  if (problem) throw problem;
}

/** A little later than any date so far. */
const later = () => new Promise((resolve) => setTimeout(resolve, 15));

/** @param {() => Promise<unknown>} work */
async function codeOf(work) {
  try {
    await work();
  } catch (error) {
    return /** @type {any} */ (error).code ?? String(error);
  }
  return 'nothing thrown';
}

/** @typedef {(more?: { maxBytes?: number, stallTimeout?: number }) => Promise<Store>} Open  the same store each time; closed by the case */

/** @type {Record<string, (open: Open) => Promise<void>>} */
export const cases = {
  async 'what was written is there, also for the next visitor'(open) {
    const file = makeFile(1, 4);
    let store = await open();
    equal(await store.find(file.options.url), null, 'nothing yet');
    let entry = await store.open({ ...file.options, hashes: file.hashes });
    equal(
      [entry.problem, entry.role, entry.chunks, entry.complete, entry.has(0)],
      [null, 'writer', 4, false, false],
      'new',
    );
    equal(await entry.read(0), null, 'no chunk');
    equal(await entry.readPrefix(), null, 'no prefix');
    equal(await entry.writePrefix(file.prefix), true, 'prefix');
    // Several at once, in any order.
    equal(
      await Promise.all([3, 1, 0, 2].map((c) => entry.write(c, file.data[c]))),
      [true, true, true, true],
      'written',
    );
    equal([entry.complete, entry.has(3), entry.role], [true, true, 'reader'], 'complete, and nothing more to write');
    for (const [c, bytes] of file.data.entries()) check(same(await entry.read(c), bytes), `chunk ${c} at once`);
    await entry.close();
    await store.close();
    store = await open();
    const found = await store.find(`${file.options.url}#fragment`);
    check(!!found && same(found.prefix, file.prefix), 'the prefix is found by address');
    equal(
      [found?.fileId, found?.fileBytes, found?.prefixBytes, found?.prefixHash],
      [file.options.fileId, file.fileBytes, file.prefixBytes, digest(file.prefix)],
      'found',
    );
    equal([found?.cachedBytes, found?.complete], [file.fileBytes, true], 'all of it');
    entry = await store.open(file.options);
    equal([entry.complete, entry.problem, entry.role], [true, null, 'reader'], 'complete for the next');
    check(same(await entry.readPrefix(), file.prefix), 'prefix');
    const into = new Uint8Array(MIB + 100);
    for (const [c, bytes] of file.data.entries()) {
      check(same(await entry.read(c, undefined, into), bytes), `chunk ${c}`);
      equal(entry.hash(c), digest(bytes), 'hash');
    }
    equal(into.subarray(MIB).some(Boolean), false, 'nothing beyond a chunk');
    await store.close();
  },

  async 'a download goes on where it stopped'(open) {
    const file = makeFile(2, 5);
    let store = await open();
    await keep(store, file, 3);
    const [listed] = await store.list();
    equal([listed.complete, listed.cachedBytes], [false, file.prefixBytes + 3 * MIB], 'listed');
    await store.close();
    store = await open();
    const entry = await store.open(file.options);
    equal(
      [0, 1, 2, 3, 4].map((c) => entry.has(c)),
      [true, true, true, false, false],
      'there',
    );
    check(same(await entry.read(2), file.data[2]), 'the last one');
    for (const c of [4, 3]) await entry.write(c, file.data[c]);
    equal(entry.complete, true, 'complete');
    await store.close();
  },

  async 'a damaged chunk is dropped, fetched and written again'(open) {
    const file = makeFile(3, 3);
    let store = await open();
    await keep(store, file, 3, 1);
    let entry = await store.open(file.options);
    await entry.drop(1);
    equal([entry.complete, entry.has(1), await entry.read(1)], [false, false, null], 'dropped');
    equal([await entry.waitFor(1), entry.role], [false, 'writer'], 'to be fetched');
    await store.close();
    store = await open();
    entry = await store.open(file.options);
    equal(
      [0, 1, 2].map((c) => entry.has(c)),
      [true, false, true],
      'still dropped',
    );
    equal(await entry.write(1, file.data[1]), true, 'written');
    equal(entry.complete, true, 'healed');
    check(same(await entry.read(1), file.data[1]), 'the new one');
    await store.close();
  },

  async 'a good chunk that is called damaged twice is fetched again'(open) {
    const file = makeFile(18, 2);
    const [store, other] = [await open(), await open()];
    await keep(store, file);
    const [entry, follower] = [await store.open(file.options), await other.open(file.options)];
    await entry.drop(0);
    equal([await entry.waitFor(0), entry.complete], [true, true], 'it is what was written');
    await entry.drop(0);
    equal([await entry.waitFor(0), entry.role], [false, 'writer'], 'but not what it should be');
    await until('word of the damage', () => !follower.has(0));
    await store.close();
    await other.close();
  },

  async "chunks with other hashes than the file's do not count"(open) {
    const file = makeFile(4, 3);
    const store = await open();
    await keep(store, file);
    const hashes = BigUint64Array.from(file.hashes);
    hashes[2] ^= 1n;
    const entry = await store.open({ ...file.options, hashes });
    equal([entry.has(0), entry.has(1), entry.has(2), entry.complete], [true, true, false, false], 'there');
    await store.close();
  },

  async 'ranges cross the borders of chunks'(open) {
    const file = makeFile(5, 3);
    const whole = new Uint8Array(file.fileBytes);
    whole.set(file.prefix);
    file.data.forEach((bytes, c) => whole.set(bytes, file.prefixBytes + c * MIB));
    const store = await open();
    await keep(store, file, 2);
    const entry = await store.open(file.options);
    equal(await entry.readRange(file.prefixBytes + MIB, MIB + 1), null, 'not all there');
    await entry.write(2, file.data[2]);
    for (const [from, length] of [
      [0, 10],
      [4000, 1000],
      [MIB - 3, MIB + 10000],
      [0, file.fileBytes],
      [file.fileBytes - 5, 5],
      [77, 0],
    ]) {
      check(same(await entry.readRange(from, length), whole.subarray(from, from + length)), `${length} from ${from}`);
    }
    equal(await entry.readRange(file.fileBytes - 5, 6), null, 'beyond the end');
    await store.close();
  },

  async 'two share one download, and the second takes over'(open) {
    const file = makeFile(6, 4);
    const [here, there] = [await open(), await open()];
    const [first, second] = [await here.open(file.options), await there.open(file.options)];
    equal([first.role, second.role], ['writer', 'reader'], 'roles');
    equal(await second.write(0, file.data[0]), false, 'only one writes');
    await first.writePrefix(file.prefix);
    const waiting = [second.waitFor(0), second.waitFor(1)];
    for (const c of [0, 1]) equal(await first.write(c, file.data[c]), true, 'written');
    equal(await Promise.all(waiting), [true, true], 'arrived');
    check(same(await second.read(1), file.data[1]), 'read by the second');
    const controller = new AbortController();
    const aborted = second.waitFor(2, controller.signal).then(
      () => 'came',
      (error) => error.name,
    );
    const next = second.waitFor(2);
    controller.abort();
    equal(await aborted, 'AbortError', 'aborted');
    equal(second.role, 'reader', 'still');
    await here.close();
    equal([await next, second.role], [false, 'writer'], 'its turn');
    equal([second.has(0), second.has(1), second.has(2)], [true, true, false], 'nothing lost');
    for (const c of [2, 3]) equal(await second.write(c, file.data[c]), true, 'written');
    equal(second.complete, true, 'complete');
    await there.close();
  },

  async 'damage found by two at once is fetched by one'(open) {
    const file = makeFile(7, 3);
    const [here, there] = [await open(), await open()];
    await keep(here, file, 3, 2);
    const [first, second] = [await here.open(file.options), await there.open(file.options)];
    await Promise.all([first.drop(2), second.drop(2)]);
    equal([await first.waitFor(2), first.role], [false, 'writer'], 'first');
    const waiting = second.waitFor(2);
    await first.write(2, file.data[2]);
    equal(await waiting, true, 'second');
    check(same(await second.read(2), file.data[2]), 'read');
    await here.close();
    await there.close();
  },

  async 'a download that has stalled elsewhere is not waited for'(open) {
    const file = makeFile(19, 3);
    const [here, there] = [await open(), await open({ stallTimeout: 100 })];
    const [first, second] = [await here.open(file.options), await there.open(file.options)];
    await first.write(0, file.data[0]);
    equal([await second.waitFor(0), await second.waitFor(1), second.role], [true, false, 'reader'], 'stalled');
    equal(await second.write(1, file.data[1]), false, 'but still the writer');
    await first.write(1, file.data[1]);
    await until('the chunk that the first has written', () => second.has(1));
    equal([await second.waitFor(1), await second.waitFor(2)], [true, false], 'goes on, stalls again');
    await here.close();
    await there.close();
  },

  async 'who waits to write lets go of everything when it closes'(open) {
    const file = makeFile(21, 3);
    for (let round = 0; round < 20; round++) {
      const [here, there] = [await open(), await open()];
      const [first, second] = [await here.open(file.options), await there.open(file.options)];
      await first.write(0, file.data[0]);
      const waiting = second.waitFor(2);
      await here.close(); // second may be about to take over
      await there.close();
      await waiting;
      const other = await open();
      await other.clear(); // IN_USE, if it still holds something
      await other.close();
    }
  },

  async 'many open the same new file at once'(open) {
    const file = makeFile(20, 1);
    const stores = await Promise.all([open(), open(), open(), open()]);
    const entries = await Promise.all(stores.map((store) => store.open(file.options)));
    equal(
      entries.map(({ problem }) => problem?.message),
      [undefined, undefined, undefined, undefined],
      'problems',
    );
    equal(entries.filter(({ role }) => role === 'writer').length, 1, 'writers');
    for (const store of stores) await store.close();
  },

  async 'lists, pins, deletes, but nothing that is in use'(open) {
    const [a, b] = [makeFile(8, 2), makeFile(9, 1)];
    const [store, other] = [await open(), await open()];
    await keep(store, a);
    await keep(store, b, 0);
    const [{ key }, ...rest] = (await store.list()).sort((x, y) => y.fileBytes - x.fileBytes);
    equal(rest.length, 1, 'two files');
    await store.pin(key);
    const seen = (await other.list())
      .sort((x, y) => y.fileBytes - x.fileBytes)
      .map(({ lastUsed, key: _, ...file }) => ({ ...file, recent: Math.abs(Date.now() - lastUsed) < 60_000 }));
    equal(
      seen,
      [
        {
          url: a.options.url,
          name: 'file-8.bq4',
          fileId: a.options.fileId,
          fileBytes: a.fileBytes,
          cachedBytes: a.fileBytes,
          complete: true,
          pinned: true,
          recent: true,
        },
        {
          url: b.options.url,
          name: 'file-9.bq4',
          fileId: b.options.fileId,
          fileBytes: b.fileBytes,
          cachedBytes: b.prefixBytes,
          complete: false,
          pinned: false,
          recent: true,
        },
      ],
      'list',
    );
    const usage = await store.usage();
    equal([usage.files, usage.cachedBytes], [2, a.fileBytes + b.prefixBytes], 'usage');
    await store.pin(key, false);
    equal(
      (await other.list()).some(({ pinned }) => pinned),
      false,
      'unpinned',
    );
    const entry = await other.open(a.options);
    equal(entry.key, key, 'key');
    equal(await codeOf(() => store.delete(key)), 'IN_USE', 'used by the other');
    check(same(await entry.read(1), a.data[1]), 'and still there');
    await entry.close();
    await store.delete(key);
    equal(
      (await store.list()).map(({ name }) => name),
      ['file-9.bq4'],
      'deleted',
    );
    equal(await store.find(a.options.url), null, 'not found');
    await store.delete(key); // a second time is no error
    await store.clear();
    equal(await store.list(), [], 'cleared');
    await store.close();
    await other.close();
  },

  async 'the least recently used goes first, never the pinned or the open'(open) {
    const files = [10, 11, 12, 13].map((seed) => makeFile(seed, 2));
    const { fileBytes } = files[0];
    const store = await open({ maxBytes: 3 * fileBytes + 1000 });
    const names = async () => (await store.list()).map(({ fileId }) => Number(fileId)).sort();
    for (const file of files.slice(0, 3)) {
      await keep(store, file);
      await later();
    }
    equal(await names(), [10, 11, 12], 'all three fit');
    await (await store.open(files[0].options)).close(); // used again: 11 is the oldest now
    await later();
    await keep(store, files[3]);
    equal(await names(), [10, 12, 13], 'the oldest went');
    await store.pin((await store.open(files[2].options).then(async (entry) => (await entry.close(), entry))).key);
    await later();
    const used = await store.open(files[0].options);
    await keep(store, files[1]);
    equal(await names(), [10, 11, 12], 'the only one that might');
    // What is larger than all that may go isn't begun, and nothing goes for it.
    const large = await store.open(makeFile(14, 4).options);
    equal([large.problem?.code, await large.write(0, noise(1, MIB))], ['QUOTA', false], 'too large');
    await large.close();
    equal(await names(), [10, 11, 12], 'nothing went');
    check(same(await used.read(1), files[0].data[1]), 'the open one is whole');
    await store.close();
  },

  async 'another file at the same address replaces the old one'(open) {
    const [old, young] = [makeFile(15, 2), makeFile(16, 2)];
    young.options.url = old.options.url;
    const store = await open();
    await keep(store, old);
    await keep(store, young, 1);
    equal(
      (await store.list()).map(({ fileId }) => Number(fileId)),
      [16],
      'one file',
    );
    equal((await store.find(old.options.url))?.fileId, young.options.fileId, 'found');
    // A new signature is in the query: the same place, so the same file.
    const signed = `${old.options.url}?signature=2`;
    const entry = await store.open({ ...young.options, url: signed });
    equal([entry.has(0), entry.has(1)], [true, false], 'there already');
    await entry.close();
    equal((await store.find(signed))?.fileId, young.options.fileId, 'found by both');
    await store.close();
  },

  async 'no file is taken for one at another place, whatever it says of itself'(open) {
    const good = makeFile(17, 2);
    const store = await open();
    await keep(store, good);
    const { prefix } = makeFile(18, 2);
    const lookAlikes = {
      'the same id and lengths': { ...good.options, prefix, url: 'https://other.test/a.bq4' },
      'the same prefix too': { ...good.options, url: 'https://other.test/file-17.bq4' },
      'the same path': { ...good.options, prefix, url: `${good.options.url}#b` },
    };
    for (const [what, options] of Object.entries(lookAlikes)) {
      await store.pin((await store.list()).find(({ url }) => url === good.options.url)?.key ?? '');
      const entry = await store.open(options);
      equal([entry.problem, entry.has(0), entry.has(1), entry.has(PREFIX)], [null, false, false, false], what);
      await entry.writePrefix(options.prefix);
      await entry.write(0, noise(5, MIB));
      await entry.close();
    }
    const entry = await store.open(good.options);
    check(same(await entry.readPrefix(), good.prefix) && same(await entry.read(0), good.data[0]), 'still the good one');
    await entry.close();
    await store.close();
  },

  async 'a file whose prefix has SHA-256 hashes of all its chunks is the same at every address'(open) {
    const file = makeFile(19, 2);
    const store = await open();
    await keep(store, { ...file, options: { ...file.options, sealed: true } });
    const url = 'https://mirror.test/m.bq4?token=1';
    const entry = await store.open({ ...file.options, sealed: true, url });
    equal([entry.has(0), entry.has(1)], [true, true], 'there already');
    await entry.close();
    equal((await store.find(url))?.complete, true, 'found by both');
    await store.close();
  },

  async 'keys that the store has not made are refused, and what they would reach is left alone'(open) {
    const file = makeFile(21, 1);
    const store = await open();
    await keep(store, file);
    const [{ key }] = await store.list();
    const wrong = [
      '',
      '.',
      '..',
      '../..',
      `../${key}`,
      `${key}/..`,
      `${key}/prefix`,
      '\\',
      'models',
      key.slice(1),
      `${key} `,
      undefined,
      {},
    ];
    for (const other of /** @type {any[]} */ (wrong)) {
      equal(await codeOf(() => store.delete(other)), 'ARGUMENT', `delete ${JSON.stringify(other)}`);
      equal(await codeOf(() => store.pin(other)), 'ARGUMENT', `pin ${JSON.stringify(other)}`);
    }
    const unknown = `0${key.slice(1)}` === key ? `1${key.slice(1)}` : `0${key.slice(1)}`;
    equal(await codeOf(() => store.pin(unknown)), 'ARGUMENT', 'pin of a file that is not there');
    await store.delete(unknown);
    equal(
      (await store.list()).map((kept) => [kept.key, kept.complete]),
      [[key, true]],
      'whole',
    );
    await store.close();
  },

  async 'what cannot be kept turns the entry off, and throws nothing'(open) {
    const file = makeFile(17, 3);
    const store = await open();
    const entry = await store.open(file.options);
    await entry.write(0, file.data[0]);
    equal(await entry.write(1, file.data[1].subarray(1)), false, 'wrong length');
    equal([entry.problem?.name, entry.problem?.code], ['BqError', 'ARGUMENT'], 'problem');
    equal(
      [await entry.write(1, file.data[1]), await entry.waitFor(1), await entry.read(1)],
      [false, false, null],
      'off',
    );
    check(same(await entry.read(0), file.data[0]), 'what is there can be read');
    const second = await store.open(file.options);
    equal([second.role, await second.write(1, file.data[1])], ['writer', true], 'another may write');
    const unknown = await store.open({ ...file.options, fileBytes: -1 });
    equal(
      [unknown.problem?.code, unknown.complete, await unknown.write(0, file.data[0])],
      ['STORAGE', false, false],
      'unknown length',
    );
    await store.close();
    equal(
      [await second.write(2, file.data[2]), await second.read(0), await second.waitFor(2)],
      [false, null, false],
      'closed',
    );
  },
};

/** @param {string} name  of a case @param {{ backend: any, path?: string }} options */
export async function run(name, options) {
  /** @type {Store[]} */
  const stores = [];
  const scope = `test-${Object.keys(cases).indexOf(name)}-${Date.now()}`;
  try {
    await cases[name](async (more) => {
      const store = await openStore({ ...options, ...more, name: scope, hash: digest, sha256 });
      equal(store.backend, options.backend, 'backend');
      stores.push(store);
      return store;
    });
  } finally {
    for (const store of stores) await store.close();
    const store = await openStore({ ...options, name: scope, sha256 });
    await store.clear();
    await store.close();
  }
}
