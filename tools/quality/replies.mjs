#!/usr/bin/env node
// Compares greedy replies to fifty prompts of a reference model and of quantized files of it: counts the replies of equal meaning.
//   node tools/quality/replies.mjs REFERENCE.bq4 MINILM.bq4 NAME=FILE ...
// REFERENCE: `bq4 convert MODEL.gguf REFERENCE.bq4 --quant f32 --embed f32`; MINILM: all-MiniLM-L6-v2, converted. Each FILE is computed with
// default options.
// A reply has the same meaning as the reference's if it is the same text, or if both
//   - their vectors are closer than those of 99 % of the reference's replies to different prompts are, and
//   - to the reference it is hardly less probable than its own reply (mean logarithm of a token's probability): the decrease is no larger
//     than for half of the replies that the reference samples at temperature 0.7 for the same prompts.
// The second condition distinguishes "The capital is Lyon" from "The capital is Paris". Sampled replies, and replies to other prompts, are
// judged too. Replies of the reference are stored in build/quality/replies.json, by size and time of its file.
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { logSum } from '../../js/engine/model/probabilities.js';
import { readWindows } from './read-windows.mjs';

const FOLDER = fileURLToPath(new URL('../../build/quality/', import.meta.url));
const MAX_REPLY_TOKENS = 48;
const CONTEXT_TOKENS = 256;
const PROMPTS = [
  'What is the capital of France?',
  'Why is the sky blue?',
  'What is photosynthesis?',
  'Write a haiku about rain.',
  'Who wrote Romeo and Juliet?',
  'List three fruits.',
  'How do I boil an egg?',
  'What is the largest planet of the solar system?',
  'Give me a synonym for happy.',
  'What does a compiler do?',
  'Name the days of the week.',
  'Tell me a short joke.',
  'What is the opposite of hot?',
  'Write one sentence about a cat.',
  'When did World War II end?',
  'What is water made of?',
  'How do plants drink?',
  'What is a noun?',
  'Explain gravity to a child.',
  'Give me two tips for sleeping well.',
  'What is the boiling point of water?',
  'Who was Albert Einstein?',
  'Write a polite email that declines an invitation.',
  'What is the difference between a lake and a river?',
  'Name three programming languages.',
  'Why do we have seasons?',
  'What is the currency of Japan?',
  'Suggest a name for a small dog.',
  'How many legs does a spider have?',
  'What is a balanced diet?',
  'Summarize in one sentence: The train was late because of snow, so Anna missed her meeting.',
  'Correct the grammar: She go to school every day.',
  'What do bees make?',
  'Describe the ocean in two sentences.',
  'What is an adjective? Give an example.',
  'How can I save money?',
  'What is the main language of Brazil?',
  'Give me a question for a job interview.',
  'What is the heart for?',
  'Write the first line of a fairy tale.',
  'Why should I drink water?',
  'What is machine learning?',
  'Name a mammal that lives in the sea.',
  'What is the tallest mountain on Earth?',
  'How does a bicycle stay upright?',
  'What is democracy?',
  'Give me a recipe for pancakes.',
  'What is 12 minus 5?',
  'Where do penguins live?',
  'What should I pack for a day at the beach?',
];

/** @typedef {{ ids: number[], text: string }} Reply */
/**
 * Results of the reference: tokens of the prompts, greedy and sampled replies, the mean log probability of a token of each greedy reply, and
 * how much lower it is for the sampled reply.
 * @typedef {{ prompts: number[][], greedy: Reply[], sampled: Reply[], logProbabilities: number[], decreases: number[] }} Reference
 */

/**
 * Generates replies to all prompts.
 * @param {string} file @param {any} loadOptions @param {any[]} optionSets  options of `generate`; a list of replies is returned for each of them
 */
async function generateReplies(file, loadOptions, optionSets) {
  const engine = await createEngine();
  const model = await engine.load(fromFile(file), { contextTokens: CONTEXT_TOKENS, ...loadOptions });
  const { start = '', roles, prompt = '' } = /** @type {any} */ (model.info.chatFormat);
  const prompts = [];
  /** @type {Reply[][]} */
  const replies = optionSets.map(() => []);
  for (const [i, content] of PROMPTS.entries()) {
    const messages = [{ role: /** @type {const} */ ('user'), content }];
    const text = `${start}${roles.user.before}${content}${roles.user.after}${prompt || roles.assistant.before}`;
    const ids = [...(await model.tokenize(text, { parseSpecial: true }))];
    if (ids.length !== (await model.countTokens(messages)))
      throw new Error(`expected the tokens of the model's own prompt, found ${ids.length} tokens of ${text}`);
    prompts.push(ids);
    for (const [setIndex, options] of optionSets.entries()) {
      const reply = await model.generate(messages, { maxTokens: MAX_REPLY_TOKENS, seed: i + 1, ...options }).result;
      replies[setIndex].push({ ids: [...reply.tokens], text: reply.text.trim() });
    }
    process.stderr.write(`\r${file}: ${i + 1} `);
  }
  process.stderr.write('\n');
  await engine.close();
  return { prompts, replies };
}

/** Returns the mean log probability of a token of each reply. @param {string} file @param {number[][]} prompts @param {Reply[]} replies */
async function logProbabilitiesOf(file, prompts, replies) {
  const windows = prompts.map((prompt, i) => [...prompt, ...replies[i].ids]);
  /** For each position, its window, and whether the next token is part of the reply. */
  const positions = windows.flatMap((ids, i) =>
    ids.slice(1).map((_, at) => ({ i, isReply: at + 1 >= prompts[i].length })),
  );
  const sums = prompts.map(() => 0);
  await readWindows(file, windows, CONTEXT_TOKENS, (logits, nextToken, position) => {
    const { i, isReply } = positions[position];
    if (isReply) sums[i] += (logits[nextToken] - logSum(logits)) / replies[i].ids.length;
  });
  return sums;
}

/** Returns the unit vectors of texts. @param {string} file @param {string[]} texts */
async function vectorsOf(file, texts) {
  const engine = await createEngine();
  const model = await engine.load(fromFile(file));
  const { vectors } = await model.embed(texts.map((text) => text || '.'));
  await engine.close();
  return vectors;
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
const dot = (a, b) => Array.from(a).reduce((sum, x, i) => sum + x * b[i], 0);
/** @param {number[]} values @param {number} share */
const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))];

/** Returns the results of the reference: those of an earlier run if its file is unchanged. @param {string} reference @returns {Promise<Reference>} */
async function referenceOf(reference) {
  const path = join(FOLDER, 'replies.json');
  const { size, mtimeMs } = statSync(reference);
  const key = `${size} ${mtimeMs} ${PROMPTS.join('|')}`;
  const stored = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null;
  if (stored?.key === key) return stored;
  const optionSets = [{ temperature: 0 }, { temperature: 0.7, topK: 0, topP: 1 }];
  const {
    prompts,
    replies: [greedy, sampled],
  } = await generateReplies(reference, { kv: 'f32' }, optionSets);
  const logProbabilities = await logProbabilitiesOf(reference, prompts, greedy);
  const decreases = (await logProbabilitiesOf(reference, prompts, sampled)).map(
    (score, i) => logProbabilities[i] - score,
  );
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(path, JSON.stringify({ key, prompts, greedy, sampled, logProbabilities, decreases }));
  return { prompts, greedy, sampled, logProbabilities, decreases };
}

const [reference, minilm, ...files] = process.argv.slice(2);
const { prompts, greedy, sampled, logProbabilities, decreases } = await referenceOf(reference);
const referenceVectors = await vectorsOf(
  minilm,
  greedy.map(({ text }) => text),
);
const cosines = referenceVectors.flatMap((a, i) => referenceVectors.slice(i + 1).map((b) => dot(a, b)));
const [minimumCosine, maximumDecrease] = [quantile(cosines, 0.99), quantile(decreases, 0.5)];
console.log(
  `replies to different prompts: cosine ${quantile(cosines, 0.5).toFixed(3)} (median), ${minimumCosine.toFixed(3)} (99 %), ${Math.max(...cosines).toFixed(3)} (largest)`,
);
console.log(
  `replies sampled at temperature 0.7: less probable by ${maximumDecrease.toFixed(3)} (median), ${quantile(decreases, 0.9).toFixed(3)} (90 %)`,
);

/**
 * Compares replies with those of the reference. Returns a row of the table.
 * @param {string} name @param {Reply[]} replies @param {number[]} lowerBy  decreases of the mean log probability
 * @param {boolean} printsDifferences  whether replies with another meaning are printed
 */
async function compareReplies(name, replies, lowerBy, printsDifferences) {
  const vectors = await vectorsOf(
    minilm,
    replies.map(({ text }) => text),
  );
  const counts = { sameText: 0, sameMeaning: 0, near: 0, probable: 0 };
  for (const [i, { text }] of replies.entries()) {
    const isSameText = text === greedy[i].text;
    const cosine = dot(vectors[i], referenceVectors[i]);
    const isNear = isSameText || cosine > minimumCosine;
    const isProbable = isSameText || lowerBy[i] <= maximumDecrease;
    counts.sameText += Number(isSameText);
    counts.near += Number(isNear);
    counts.probable += Number(isProbable);
    counts.sameMeaning += Number(isNear && isProbable);
    if (printsDifferences && !(isNear && isProbable))
      console.log(
        `\n> ${PROMPTS[i]}  (cosine ${cosine.toFixed(3)}, less probable by ${lowerBy[i].toFixed(3)})\nreference: ${greedy[i].text}\n${name}: ${text}`,
      );
  }
  const meanDecrease = lowerBy.reduce((sum, x) => sum + x, 0) / lowerBy.length;
  return `| ${name} | ${counts.sameMeaning} | ${counts.sameText} | ${counts.near} | ${counts.probable} | ${meanDecrease.toFixed(3)} |`;
}

const rows = [
  await compareReplies('the reference, sampled at temperature 0.7', sampled, decreases, false),
  await compareReplies(
    'the reference’s replies to the next prompt',
    greedy.map((_, i) => greedy[(i + 1) % greedy.length]),
    (
      await logProbabilitiesOf(
        reference,
        prompts,
        greedy.map((_, i) => greedy[(i + 1) % greedy.length]),
      )
    ).map((score, i) => logProbabilities[i] - score),
    false,
  ),
];
for (const argument of files) {
  const [name, file] = argument.split('=');
  const {
    replies: [replies],
  } = await generateReplies(file, {}, [{ temperature: 0 }]);
  const lowerBy = (await logProbabilitiesOf(reference, prompts, replies)).map(
    (score, i) => logProbabilities[i] - score,
  );
  rows.push(await compareReplies(name, replies, lowerBy, true));
}
console.log(
  '\n| of 50 replies | same meaning | same text | near | probable | less probable by |\n|---|---|---|---|---|---|',
);
console.log(rows.join('\n'));
