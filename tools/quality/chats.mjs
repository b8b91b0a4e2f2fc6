#!/usr/bin/env node
// Twenty questions to a chat model, greedy, by its own template: for people to read.
//   node tools/quality/chats.mjs MODEL.gguf
import { createEngine, fromFile } from '../../js/engine.js';

const QUESTIONS = [
  'What is the capital of France?', 'Which city is the capital of France?', 'Why is the sky blue?', 'What is 7 + 5?', 'Write a haiku about rain.',
  'Translate "good morning" into Spanish.', 'Who wrote Romeo and Juliet?', 'List three fruits.', 'What is photosynthesis?', 'How do I boil an egg?',
  'What is the largest planet?', 'Give me a synonym for happy.', 'What does a compiler do?', 'Name the days of the week.', 'Tell me a short joke.',
  'What is the opposite of hot?', 'Write one sentence about a cat.', 'When did World War II end?', 'What is water made of?', 'Say hello in German.',
];

const engine = await createEngine();
const model = await engine.load(fromFile(process.argv[2]), { context: 512 });
for (const content of QUESTIONS) {
  const { text, reason } = await model.reply([{ role: 'user', content }], { temperature: 0, maxTokens: 40 });
  console.log(`> ${content}\n${text.trim()}${reason === 'length' ? ' …' : ''}\n`);
}
await engine.close();
