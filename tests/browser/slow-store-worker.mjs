// Loads a model into a store that is slower than the network, and notes (notes.mjs) what was verified and what is kept.
import { createEngine, fromUrl } from '/js/node.js';
import { Entry } from '/js/storage/cache/entry.js';
import { PREFIX } from '/js/storage/cache/layout.js';

let notes = '';
const note = (text) => fetch(notes + text);
const { write } = Entry.prototype;
Entry.prototype.write = async function (c, bytes, hash) {
  if (c === PREFIX) return write.call(this, c, bytes, hash);
  // With a hash comes what is kept ahead of its turn: its hash is right, the engine has not seen it yet.
  const [before, after] = hash === undefined ? ['verified', 'kept'] : ['ahead', 'stored'];
  await note(`${before} ${c}`);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const there = await write.call(this, c, bytes, hash);
  await note(`${after} ${c}`);
  return there;
};

onmessage = async ({ data: [url, to] }) => {
  notes = to;
  const engine = await createEngine({ threads: 1, build: 'simd128', cache: 'auto' });
  await engine.load(fromUrl(url));
};
