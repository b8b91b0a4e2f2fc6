#!/usr/bin/env node
// Writes build/tokenizers/NAME.tokn and NAME.cases for tests/c/test_tokenizer_files.c: TOKN sections of
// vocabularies of other programs, and the tokens that these programs give for texts. The sources are
// tests/golden/tokenizers/*.json and, if it is present, the shared data.
//
// A .cases file has a u32 number of cases; for each case u32 flags, u32 bytes of the text, u32 number of
// tokens, the text, the tokens (u32).
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readTokenizerFile } from '../../js/convert/tokenizer-files.js';
import { encodeTokenizer, FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';
import { modelRows } from '../models-report.mjs';
import { goldenCases, goldenSplits, goldenTokenizer } from './golden_tokenizers.mjs';

/** @typedef {import('../../js/text/tokenizers/section.js').Tokenizer} Tokenizer */
/** @typedef {import('./golden_tokenizers.mjs').Case} Case */

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const OUT = join(ROOT, 'build', 'tokenizers');
const DATA = join(process.env.BQ4_SHARED ?? join(ROOT, '..', 'shared'), 'data');

/** The flags of a case as bits. @param {Case} c */
const flagsOf = ({ addSpecial, parseSpecial, encode, decode, words }) =>
  (addSpecial ? 1 : 0) | (parseSpecial ? 2 : 0) | (encode ? 4 : 0) | (decode ? 8 : 0) | (words ? 16 : 0);

/** The bytes of a .cases file. @param {Case[]} cases */
function encodeCases(cases) {
  const parts = [Buffer.from(Uint32Array.of(cases.length).buffer)];
  for (const entry of cases) {
    const { text, ids } = entry;
    const bytes = Buffer.from(text);
    parts.push(
      Buffer.from(Uint32Array.of(flagsOf(entry), bytes.length, ids.length).buffer),
      bytes,
      Buffer.from(Uint32Array.from(ids).buffer),
    );
  }
  return Buffer.concat(parts);
}

/** Writes the two files of a tokenizer. @param {string} name @param {Tokenizer} tokenizer @param {Case[]} cases */
function writeFiles(name, tokenizer, cases) {
  writeFileSync(join(OUT, `${name}.tokn`), encodeTokenizer(tokenizer));
  writeFileSync(join(OUT, `${name}.cases`), encodeCases(cases));
  console.log(`${name}: ${tokenizer.tokens.length} tokens, ${tokenizer.merges.length} merges, ${cases.length} cases`);
}

/** Cases of llama.cpp's pairs of files. @param {string} path  without .inp and .out @returns {Case[]} */
function ggmlCases(path) {
  const texts = readFileSync(`${path}.inp`, 'utf8').split('\n__ggml_vocab_test__\n').slice(0, -1);
  const lines = readFileSync(`${path}.out`, 'utf8').split('\n').slice(0, texts.length);
  return texts.map((text, i) => ({
    text,
    ids: lines[i].split(' ').filter(Boolean).map(Number),
    encode: true,
    decode: true,
  }));
}

/** Cases of gpt-tokenizer for r50k_base. @returns {Case[]} */
function r50kCases() {
  const blocks = readFileSync(join(DATA, 'tokenizers', 'r50k_cases.txt'), 'utf8')
    .split(/^EncodingName: r50k_base\n/m)
    .slice(1);
  return blocks.map((block) => {
    const [, text, ids] = /^Sample: ([^]*?)\nEncoded: (\[.*\])\s*$/.exec(block) ?? [];
    return { text, ids: JSON.parse(ids), encode: true, decode: true };
  });
}

/** The text and the tokens that a model generated after BOS. @returns {Case[]} */
function storyCases() {
  const file = readFileSync(join(DATA, 'models', 'stories260K.greedy200.txt'), 'utf8');
  const [, text, ids] = /^([^]*)\nids (\[.*\])\n/.exec(file) ?? [];
  return [{ text, ids: JSON.parse(ids), addSpecial: true, encode: true, decode: true }];
}

/** Writes the files of the committed tokenizers. */
function writeGoldenTokenizers() {
  for (const name of ['spm', 'spm-unknown', 'bpe', 'bpe-words', 'bpe-llama-3']) {
    const { tokenizer, cases } = goldenTokenizer(name);
    writeFiles(name, tokenizer, cases);
  }
  for (const { name, tokenizer, cases } of goldenSplits()) writeFiles(`split-${name}`, tokenizer, cases);
  writeFiles('utf8', byteTokenizer(), textDecoderCases());
}

/** Byte strings, in which each byte is a token, and the texts that TextDecoder gives for them. @returns {Case[]} */
function textDecoderCases() {
  // Both ends of each range of bytes in the definition of UTF-8.
  const edgeBytes = [
    0, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0,
    0xf1, 0xf3, 0xf4, 0xf5, 0xff,
  ];
  /** @type {number[][]} */
  const strings = [[]];
  for (let i = 0; strings[i].length < 3; i++) for (const byte of edgeBytes) strings.push([...strings[i], byte]);
  let seed = 1;
  const random = (/** @type {number} */ n) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 16) % n;
  };
  for (let i = 0; i < 5000; i++)
    strings.push(Array.from({ length: 4 + random(9) }, () => edgeBytes[random(edgeBytes.length)]));
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return strings.map((ids) => ({ text: decoder.decode(Uint8Array.from(ids)), ids, decode: true }));
}

/** A tokenizer with a token for each byte. @returns {Tokenizer} */
function byteTokenizer() {
  const tokens = Array.from({ length: 256 }, (_, byte) => ({ bytes: Uint8Array.of(byte), score: 0, kind: TOKEN.byte }));
  return {
    kind: KIND.spm,
    flags: FLAG.byteFallback,
    bos: NONE,
    eos: NONE,
    unk: NONE,
    pad: NONE,
    eog: [],
    tokens,
    merges: [],
  };
}

/** Writes the files of the tokenizers in the shared data, and their rows of docs/MODELS.md. */
async function writeSharedTokenizers() {
  const at = (/** @type {string[]} */ ...path) => join(DATA, ...path);
  const read = (/** @type {string} */ path, vocab = 0) => readTokenizerFile(path, { vocab });
  /** @type {Record<string, string | number>[]} */
  const rows = [];
  /** @param {string} name @param {string} tokenizer @param {string} source @param {Tokenizer} data @param {Record<string, Case[]>} against  cases by library */
  const report = (name, tokenizer, source, data, against) => {
    writeFiles(name, data, Object.values(against).flat());
    for (const [library, cases] of Object.entries(against))
      rows.push({ tokenizer, source, cases: cases.filter(({ encode }) => encode).length, against: library });
  };
  for (const [name, title] of Object.entries({ 'llama-spm': 'Llama 2', 'gpt-2': 'GPT-2' })) {
    const path = at('tokenizers', `ggml-vocab-${name}.gguf`);
    report(name, title, 'GGUF', await read(path), { 'llama.cpp': ggmlCases(path) });
  }
  const bge = at('tokenizers', 'ggml-vocab-bert-bge.gguf');
  // BERT's normalization changes texts, so they cannot be compared after decoding.
  const bgeCases = ggmlCases(bge).map((entry) => ({ ...entry, decode: false }));
  report('bert-bge', 'BERT (bge)', 'GGUF', await read(bge), { 'llama.cpp': bgeCases });
  const gpt2 = { 'llama.cpp': ggmlCases(at('tokenizers', 'ggml-vocab-gpt-2.gguf')), 'gpt-tokenizer': r50kCases() };
  report('gpt-2-files', 'GPT-2', 'encoder.json, vocab.bpe', await read(at('tokenizers', 'vocab.bpe')), gpt2);
  report('r50k', 'GPT-2 (r50k)', '.tiktoken', await read(at('tokenizers', 'r50k_base.tiktoken')), gpt2);
  const tok512 = await read(at('models', 'tok512.bin'), 512);
  report('tok512', 'stories260K', 'tokenizer.bin of llama2.c', tok512, { 'a text of llama2.c': storyCases() });
  const chat = goldenCases('chat-5m');
  report('chat-5m', 'bundled model', 'tokenizer.json', await read(at('models', 'chat-5m', 'tokenizer.json')), {
    'PyPI tokenizers': chat,
  });
  modelRows('tokenizers', 'shared', rows);
}

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
writeGoldenTokenizers();
if (existsSync(DATA)) await writeSharedTokenizers();
else console.log(`no shared data at ${DATA}: its tokenizers are left out`);
