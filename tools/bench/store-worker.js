// Measures one round in the measured browser: the store and bare files of the same size, one after another.
import { openStore } from '../../js/storage/cache/index.js';

const MIB = 1 << 20;
/** Number of chunks of the file: 100 MB. */
const CHUNKS = 95;
/** Bytes of the file before its first chunk. */
const PREFIX = 65536;

const chunk = new Uint8Array(MIB);
for (let at = 0; at < MIB; at += 65536) crypto.getRandomValues(chunk.subarray(at, at + 65536));
const prefix = chunk.slice(0, PREFIX);
const buffer = new Uint8Array(MIB);

/** Returns the rate of `work`, which reads or writes all chunks, in MiB per second. @param {() => Promise<unknown>} work @returns {Promise<number>} */
async function measureRate(work) {
  const start = performance.now();
  await work();
  return CHUNKS / ((performance.now() - start) / 1e3);
}

/** Opens the bare file. @param {any} [options] @returns {Promise<any>}  sync access handle */
async function openBareFile(options) {
  const root = await navigator.storage.getDirectory();
  return /** @type {any} */ (await root.getFileHandle('bare', { create: true })).createSyncAccessHandle(options);
}

/** Returns a function that writes the bare file. @param {boolean} flushesChunks  whether each chunk is flushed */
const writeBareFile = (flushesChunks) => async () => {
  const handle = await openBareFile();
  for (let c = 0; c < CHUNKS; c++) {
    handle.write(chunk, { at: c * MIB });
    if (flushesChunks) handle.flush();
  }
  handle.flush();
  handle.close();
};

/** Writes the bare file, and opens it for each chunk. */
async function writeReopened() {
  for (let c = 0; c < CHUNKS; c++) {
    const handle = await openBareFile();
    handle.write(chunk, { at: c * MIB });
    handle.flush();
    handle.close();
  }
}

/** Returns a function that reads the bare file. @param {boolean} reusesBuffer  whether all chunks are read into one buffer */
const readBareFile = (reusesBuffer) => async () => {
  const handle = await openBareFile({ mode: 'read-only' });
  for (let c = 0; c < CHUNKS; c++) handle.read(reusesBuffer ? buffer : new Uint8Array(MIB), { at: c * MIB });
  handle.close();
};

const source = {
  url: 'https://bench.test/model.bq4',
  prefix,
  fileId: '1',
  fileBytes: PREFIX + CHUNKS * MIB,
  prefixBytes: PREFIX,
};

/** Returns a function that opens the store and the file, calls `work` and closes the store. @param {(entry: import('../../js/storage/cache/entry.js').Entry) => Promise<void>} work */
const usingEntry = (work) => async () => {
  const store = await openStore({ backend: 'opfs', name: 'bench' });
  const entry = await store.open(source);
  await work(entry);
  await store.close();
};

/** Writes the file to the store. */
const writeStore = usingEntry(async (entry) => {
  await entry.writePrefix(prefix);
  for (let c = 0; c < CHUNKS; c++) await entry.write(c, chunk, 0n);
  if (!entry.complete) throw entry.problem;
});

/** Returns a function that reads the file from the store. @param {boolean} reusesBuffer  whether all chunks are read into one buffer */
const readStore = (reusesBuffer) =>
  usingEntry(async (entry) => {
    for (let c = 0; c < CHUNKS; c++)
      if (!(await entry.read(c, undefined, reusesBuffer ? buffer : undefined)))
        throw new Error(`expected chunk ${c} in the store, found none`);
  });

/** Returns the rate of reading, without the time of opening and closing. */
async function measureOpenRead() {
  let result = 0;
  await usingEntry(async (entry) => {
    await entry.readPrefix();
    result = await measureRate(async () => {
      for (let c = 0; c < CHUNKS; c++)
        if (!(await entry.read(c, undefined, buffer))) throw new Error(`expected chunk ${c} in the store, found none`);
    });
  })();
  return result;
}

/** Deletes the bare file and the content of the store. */
async function clearFiles() {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry('bare').catch(() => {});
  const store = await openStore({ backend: 'opfs', name: 'bench' });
  await store.clear();
  await store.close();
}

onmessage = async () => {
  try {
    await clearFiles();
    /** @type {Record<string, number>} */
    const result = {
      'bare write': await measureRate(writeBareFile(false)),
      'store write': 0,
      'bare write, flushed': 0,
      'bare write, reopened': 0,
      'bare read': 0,
      'store read': 0,
      'store read, file open': 0,
      'bare read, new buffers': 0,
      'store read, new buffers': 0,
    };
    result['store write'] = await measureRate(writeStore);
    await (await navigator.storage.getDirectory()).removeEntry('bare');
    result['bare write, reopened'] = await measureRate(writeReopened);
    await (await navigator.storage.getDirectory()).removeEntry('bare');
    result['bare write, flushed'] = await measureRate(writeBareFile(true));
    result['bare read'] = await measureRate(readBareFile(true));
    result['store read'] = await measureRate(readStore(true));
    result['store read, file open'] = await measureOpenRead();
    result['bare read, new buffers'] = await measureRate(readBareFile(false));
    result['store read, new buffers'] = await measureRate(readStore(false));
    await clearFiles();
    postMessage({ rates: result });
  } catch (error) {
    postMessage({ error: String(/** @type {Error} */ (error).stack) });
  }
};
