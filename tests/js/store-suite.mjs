// Tests of the behaviour of every backend of the store, as functions that throw. store.test.mjs runs them in Node,
// tests/browser/store.test.mjs in browsers.
import { openStore } from '../../js/storage/cache/index.js';
import { PREFIX } from '../../js/storage/cache/layout.js';
import { until } from '../waiting.mjs';

/** @import { Store } from '../../js/storage/cache/index.js' */

export const MIB = 1 << 20;

/** A value as text, for comparison and for messages. @param {unknown} value */
const format = (value) =>
  JSON.stringify(value, (_, v) =>
    typeof v === 'bigint' ? `${v}n` : v instanceof Uint8Array ? `${v.length} bytes` : v,
  );
/** Throws unless two values have the same text. @param {unknown} actual @param {unknown} expected @param {string} [what] */
export function equal(actual, expected, what = '') {
  if (format(actual) !== format(expected))
    throw new Error(`${what}: expected ${format(expected)}, found ${format(actual)}`);
}

/** Pseudo-random bytes, different for each seed. @param {number} seed @param {number} length */
export function noise(seed, length) {
  const words = new Uint32Array(Math.ceil(length / 4));
  let x = (seed * 2654435761 + 12345) >>> 0;
  for (let i = 0; i < words.length; i++) words[i] = x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
  return new Uint8Array(words.buffer, 0, length);
}

/** A hash in place of XXH64, which is a function of the engine. @param {Uint8Array} bytes */
export function digest(bytes) {
  let sum = BigInt(bytes.length);
  for (let i = 0; i < bytes.length; i += 997) sum = BigInt.asUintN(64, (sum ^ BigInt(bytes[i])) * 0x100000001b3n);
  return sum;
}

/** A hash in place of the engine's SHA-256, for pages without crypto.subtle: FNV-1a of all bytes, four times. */
export const sha256 = globalThis.crypto?.subtle
  ? undefined
  : (/** @type {Uint8Array} */ bytes) => {
      let sum = 0xcbf29ce484222325n;
      for (const byte of bytes) sum = BigInt.asUintN(64, (sum ^ BigInt(byte)) * 0x100000001b3n);
      return new Uint8Array(new BigUint64Array(4).fill(sum).buffer);
    };

/** Whether two arrays have the same bytes. @param {Uint8Array | null} a @param {Uint8Array} b */
export const same = (a, b) => !!a && a.length === b.length && a.every((byte, i) => byte === b[i]);
/** Throws unless a condition is true. @param {boolean} condition @param {string} message */
export function check(condition, message) {
  if (!condition) throw new Error(message);
}

/** A model file of pseudo-random bytes. @param {number} seed @param {number} chunks  their number; the last one is shorter than a chunk */
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
 * Writes a file to the store.
 * @param {Store} store
 * @param {ReturnType<typeof makeFile>} file
 * @param {number} [count]    number of its first chunks that are written
 * @param {number} [damaged]  index of a chunk whose bytes do not match its hash
 */
export async function writeFile(store, file, count = file.data.length, damaged = -1) {
  const entry = await store.open(file.options);
  await entry.writePrefix(file.prefix);
  for (let c = 0; c < count; c++)
    await entry.write(c, c === damaged ? noise(99, file.data[c].length) : file.data[c], digest(file.data[c]));
  const { problem } = entry;
  await entry.close();
  if (problem) throw problem;
}

/** Waits until the clock of dates of use has advanced. */
const waitForNextDate = () => new Promise((resolve) => setTimeout(resolve, 15));

/** The code of the error that a function throws. @param {() => Promise<unknown>} work */
async function codeOf(work) {
  try {
    await work();
  } catch (error) {
    return /** @type {any} */ (error).code ?? String(error);
  }
  return 'nothing thrown';
}

/** @typedef {(more?: { maxBytes?: number, stallTimeout?: number }) => Promise<Store>} Open  opens the same store at each call; the test closes it */

/** The tests by name. @type {Record<string, (open: Open) => Promise<void>>} */
export const cases = {
  async 'the states of a hash before the two newest chunks are stored beside the chunks'(open) {
    const file = makeFile(7, 4);
    let store = await open();
    let entry = await store.open(file.options);
    equal(await entry.readHashState(1), null, 'an empty file');
    await entry.writePrefix(file.prefix);
    for (const c of [1, 2, 3]) {
      await entry.writeHashState(c, noise(c, 104));
      await entry.write(c - 1, file.data[c - 1]);
    }
    const reader = await store.open(file.options);
    for (const any of [entry, reader]) {
      check(same(await any.readHashState(3), noise(3, 104)), 'the newest state');
      check(same(await any.readHashState(2), noise(2, 104)), 'the state before it');
      equal([await any.readHashState(1), await any.readHashState(4)], [null, null], 'other states');
    }
    await reader.writeHashState(5, noise(5, 104));
    equal(await entry.readHashState(5), null, 'only the writer stores states');
    await reader.close();
    await entry.close();
    await store.close();
    store = await open();
    entry = await store.open(file.options);
    check(same(await entry.readHashState(3), noise(3, 104)), 'at a later visit');
    equal([entry.has(2), entry.complete], [true, false], 'chunks');
    await entry.write(3, file.data[3]);
    equal(entry.complete, true, 'complete');
    await entry.close();
    const [{ complete, cachedBytes }] = await store.list();
    equal([complete, cachedBytes], [true, file.fileBytes], 'states are not counted');
    await store.close();
  },

  async 'a written file can be read, also from a store that is opened later'(open) {
    const file = makeFile(1, 4);
    let store = await open();
    equal(await store.find(file.options.url), null, 'an empty store');
    let entry = await store.open({ ...file.options, hashes: file.hashes });
    equal(
      [entry.problem, entry.role, entry.chunks, entry.complete, entry.has(0)],
      [null, 'writer', 4, false, false],
      'new',
    );
    equal(await entry.read(0), null, 'no chunk');
    equal(await entry.readPrefix(), null, 'no prefix');
    equal(await entry.writePrefix(file.prefix), true, 'prefix');
    // Chunks are written simultaneously, in any order.
    equal(
      await Promise.all([3, 1, 0, 2].map((c) => entry.write(c, file.data[c]))),
      [true, true, true, true],
      'written',
    );
    equal([entry.complete, entry.has(3), entry.role], [true, true, 'reader'], 'complete');
    for (const [c, bytes] of file.data.entries())
      check(same(await entry.read(c), bytes), `chunk ${c} after it was written`);
    await entry.close();
    await store.close();
    store = await open();
    const info = await store.find(`${file.options.url}#fragment`);
    check(!!info && same(info.prefix, file.prefix), 'the header is found by address');
    equal(
      [info?.fileId, info?.fileBytes, info?.prefixBytes, info?.prefixHash],
      [file.options.fileId, file.fileBytes, file.prefixBytes, digest(file.prefix)],
      'result of find',
    );
    equal([info?.cachedBytes, info?.complete], [file.fileBytes, true], 'all bytes are stored');
    entry = await store.open(file.options);
    equal(
      [entry.complete, entry.problem, entry.role],
      [true, null, 'reader'],
      'complete in the store that was opened later',
    );
    check(same(await entry.readPrefix(), file.prefix), 'prefix');
    const into = new Uint8Array(MIB + 100);
    for (const [c, bytes] of file.data.entries()) {
      check(same(await entry.read(c, undefined, into), bytes), `chunk ${c}`);
      equal(entry.hash(c), digest(bytes), 'hash');
    }
    equal(into.subarray(MIB).some(Boolean), false, 'no bytes are written after the chunk');
    await store.close();
  },

  async 'an interrupted download is resumed'(open) {
    const file = makeFile(2, 5);
    let store = await open();
    await writeFile(store, file, 3);
    const [item] = await store.list();
    equal([item.complete, item.cachedBytes], [false, file.prefixBytes + 3 * MIB], 'entry of the list');
    await store.close();
    store = await open();
    const entry = await store.open(file.options);
    equal(
      [0, 1, 2, 3, 4].map((c) => entry.has(c)),
      [true, true, true, false, false],
      'stored chunks',
    );
    check(same(await entry.read(2), file.data[2]), 'the last stored chunk');
    for (const c of [4, 3]) await entry.write(c, file.data[c]);
    equal(entry.complete, true, 'complete');
    await store.close();
  },

  async 'a damaged chunk can be dropped and written again'(open) {
    const file = makeFile(3, 3);
    let store = await open();
    await writeFile(store, file, 3, 1);
    let entry = await store.open(file.options);
    await entry.drop(1);
    equal([entry.complete, entry.has(1), await entry.read(1)], [false, false, null], 'dropped');
    equal([await entry.waitFor(1), entry.role], [false, 'writer'], 'the chunk has to be fetched');
    await store.close();
    store = await open();
    entry = await store.open(file.options);
    equal(
      [0, 1, 2].map((c) => entry.has(c)),
      [true, false, true],
      'still dropped',
    );
    equal(await entry.write(1, file.data[1]), true, 'written');
    equal(entry.complete, true, 'complete again');
    check(same(await entry.read(1), file.data[1]), 'the new chunk');
    await store.close();
  },

  async 'an intact chunk that is dropped twice is fetched again'(open) {
    const file = makeFile(18, 2);
    const [store, other] = [await open(), await open()];
    await writeFile(store, file);
    const [entry, follower] = [await store.open(file.options), await other.open(file.options)];
    await entry.drop(0);
    equal([await entry.waitFor(0), entry.complete], [true, true], 'the chunk matches its hash');
    await entry.drop(0);
    equal([await entry.waitFor(0), entry.role], [false, 'writer'], 'after the second call it has to be fetched');
    await until('the message of the drop in the other store', () => !follower.has(0));
    await store.close();
    await other.close();
  },

  async "chunks with other hashes than the file's count as missing"(open) {
    const file = makeFile(4, 3);
    const store = await open();
    await writeFile(store, file);
    const hashes = BigUint64Array.from(file.hashes);
    hashes[2] ^= 1n;
    const entry = await store.open({ ...file.options, hashes });
    equal([entry.has(0), entry.has(1), entry.has(2), entry.complete], [true, true, false, false], 'stored chunks');
    await store.close();
  },

  async 'ranges can span several chunks'(open) {
    const file = makeFile(5, 3);
    const fileBytes = new Uint8Array(file.fileBytes);
    fileBytes.set(file.prefix);
    file.data.forEach((bytes, c) => fileBytes.set(bytes, file.prefixBytes + c * MIB));
    const store = await open();
    await writeFile(store, file, 2);
    const entry = await store.open(file.options);
    equal(await entry.readRange(file.prefixBytes + MIB, MIB + 1), null, 'a range that is not stored completely');
    await entry.write(2, file.data[2]);
    for (const [from, length] of [
      [0, 10],
      [4000, 1000],
      [MIB - 3, MIB + 10000],
      [0, file.fileBytes],
      [file.fileBytes - 5, 5],
      [77, 0],
    ]) {
      check(
        same(await entry.readRange(from, length), fileBytes.subarray(from, from + length)),
        `${length} bytes from ${from}`,
      );
    }
    equal(await entry.readRange(file.fileBytes - 5, 6), null, 'a range beyond the end');
    await store.close();
  },

  async 'two stores share one download, and the second one continues it when the first one is closed'(open) {
    const file = makeFile(6, 4);
    const [firstStore, secondStore] = [await open(), await open()];
    const [first, second] = [await firstStore.open(file.options), await secondStore.open(file.options)];
    equal([first.role, second.role], ['writer', 'reader'], 'roles');
    equal(await second.write(0, file.data[0]), false, 'only the writer writes');
    await first.writePrefix(file.prefix);
    const waiting = [second.waitFor(0), second.waitFor(1)];
    for (const c of [0, 1]) equal(await first.write(c, file.data[c]), true, 'written');
    equal(await Promise.all(waiting), [true, true], 'the chunks are stored');
    check(same(await second.read(1), file.data[1]), 'read with the second store');
    const controller = new AbortController();
    const aborted = second.waitFor(2, controller.signal).then(
      () => 'resolved',
      (error) => error.name,
    );
    const next = second.waitFor(2);
    controller.abort();
    equal(await aborted, 'AbortError', 'aborted');
    equal(second.role, 'reader', 'role after the abort');
    await firstStore.close();
    equal([await next, second.role], [false, 'writer'], 'role after the writer was closed');
    equal([second.has(0), second.has(1), second.has(2)], [true, true, false], 'stored chunks');
    for (const c of [2, 3]) equal(await second.write(c, file.data[c]), true, 'written');
    equal(second.complete, true, 'complete');
    await secondStore.close();
  },

  async 'a damaged chunk that two stores drop at the same time is fetched by one of them'(open) {
    const file = makeFile(7, 3);
    const [firstStore, secondStore] = [await open(), await open()];
    await writeFile(firstStore, file, 3, 2);
    const [first, second] = [await firstStore.open(file.options), await secondStore.open(file.options)];
    await Promise.all([first.drop(2), second.drop(2)]);
    equal([await first.waitFor(2), first.role], [false, 'writer'], 'first');
    const waiting = second.waitFor(2);
    await first.write(2, file.data[2]);
    equal(await waiting, true, 'second');
    check(same(await second.read(2), file.data[2]), 'read');
    await firstStore.close();
    await secondStore.close();
  },

  async 'waiting for a download of another store ends when it has stalled'(open) {
    const file = makeFile(19, 3);
    const [firstStore, secondStore] = [await open(), await open({ stallTimeout: 100 })];
    const [first, second] = [await firstStore.open(file.options), await secondStore.open(file.options)];
    await first.write(0, file.data[0]);
    equal([await second.waitFor(0), await second.waitFor(1), second.role], [true, false, 'reader'], 'stalled');
    equal(await second.write(1, file.data[1]), false, 'the first store is still the writer');
    await first.write(1, file.data[1]);
    await until('the chunk that the first store has written', () => second.has(1));
    equal([await second.waitFor(1), await second.waitFor(2)], [true, false], 'the download continues and stalls again');
    await firstStore.close();
    await secondStore.close();
  },

  async 'a store that is closed while it waits to become the writer releases the file'(open) {
    const file = makeFile(21, 3);
    for (let round = 0; round < 20; round++) {
      const [firstStore, secondStore] = [await open(), await open()];
      const [first, second] = [await firstStore.open(file.options), await secondStore.open(file.options)];
      await first.write(0, file.data[0]);
      const waiting = second.waitFor(2);
      await firstStore.close(); // The second store may now become the writer.
      await secondStore.close();
      await waiting;
      const other = await open();
      await other.clear(); // Throws IN_USE if the file is still in use.
      await other.close();
    }
  },

  async 'of several stores that open a new file at the same time one is the writer'(open) {
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

  async 'files can be listed, pinned and deleted; files in use are not deleted'(open) {
    const [a, b] = [makeFile(8, 2), makeFile(9, 1)];
    const [store, other] = [await open(), await open()];
    await writeFile(store, a);
    await writeFile(store, b, 0);
    const [{ key }, ...rest] = (await store.list()).sort((x, y) => y.fileBytes - x.fileBytes);
    equal(rest.length, 1, 'two files');
    await store.pin(key);
    const items = (await other.list())
      .sort((x, y) => y.fileBytes - x.fileBytes)
      .map(({ lastUsed, key: _, ...file }) => ({ ...file, recent: Math.abs(Date.now() - lastUsed) < 60_000 }));
    equal(
      items,
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
    equal(await codeOf(() => store.delete(key)), 'IN_USE', 'in use by the other store');
    check(same(await entry.read(1), a.data[1]), 'still stored');
    await entry.close();
    await store.delete(key);
    equal(
      (await store.list()).map(({ name }) => name),
      ['file-9.bq4'],
      'deleted',
    );
    equal(await store.find(a.options.url), null, 'find after delete');
    await store.delete(key); // Deleting again is no error.
    await store.clear();
    equal(await store.list(), [], 'cleared');
    await store.close();
    await other.close();
  },

  async 'the least recently used file is deleted first; pinned and open files are not deleted'(open) {
    const files = [10, 11, 12, 13].map((seed) => makeFile(seed, 2));
    const { fileBytes } = files[0];
    const store = await open({ maxBytes: 3 * fileBytes + 1000 });
    const names = async () => (await store.list()).map(({ fileId }) => Number(fileId)).sort();
    for (const file of files.slice(0, 3)) {
      await writeFile(store, file);
      await waitForNextDate();
    }
    equal(await names(), [10, 11, 12], 'all three files fit');
    await (await store.open(files[0].options)).close(); // File 11 is now the least recently used one.
    await waitForNextDate();
    await writeFile(store, files[3]);
    equal(await names(), [10, 12, 13], 'file 11 was deleted');
    await store.pin((await store.open(files[2].options).then(async (entry) => (await entry.close(), entry))).key);
    await waitForNextDate();
    const openEntry = await store.open(files[0].options);
    await writeFile(store, files[1]);
    equal(await names(), [10, 11, 12], 'file 13 was deleted, the only one that is neither pinned nor open');
    // A file that does not fit even after all possible deletions is not started, and no file is deleted for it.
    const large = await store.open(makeFile(14, 4).options);
    equal([large.problem?.code, await large.write(0, noise(1, MIB))], ['QUOTA', false], 'too large');
    await large.close();
    equal(await names(), [10, 11, 12], 'no file was deleted');
    check(same(await openEntry.read(1), files[0].data[1]), 'the open file is intact');
    await store.close();
  },

  async 'another file at the same address replaces the old one'(open) {
    const [oldFile, newFile] = [makeFile(15, 2), makeFile(16, 2)];
    newFile.options.url = oldFile.options.url;
    const store = await open();
    await writeFile(store, oldFile);
    await writeFile(store, newFile, 1);
    equal(
      (await store.list()).map(({ fileId }) => Number(fileId)),
      [16],
      'one file',
    );
    equal((await store.find(oldFile.options.url))?.fileId, newFile.options.fileId, 'find');
    // An address with another query, such as a new signature, is the same address.
    const signedUrl = `${oldFile.options.url}?signature=2`;
    const entry = await store.open({ ...newFile.options, url: signedUrl });
    equal([entry.has(0), entry.has(1)], [true, false], 'stored chunks');
    await entry.close();
    equal((await store.find(signedUrl))?.fileId, newFile.options.fileId, 'find with another query');
    await store.close();
  },

  async 'a file does not replace one at another address, even with the same id and header'(open) {
    const good = makeFile(17, 2);
    const store = await open();
    await writeFile(store, good);
    const { prefix } = makeFile(18, 2);
    const lookAlikes = {
      'the same id and lengths': { ...good.options, prefix, url: 'https://other.test/a.bq4' },
      'the same header, too': { ...good.options, url: 'https://other.test/file-17.bq4' },
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
    check(
      same(await entry.readPrefix(), good.prefix) && same(await entry.read(0), good.data[0]),
      'the first file is unchanged',
    );
    await entry.close();
    await store.close();
  },

  async 'a file whose header has SHA-256 hashes of all chunks is the same at every address'(open) {
    const file = makeFile(19, 2);
    const store = await open();
    await writeFile(store, { ...file, options: { ...file.options, sealed: true } });
    const url = 'https://mirror.test/m.bq4?token=1';
    const entry = await store.open({ ...file.options, sealed: true, url });
    equal([entry.has(0), entry.has(1)], [true, true], 'stored chunks');
    await entry.close();
    equal((await store.find(url))?.complete, true, 'find with the other address');
    await store.close();
  },

  async 'keys that the store has not created are refused, and no file outside the store is changed'(open) {
    const file = makeFile(21, 1);
    const store = await open();
    await writeFile(store, file);
    const [{ key }] = await store.list();
    const wrongKeys = [
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
    for (const other of /** @type {any[]} */ (wrongKeys)) {
      equal(await codeOf(() => store.delete(other)), 'ARGUMENT', `delete ${JSON.stringify(other)}`);
      equal(await codeOf(() => store.pin(other)), 'ARGUMENT', `pin ${JSON.stringify(other)}`);
    }
    const unknown = `0${key.slice(1)}` === key ? `1${key.slice(1)}` : `0${key.slice(1)}`;
    equal(await codeOf(() => store.pin(unknown)), 'ARGUMENT', 'pin of an unknown file');
    await store.delete(unknown);
    equal(
      (await store.list()).map((item) => [item.key, item.complete]),
      [[key, true]],
      'the list is unchanged',
    );
    await store.close();
  },

  async 'after a failed write the entry writes no more, and throws no error'(open) {
    const file = makeFile(17, 3);
    const store = await open();
    const entry = await store.open(file.options);
    await entry.write(0, file.data[0]);
    equal(await entry.write(1, file.data[1].subarray(1)), false, 'wrong length');
    equal([entry.problem?.name, entry.problem?.code], ['BqError', 'ARGUMENT'], 'problem');
    equal(
      [await entry.write(1, file.data[1]), await entry.waitFor(1), await entry.read(1)],
      [false, false, null],
      'after the failure',
    );
    check(same(await entry.read(0), file.data[0]), 'a stored chunk can be read');
    const second = await store.open(file.options);
    equal([second.role, await second.write(1, file.data[1])], ['writer', true], 'another entry can write');
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

/** Runs a test with a store of its own, which is deleted afterwards. @param {string} name  of the test @param {{ backend: any, path?: string }} options  of the store */
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
