#!/usr/bin/env node
// Generates a text with a model, for calibration if no other text is available. It samples at temperature 1, starting with nothing or with
// a first word. If the model has a chat template, these texts alternate with replies. Seeds are fixed: a model always generates the same.
//   node tools/quality/own-text.mjs MODEL OUT.txt [TOKENS] [SEED]     default: 8192 tokens, seed 1
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';

/** Largest number of tokens of a part of the text. */
const MAX_PART_TOKENS = 400;
const FIRST_WORDS = ['The', 'In', 'When', 'A', 'I', 'How', 'Once', 'It', 'For', 'She'];
const SUBJECTS = [
  ...['history', 'cooking', 'a story', 'science', 'a letter', 'travel'],
  ...['a computer program', 'music', 'health', 'nature', 'money', 'mathematics'],
];

/** Returns a text that a model generates. @param {string} file @param {number} tokens  approximate length @param {number} seed */
export async function ownText(file, tokens, seed) {
  const engine = await createEngine();
  const model = await engine.load(fromFile(file), { contextTokens: 512 });
  // If the tokenizer adds a BOS token, generation can start with an empty text.
  const hasBos = (await model.tokenize('')).length > 0;
  const parts = [];
  for (let i = 0, missingTokens = tokens; missingTokens > 0; i++) {
    const options = { temperature: 1, topK: 0, topP: 1, maxTokens: MAX_PART_TOKENS, seed: 1000 * seed + i };
    const word = hasBos ? '' : FIRST_WORDS[(i >> 1) % FIRST_WORDS.length];
    const isChat = model.info.chatFormat && i % 2 === 1;
    const content = `Write about ${SUBJECTS[(i >> 1) % SUBJECTS.length]}.`;
    const { text, tokens: ids } = await (
      isChat ? model.generate([{ role: 'user', content }], options) : model.generate(word, options)
    ).result;
    parts.push(`${isChat ? '' : word}${text}`.trim());
    missingTokens -= ids.length;
    if (process.stderr.isTTY) process.stderr.write(`\r${Math.max(missingTokens, 0)} tokens to go `);
  }
  await engine.close();
  return `${parts.join('\n\n')}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file, outputPath, tokens = '8192', seed = '1'] = process.argv.slice(2);
  writeFileSync(outputPath, await ownText(file, Number(tokens), Number(seed)));
}
