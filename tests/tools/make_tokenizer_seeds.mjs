#!/usr/bin/env node
// Writes tests/fuzz/corpus/tokenizer/: valid inputs from which tests/fuzz/fuzz_tokenizer.c starts.
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { encodeTokenizer, FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';

const OUT = fileURLToPath(new URL('../fuzz/corpus/tokenizer/', import.meta.url));
/** Bits of the mode byte: BOS and EOS are added to the text; special tokens in it are recognised. */
const [ADD_SPECIAL, PARSE_SPECIAL] = [8, 16];

const token = (/** @type {string} */ text, kind = /** @type {number} */ (TOKEN.normal), score = 0) => ({
  bytes: Buffer.from(text),
  score,
  kind,
});
const special = [
  token('<unk>', TOKEN.unknown),
  token('<s>', TOKEN.control),
  token('</s>', TOKEN.control),
  token('<sep>', TOKEN.user),
];
const head = { bos: 1, eos: 2, unk: 0, pad: NONE, eog: [2] };
const TEXT = " it's  a cat\n\n a\u00e9\u0967 <sep>\u2581cat</s>ca\u00e9 12\ufffd \xff";

const letters = [' ', 'a', 'c', 't'].map((text, i) => token(text, TOKEN.normal, -i));
const words = ['ca', 'cat', ' cat', ' a'].map((text, i) => token(text, TOKEN.normal, -i));
const bytes = [0xc3, 0xa9, 0x0a].map((byte) => ({ bytes: Uint8Array.of(byte), score: 0, kind: TOKEN.byte }));
const [space, a, c, t] = [4, 5, 6, 7];
const [ca, cat, spaceCat, spaceA] = [8, 9, 10, 11];
/** @type {[number, number, number][]} */
const merges = [
  [c, a, ca],
  [ca, t, cat],
  [space, cat, spaceCat],
  [space, a, spaceA],
];

const seeds = {
  spm: {
    ...head,
    kind: KIND.spm,
    flags: FLAG.addBos | FLAG.addSpace | FLAG.byteFallback,
    tokens: [...special, ...letters, ...words, ...bytes],
    merges: [],
  },
  bpe: {
    ...head,
    kind: KIND.bpe,
    flags: FLAG.addBos | FLAG.addEos,
    tokens: [...special, ...letters, ...words],
    merges,
  },
  'bpe-words': {
    ...head,
    kind: KIND.bpe,
    flags: FLAG.ignoreMerges,
    tokens: [...special, ...letters, ...words],
    merges: [],
  },
  wordlist: { ...head, kind: KIND.wordlist, flags: 0, tokens: [...special, ...words, ...bytes], merges: [] },
};

mkdirSync(OUT, { recursive: true });
for (const [name, tokenizer] of Object.entries(seeds)) {
  const section = encodeTokenizer(tokenizer);
  const start = Buffer.from([ADD_SPECIAL | PARSE_SPECIAL, section.length & 255, section.length >> 8]);
  writeFileSync(OUT + name, Buffer.concat([start, section, Buffer.from(TEXT)]));
}
