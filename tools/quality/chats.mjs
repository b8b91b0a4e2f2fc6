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
const MAX_REPLY_TOKENS = 40;

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

/** Returns the length of the common prefix of two lists of tokens. @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function commonPrefixLength(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}

const chats = [];
/** Numbers of equal replies and of replies with an equal start, and mean log probabilities of a token to the reference. */
const results = { equalReplies: 0, equalStarts: 0, ownLogProbability: 0, referenceLogProbability: 0 };
for (const content of QUESTIONS) {
  const messages = [{ role: /** @type {const} */ ('user'), content }];
  const options = { temperature: 0, maxTokens: MAX_REPLY_TOKENS };
  const { text, finishReason: reason, tokens: ids } = await model.generate(messages, options).result;
  chats.push({ question: content, promptTokens: await model.countTokens(messages), ids, text: text.trim() });
  console.log(`> ${content}\n${text.trim()}${reason === 'length' ? ' …' : ''}`);
  if (reference) {
    const referenceReply = await reference.generate(messages, options).result;
    const equalTokens = commonPrefixLength(ids, referenceReply.tokens);
    const texts =
      equalTokens < Math.max(ids.length, referenceReply.tokens.length) ? [text, referenceReply.text] : [text];
    const choice = await reference.choose(messages, texts);
    const [own, other = own] = choice.options.map(({ logprob, tokens }) => logprob / tokens.length);
    results.equalReplies += Number(texts.length === 1);
    results.equalStarts += Number(equalTokens >= Math.min(20, ids.length, referenceReply.tokens.length));
    results.ownLogProbability += own / QUESTIONS.length;
    results.referenceLogProbability += other / QUESTIONS.length;
    console.log(
      `f32: ${referenceReply.text.trim()}\n${equalTokens} tokens equal; mean log probability of a token in f32: this reply ${own.toFixed(2)}, the reply of f32 ${other.toFixed(2)}`,
    );
  }
  console.log();
}
await engine.close();
if (reference)
  console.log(
    `${results.equalReplies} of ${QUESTIONS.length} replies are equal, ${results.equalStarts} have equal first 20 tokens; mean log probability of a token in f32: these replies ${results.ownLogProbability.toFixed(3)}, replies of f32 ${results.referenceLogProbability.toFixed(3)}`,
  );
if (values.out) writeFileSync(values.out, JSON.stringify({ tokens: MAX_REPLY_TOKENS, chats }));
