#!/usr/bin/env node
// Writes build/tokenizers/NAME.tokn and NAME.cases for tests/c/test_tokenizer_files.c: TOKN sections of
// vocabularies that others made, and what those who made them say of texts. From the committed
// tests/golden/tokenizers/*.json and, where it is present, the shared data.
//
// A .cases file: u32 number of cases; per case u32 flags, u32 bytes of the text, u32 number of ids,
// the text, the ids.
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

/** Bits of a case's flags. @param {Case} c */
const flagsOf = ({ addSpecial, parseSpecial, encode, decode, words }) =>
  (addSpecial ? 1 : 0) | (parseSpecial ? 2 : 0) | (encode ? 4 : 0) | (decode ? 8 : 0) | (words ? 16 : 0);

/** @param {Case[]} cases */
function encodeCases(cases) {
  const parts = [Buffer.from(Uint32Array.of(cases.length).buffer)];
  for (const one of cases) {
    const { text, ids } = one;
    const bytes = Buffer.from(text);
    parts.push(
      Buffer.from(Uint32Array.of(flagsOf(one), bytes.length, ids.length).buffer),
      bytes,
      Buffer.from(Uint32Array.from(ids).buffer),
    );
  }
  return Buffer.concat(parts);
}

/** @param {string} name @param {Tokenizer} tokenizer @param {Case[]} cases */
function write(name, tokenizer, cases) {
  writeFileSync(join(OUT, `${name}.tokn`), encodeTokenizer(tokenizer));
  writeFileSync(join(OUT, `${name}.cases`), encodeCases(cases));
  console.log(`${name}: ${tokenizer.tokens.length} tokens, ${tokenizer.merges.length} merges, ${cases.length} cases`);
}

/** llama.cpp's pairs of files. @param {string} path without .inp and .out @returns {Case[]} */
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

/** @returns {Case[]} */
function r50kCases() {
  const blocks = readFileSync(join(DATA, 'tokenizers', 'r50k_cases.txt'), 'utf8')
    .split(/^EncodingName: r50k_base\n/m)
    .slice(1);
  return blocks.map((block) => {
    const [, text, ids] = /^Sample: ([^]*?)\nEncoded: (\[.*\])\s*$/.exec(block) ?? [];
    return { text, ids: JSON.parse(ids), encode: true, decode: true };
  });
}

/** Text and ids that a model wrote by itself, after BOS. @returns {Case[]} */
function stories() {
  const file = readFileSync(join(DATA, 'models', 'stories260K.greedy200.txt'), 'utf8');
  const [, text, ids] = /^([^]*)\nids (\[.*\])\n/.exec(file) ?? [];
  return [{ text, ids: JSON.parse(ids), addSpecial: true, encode: true, decode: true }];
}

function committed() {
  for (const name of ['spm', 'spm-unknown', 'bpe', 'bpe-words', 'bpe-llama-3']) {
    const { tokenizer, cases } = goldenTokenizer(name);
    write(name, tokenizer, cases);
  }
  for (const { name, tokenizer, cases } of goldenSplits()) write(`split-${name}`, tokenizer, cases);
  write('utf8', allBytes(), textDecoderCases());
}

/** Byte strings, each byte a token, and what TextDecoder makes of them. @returns {Case[]} */
function textDecoderCases() {
  const interesting = [
    0, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0,
    0xf1, 0xf3, 0xf4, 0xf5, 0xff,
  ];
  /** @type {number[][]} */
  const strings = [[]];
  for (let i = 0; strings[i].length < 3; i++) for (const byte of interesting) strings.push([...strings[i], byte]);
  let seed = 1;
  const random = (/** @type {number} */ n) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 16) % n;
  };
  for (let i = 0; i < 5000; i++)
    strings.push(Array.from({ length: 4 + random(9) }, () => interesting[random(interesting.length)]));
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return strings.map((ids) => ({ text: decoder.decode(Uint8Array.from(ids)), ids, decode: true }));
}

/** @returns {Tokenizer} */
function allBytes() {
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

async function shared() {
  const at = (/** @type {string[]} */ ...path) => join(DATA, ...path);
  const read = (/** @type {string} */ path, vocab = 0) => readTokenizerFile(path, { vocab });
  /** @type {Record<string, string | number>[]} */
  const rows = [];
  /** @param {string} name @param {string} tokenizer @param {string} source @param {Tokenizer} read @param {Record<string, Case[]>} against */
  const reportOf = (name, tokenizer, source, read, against) => {
    write(name, read, Object.values(against).flat());
    for (const [library, cases] of Object.entries(against))
      rows.push({ tokenizer, source, cases: cases.filter(({ encode }) => encode).length, against: library });
  };
  for (const [name, title] of Object.entries({ 'llama-spm': 'Llama 2', 'gpt-2': 'GPT-2' })) {
    const path = at('tokenizers', `ggml-vocab-${name}.gguf`);
    reportOf(name, title, 'GGUF', await read(path), { 'llama.cpp': ggmlCases(path) });
  }
  const bge = at('tokenizers', 'ggml-vocab-bert-bge.gguf');
  const oneWay = ggmlCases(bge).map((one) => ({ ...one, decode: false }));
  reportOf('bert-bge', 'BERT (bge)', 'GGUF', await read(bge), { 'llama.cpp': oneWay });
  const gpt2 = { 'llama.cpp': ggmlCases(at('tokenizers', 'ggml-vocab-gpt-2.gguf')), 'gpt-tokenizer': r50kCases() };
  reportOf('gpt-2-files', 'GPT-2', 'encoder.json, vocab.bpe', await read(at('tokenizers', 'vocab.bpe')), gpt2);
  reportOf('r50k', 'GPT-2 (r50k)', '.tiktoken', await read(at('tokenizers', 'r50k_base.tiktoken')), gpt2);
  const tok512 = await read(at('models', 'tok512.bin'), 512);
  reportOf('tok512', 'stories260K', 'tokenizer.bin of llama2.c', tok512, { 'a text of llama2.c': stories() });
  const chat = goldenCases('chat-5m');
  reportOf('chat-5m', 'bundled model', 'tokenizer.json', await read(at('models', 'chat-5m', 'tokenizer.json')), {
    'PyPI tokenizers': chat,
  });
  modelRows('tokenizers', 'shared', rows);
}

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
committed();
if (existsSync(DATA)) await shared();
else console.log(`no shared data at ${DATA}`);
