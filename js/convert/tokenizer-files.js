/** Reads tokenizers in all supported file formats. */
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { diskFolder, readBytes, readText } from './folder.js';
import { openBytes } from '../storage/sources/bytes.js';
import { readHeader } from '../format/gguf/header.js';
import { tokenizerFromGguf } from '../format/gguf/tokenizer.js';
import { parseGpt2, parseJson } from '../text/tokenizers/gpt2.js';
import { parseHfTokenizer } from '../text/tokenizers/hf-json.js';
import { parseLlama2c } from '../text/tokenizers/llama2c.js';
import { parseSentencePiece } from '../text/tokenizers/sentencepiece.js';
import { isRanks, parseTiktoken } from '../text/tokenizers/tiktoken.js';
import { parseVocabTxt } from '../text/tokenizers/wordlist.js';

/** @typedef {import('../text/tokenizers/section.js').Tokenizer} Tokenizer */
/** @typedef {import('./folder.js').Folder} Folder */

/** Names of the two files of a GPT-2 vocabulary. */
const GPT2_FILES = [
  ['encoder.json', 'vocab.bpe'],
  ['vocab.json', 'merges.txt'],
];
/** Files in the folder of a tokenizer that specify special tokens, in order of precedence. */
const HINT_FILES = ['generation_config.json', 'config.json', 'tokenizer_config.json', 'special_tokens_map.json'];

/**
 * Reads a tokenizer: tokenizer.json, tokenizer.model, the two files of a GPT-2 vocabulary (`name` is either),
 * *.tiktoken, a GGUF file, a .txt file with a token per line, or tokenizer.bin of llama2.c. Throws READ, FORMAT,
 * UNSUPPORTED.
 * @param {Folder} folder
 * @param {string} name
 * @param {{ vocab: number }} model  vocabulary size of the model
 * @returns {Promise<Tokenizer>}
 */
export async function readTokenizer(folder, name, { vocab }) {
  const bytes = await readBytes(folder, name);
  const text = () => new TextDecoder().decode(bytes);
  const pair = GPT2_FILES.find((names) => names.includes(name));
  try {
    if (pair) {
      const [encoder, merges] = await Promise.all(pair.map((file) => readText(folder, file)));
      return parseGpt2(encoder, merges);
    }
    if (name.endsWith('.json')) return parseHfTokenizer(text(), await readHints(folder));
    if (name.endsWith('.txt')) return parseVocabTxt(text());
    if (name.endsWith('.tiktoken') || isRanks(bytes)) return parseTiktoken(text());
    if (name.endsWith('.model')) return parseSentencePiece(bytes, await readHints(folder));
    if (String.fromCharCode(...bytes.subarray(0, 4)) === 'GGUF')
      return tokenizerFromGguf((await readHeader(openBytes(bytes), bytes)).metadata);
    return parseLlama2c(bytes, vocab);
  } catch (error) {
    if (!(error instanceof BqError) || error.code === 'READ') throw error;
    throw new BqError(error.code, `${folder.path}/${name}: ${error.message}`, { hint: error.hint, cause: error });
  }
}

/**
 * Like readTokenizer, for the path of a file on disk (Node only).
 * @param {string} path @param {{ vocab: number }} model
 */
export async function readTokenizerFile(path, model) {
  const { basename, dirname } = await nodeModule('path');
  const { statSync } = await nodeModule('fs');
  if (!statSync(path, { throwIfNoEntry: false })?.isFile())
    throw new BqError('READ', `${path} can't be read: there is no such file`, { hint: 'check the path' });
  return readTokenizer(await diskFolder(dirname(path)), basename(path), model);
}

/**
 * Reads the special tokens that HINT_FILES specify.
 * @param {Folder} folder
 * @returns {Promise<import('../text/tokenizers/hf-json.js').Hints>}
 */
async function readHints(folder) {
  /** @type {any[]} */
  const files = [];
  for (const name of HINT_FILES.filter(folder.has))
    files.push(parseJson(await readText(folder, name), `${folder.path}/${name}`));
  const hint = (/** @type {string} */ name) => {
    const values = files.flatMap((file) => [file?.[`${name}_token_id`], file?.[`${name}_token`]].flat());
    return values
      .map((value) => value?.content ?? value)
      .find((value) => typeof value === 'number' || typeof value === 'string');
  };
  const ends = files.map((file) => file?.eos_token_id).find(Array.isArray);
  const flag = (/** @type {string} */ name) =>
    files.map((file) => file?.[name]).find((value) => typeof value === 'boolean');
  return {
    bos: hint('bos'),
    eos: hint('eos'),
    pad: hint('pad'),
    eog: ends ?? [],
    addBos: flag('add_bos_token'),
    addEos: flag('add_eos_token'),
  };
}
