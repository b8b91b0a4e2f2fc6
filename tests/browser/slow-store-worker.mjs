// Loads a model into a store that is slower than the network, and sends notes (notes.mjs) of verified and of stored chunks.
import { createEngine, fromUrl } from '/js/node.js';
import { Entry } from '/js/storage/cache/entry.js';
import { PREFIX } from '/js/storage/cache/layout.js';

let notesUrl = '';
const sendNote = (text) => fetch(notesUrl + text);
const { write } = Entry.prototype;
Entry.prototype.write = async function (c, bytes, hash) {
  if (c === PREFIX) return write.call(this, c, bytes, hash);
  // A chunk that is stored before the engine reads it is written with its hash, which has been checked.
  const [before, after] = hash === undefined ? ['verified', 'kept'] : ['ahead', 'stored'];
  await sendNote(`${before} ${c}`);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const stored = await write.call(this, c, bytes, hash);
  await sendNote(`${after} ${c}`);
  return stored;
};

onmessage = async ({ data: [url, address] }) => {
  notesUrl = address;
  const engine = await createEngine({ threads: 1, build: 'simd128', cache: 'auto' });
  await engine.load(fromUrl(url));
};
