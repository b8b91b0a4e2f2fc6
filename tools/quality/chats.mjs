#!/usr/bin/env node
// Twenty questions to a chat model by its own template, greedy; then the same by the mathematics in f32 (chats.py).
//   node tools/quality/chats.mjs MODEL.gguf chats.json
//   python tools/quality/chats.py MODEL.gguf chats.json build/chats.md
import { writeFileSync } from 'node:fs';
import { createEngine, fromFile } from '../../js/engine.js';

const QUESTIONS = [
  'What is the capital of France?',
  'Which city is the capital of France?',
  'Why is the sky blue?',
  'What is 7 + 5?',
  'Write a haiku about rain.',
  'Translate "good morning" into Spanish.',
  'Who wrote Romeo and Juliet?',
  'List three fruits.',
  'What is photosynthesis?',
  'How do I boil an egg?',
  'What is the largest planet?',
  'Give me a synonym for happy.',
  'What does a compiler do?',
  'Name the days of the week.',
  'Tell me a short joke.',
  'What is the opposite of hot?',
  'Write one sentence about a cat.',
  'When did World War II end?',
  'What is water made of?',
  'Say hello in German.',
];
const TOKENS = 40;

const engine = await createEngine();
const model = await engine.load(fromFile(process.argv[2]), { context: 512 });
const chats = [];
for (const content of QUESTIONS) {
  const messages = [{ role: /** @type {const} */ ('user'), content }];
  const { text, reason, ids } = await model.reply(messages, { temperature: 0, maxTokens: TOKENS });
  chats.push({ question: content, promptTokens: await model.countTokens(messages), ids, text: text.trim() });
  console.log(`> ${content}\n${text.trim()}${reason === 'length' ? ' …' : ''}\n`);
}
await engine.close();
if (process.argv[3]) writeFileSync(process.argv[3], JSON.stringify({ tokens: TOKENS, chats }));
