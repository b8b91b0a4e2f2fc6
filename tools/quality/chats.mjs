#!/usr/bin/env node
// Generates greedy replies of a chat model to twenty questions with its own template. They are compared with those of the same model in
// f32: another file, or transformers (chats.py).
//   node tools/quality/chats.mjs MODEL.gguf [--activations i8] [--kv f16] [--out chats.json] [--against F32.bq4]
//   python tools/quality/chats.py MODEL.gguf chats.json build/chats.md
// --against: output of `bq4 convert MODEL.gguf F32.bq4 --quant f32 --embed f32`, which is computed in f32. It generates replies too. For
// each reply of both models it computes the mean logarithm of a token's probability.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';

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

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    activations: { type: 'string' },
    kv: { type: 'string', default: 'i8' },
    out: { type: 'string' },
    against: { type: 'string' },
  },
});
const engine = await createEngine();
const model = await engine.load(fromFile(positionals[0]), {
  contextTokens: 512,
  kv: /** @type {any} */ (values.kv),
  activations: /** @type {any} */ (values.activations),
});
const reference = values.against && (await engine.load(fromFile(values.against), { contextTokens: 512, kv: 'f32' }));

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b  tokens that are equal from the first on */
function lead(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}

const chats = [];
const sums = { equal: 0, whole: 0, first20: 0, ours: 0, theirs: 0 };
for (const content of QUESTIONS) {
  const messages = [{ role: /** @type {const} */ ('user'), content }];
  const options = { temperature: 0, maxTokens: TOKENS };
  const { text, finishReason: reason, tokens: ids } = await model.generate(messages, options).result;
  chats.push({ question: content, promptTokens: await model.countTokens(messages), ids, text: text.trim() });
  console.log(`> ${content}\n${text.trim()}${reason === 'length' ? ' …' : ''}`);
  if (reference) {
    const theirs = await reference.generate(messages, options).result;
    const same = lead(ids, theirs.tokens);
    const judged = same < Math.max(ids.length, theirs.tokens.length) ? [text, theirs.text] : [text];
    const chosen = await reference.choose(messages, judged);
    const [own, other = own] = chosen.options.map(({ logprob, tokens }) => logprob / tokens.length);
    sums.equal += same;
    sums.whole += Number(judged.length === 1);
    sums.first20 += Number(same >= Math.min(20, ids.length, theirs.tokens.length));
    sums.ours += own / QUESTIONS.length;
    sums.theirs += other / QUESTIONS.length;
    console.log(
      `f32: ${theirs.text.trim()}\n${same} tokens equal; f32 finds ours ${own.toFixed(2)}, its own ${other.toFixed(2)}`,
    );
  }
  console.log();
}
await engine.close();
if (reference)
  console.log(
    `${sums.whole} of ${QUESTIONS.length} replies are equal, ${sums.first20} for 20 tokens or to an end; f32 finds ours ${sums.ours.toFixed(3)}, its own ${sums.theirs.toFixed(3)}`,
  );
if (values.out) writeFileSync(values.out, JSON.stringify({ tokens: TOKENS, chats }));
