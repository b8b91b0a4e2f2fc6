#!/usr/bin/env node
// Generates a text with a model, for calibration if no other text is available. It samples at temperature 1, starting with nothing or with
// a first word. If the model has a chat template, these texts alternate with replies. Seeds are fixed: a model always generates the same.
//   node tools/quality/own-text.mjs MODEL OUT.txt [TOKENS] [SEED]     default: 8192 tokens, seed 1
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';

const LENGTH = 400;
const WORDS = ['The', 'In', 'When', 'A', 'I', 'How', 'Once', 'It', 'For', 'She'];
const SUBJECTS = [
  ...['history', 'cooking', 'a story', 'science', 'a letter', 'travel'],
  ...['a computer program', 'music', 'health', 'nature', 'money', 'mathematics'],
];

/** @param {string} file @param {number} tokens @param {number} seed */
export async function ownText(file, tokens, seed) {
  const engine = await createEngine();
  const model = await engine.load(fromFile(file), { contextTokens: 512 });
  const begins = (await model.tokenize('')).length > 0; // nothing is a beginning where the tokenizer puts one
  const parts = [];
  for (let i = 0, left = tokens; left > 0; i++) {
    const drawn = { temperature: 1, topK: 0, topP: 1, maxTokens: LENGTH, seed: 1000 * seed + i };
    const word = begins ? '' : WORDS[(i >> 1) % WORDS.length];
    const chats = model.info.chatFormat && i % 2 === 1;
    const content = `Write about ${SUBJECTS[(i >> 1) % SUBJECTS.length]}.`;
    const { text, tokens: ids } = await (
      chats ? model.generate([{ role: 'user', content }], drawn) : model.generate(word, drawn)
    ).result;
    parts.push(`${chats ? '' : word}${text}`.trim());
    left -= ids.length;
    if (process.stderr.isTTY) process.stderr.write(`\r${Math.max(left, 0)} tokens to go `);
  }
  await engine.close();
  return `${parts.join('\n\n')}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file, out, tokens = '8192', seed = '1'] = process.argv.slice(2);
  writeFileSync(out, await ownText(file, Number(tokens), Number(seed)));
}
