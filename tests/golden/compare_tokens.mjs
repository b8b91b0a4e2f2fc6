#!/usr/bin/env node
// `node tests/golden/compare_tokens.mjs PROGRAM FILE.gguf [PRE…]`: compares the tokens of random strings by a file's tokenizer with those of
// llama.cpp (PROGRAM is built from llama_values.c), and the tokens that end a text. PRE replaces the file's pre-tokenizer; "all" stands for
// all that are supported. Prints the strings with other tokens; ends with 1 if there are any. Explained differences: some tokenizers compose
// characters first (NFC), as their originals do, and llama.cpp does not, nor does it split by case as the original of youtu; bq4 removes
// accents and splits Chinese characters as BERT's own tokenizer does.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { readHeader } from '../../js/format/gguf/header.js';
import { tokenizerFromGguf } from '../../js/format/gguf/tokenizer.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { PATTERNS } from '../../js/text/tokenizers/patterns.js';
import { CONFIG, random, tinyModel } from '../js/fixture.mjs';
import { gguf } from '../js/gguf-writer.mjs';
import { readTokenizer } from './gguf_file.mjs';

/** @import { Value } from '../js/gguf-writer.mjs' */

const [STRINGS, SHOWN, CONTEXT] = [600, 5, 4096];
const WORDS =
  "Hello hello WORLD HeLLo iPhone don't I'VE 's 'S 'LL ’s 1 12 123 1234567 3.14 ١٢٣ ² ½ Ⅷ ① ፩ 。 ， ! ?! ... … “q” $ € ^^ ` ~ | <=> [x] {} # @user http://x.y/z _a_b é ñ Å ﬁ ß ẞ ſ İ ı ǅ ʰ ª Ω " +
  'привет ПРИВЕТ שלום سلام नमस्ते हिन्दी ไทย မြန်မာ 中文 日本語 カタカナ ひらがな 한국어 ㄱㄴ ㄅㄆ 🙂 👨‍👩‍👧 🇩🇪 👍🏽 𐐀 𝔘 𞤀 Ա ა Ა Ꟁ 々 〇 <|im_end|> <s> </s> <unk> [CLS] <mask> ▁ ▁▁ Ġ <0x0A> ';
/** Spaces, control characters, unassigned and combining ones. */
const OTHERS = [
  ...[' ', '  ', '    ', '\n', '\n\n', '\r\n', '\t', '\v', '\f', '\u00a0', '\u3000', '\u2028', '\u200b', '\u200d', '\ufeff', '\u0085'],
  ...['\0', '\x01', '\x7f', '\u0378', '\ue000', '\u{10ffff}', '\u{1f8ff}', 'e\u0301', '\u0301', ' \u0301', '\u093f', 'a\u0300\u0301', '\u0e33'],
];
const next = random(99);
const pick = (/** @type {string[]} */ list) => list[Math.floor(((next() + 1) / 2) * list.length) % list.length];
const PIECES = [...WORDS.trim().split(' '), ...OTHERS];
const TEXTS = ['', ...PIECES, ...Array.from({ length: STRINGS }, () => Array.from({ length: 2 + Math.floor(4 * (next() + 1)) }, () => pick(PIECES)).join(''))];

const [program, file, ...pre] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'bq4-tokens-'));
const engine = await createEngine({ threads: 1 });
let different = 0;

/** @param {Record<string, Value>} metadata @param {string} title */
async function compare(metadata, title) {
  const bytes = gguf({ 'general.architecture': ['text', 'llama'], ...metadata }, []);
  const tokenizer = tokenizerFromGguf((await readHeader(openBytes(bytes), bytes)).metadata);
  const config = { ...CONFIG, layers: 1, hidden: 8, heads: 1, kv_heads: 1, ffn: 8, vocab: tokenizer.packed.kinds.length, context: CONTEXT };
  const model = await engine.load(fromBytes(await tinyModel({ config, tokens: tokenizer, chat: null })), { contextTokens: CONTEXT });
  writeFileSync(join(folder, 'vocabulary.gguf'), bytes);
  const llama = spawn(program, ['tokens', join(folder, 'vocabulary.gguf')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: llama.stdout })[Symbol.asyncIterator]();
  const read = async () => (await lines.next()).value;
  const ends = await read();
  const found = [];
  if (ends === undefined) console.log(`${title}: refused by llama.cpp`);
  else
    for (const [addSpecial, parseSpecial] of [[false, false], [false, true], [true, true]])
      for (const text of TEXTS) {
        const utf8 = Buffer.from(text);
        llama.stdin.write(Buffer.concat([Buffer.from(`${Number(addSpecial)} ${Number(parseSpecial)} ${utf8.length}\n`), utf8]));
        const [expected, ids] = [await read(), JSON.stringify([...(await model.tokenize(text, { addSpecial, parseSpecial }))])];
        if (ids !== expected) found.push(`  ${JSON.stringify(text)}: ${ids}; llama.cpp: ${expected}`);
      }
  llama.stdin.end();
  await model.close();
  const endIds = JSON.stringify([...tokenizer.eog].sort((a, b) => a - b));
  if (ends !== undefined && endIds !== ends) console.log(`${title}: end tokens ${endIds}; llama.cpp: ${ends}`);
  console.log(`${title}: ${found.length} different`);
  for (const line of found.slice(0, SHOWN)) console.log(line);
  different += found.length;
}

const metadata = readTokenizer(file);
const names = pre[0] === 'all' ? PATTERNS.flatMap((pattern) => pattern.names) : pre;
if (!names.length) await compare(metadata, file);
for (const name of names) await compare({ ...metadata, 'tokenizer.ggml.pre': ['text', name] }, name);
await engine.close();
rmSync(folder, { recursive: true });
process.exitCode = Number(different > 0);
