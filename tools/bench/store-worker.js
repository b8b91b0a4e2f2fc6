// Measures one round in the browser under test: the store and bare files of the same size, one after another.
import { openStore } from '../../js/storage/cache/index.js';

const MIB = 1 << 20;
const CHUNKS = 95; // 100 MB
const PREFIX = 65536;

const chunk = new Uint8Array(MIB);
for (let at = 0; at < MIB; at += 65536) crypto.getRandomValues(chunk.subarray(at, at + 65536));
const prefix = chunk.slice(0, PREFIX);
const into = new Uint8Array(MIB);

/** @param {() => Promise<unknown>} work @returns {Promise<number>} MiB per second */
async function rate(work) {
  const since = performance.now();
  await work();
  return CHUNKS / ((performance.now() - since) / 1e3);
}

/** @param {any} [options] @returns {Promise<any>} a sync access handle */
async function bare(options) {
  const root = await navigator.storage.getDirectory();
  return /** @type {any} */ (await root.getFileHandle('bare', { create: true })).createSyncAccessHandle(options);
}

/** @param {boolean} flush  each chunk */
const bareWrite = (flush) => async () => {
  const handle = await bare();
  for (let c = 0; c < CHUNKS; c++) {
    handle.write(chunk, { at: c * MIB });
    if (flush) handle.flush();
  }
  handle.flush();
  handle.close();
};

async function reopenedWrite() {
  for (let c = 0; c < CHUNKS; c++) {
    const handle = await bare();
    handle.write(chunk, { at: c * MIB });
    handle.flush();
    handle.close();
  }
}

/** @param {boolean} reuse  one buffer for all */
const bareRead = (reuse) => async () => {
  const handle = await bare({ mode: 'read-only' });
  for (let c = 0; c < CHUNKS; c++) handle.read(reuse ? into : new Uint8Array(MIB), { at: c * MIB });
  handle.close();
};

const source = {
  url: 'https://bench.test/model.bq4',
  prefix,
  fileId: '1',
  fileBytes: PREFIX + CHUNKS * MIB,
  prefixBytes: PREFIX,
};

/** @param {(entry: import('../../js/storage/cache/entry.js').Entry) => Promise<void>} work */
const withEntry = (work) => async () => {
  const store = await openStore({ backend: 'opfs', name: 'bench' });
  const entry = await store.open(source);
  await work(entry);
  await store.close();
};

const storeWrite = withEntry(async (entry) => {
  await entry.writePrefix(prefix);
  for (let c = 0; c < CHUNKS; c++) await entry.write(c, chunk, 0n);
  if (!entry.complete) throw entry.problem;
});

/** @param {boolean} reuse */
const storeRead = (reuse) =>
  withEntry(async (entry) => {
    for (let c = 0; c < CHUNKS; c++)
      if (!(await entry.read(c, undefined, reuse ? into : undefined))) throw new Error('not there');
  });

/** Returns the rate of reading, without the time of opening and closing. */
async function openRead() {
  let result = 0;
  await withEntry(async (entry) => {
    await entry.readPrefix();
    result = await rate(async () => {
      for (let c = 0; c < CHUNKS; c++) if (!(await entry.read(c, undefined, into))) throw new Error('not there');
    });
  })();
  return result;
}

async function clear() {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry('bare').catch(() => {});
  const store = await openStore({ backend: 'opfs', name: 'bench' });
  await store.clear();
  await store.close();
}

onmessage = async () => {
  try {
    await clear();
    /** @type {Record<string, number>} */
    const result = {
      'bare write': await rate(bareWrite(false)),
      'store write': 0,
      'bare write, flushed': 0,
      'bare write, reopened': 0,
      'bare read': 0,
      'store read': 0,
      'store read, file open': 0,
      'bare read, new buffers': 0,
      'store read, new buffers': 0,
    };
    result['store write'] = await rate(storeWrite);
    await (await navigator.storage.getDirectory()).removeEntry('bare');
    result['bare write, reopened'] = await rate(reopenedWrite);
    await (await navigator.storage.getDirectory()).removeEntry('bare');
    result['bare write, flushed'] = await rate(bareWrite(true));
    result['bare read'] = await rate(bareRead(true));
    result['store read'] = await rate(storeRead(true));
    result['store read, file open'] = await openRead();
    result['bare read, new buffers'] = await rate(bareRead(false));
    result['store read, new buffers'] = await rate(storeRead(false));
    await clear();
    postMessage({ ok: result });
  } catch (error) {
    postMessage({ error: String(/** @type {Error} */ (error).stack) });
  }
};
