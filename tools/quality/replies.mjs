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
import { read } from './read.mjs';

const FOLDER = fileURLToPath(new URL('../../build/quality/', import.meta.url));
const TOKENS = 48;
const CONTEXT = 256;
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
/** @typedef {{ prompts: number[][], greedy: Reply[], drawn: Reply[] }} Said */

/** @param {string} file @param {any} load @param {any[]} ways  options of a reply, for each of what is wanted */
async function message(file, load, ways) {
  const engine = await createEngine();
  const model = await engine.load(fromFile(file), { contextTokens: CONTEXT, ...load });
  const { start = '', roles, prompt = '' } = /** @type {any} */ (model.info.chatFormat);
  const prompts = [];
  /** @type {Reply[][]} */
  const replies = ways.map(() => []);
  for (const [i, content] of PROMPTS.entries()) {
    const messages = [{ role: /** @type {const} */ ('user'), content }];
    const text = `${start}${roles.user.before}${content}${roles.user.after}${prompt || roles.assistant.before}`;
    const ids = [...(await model.tokenize(text, { parseSpecial: true }))];
    if (ids.length !== (await model.countTokens(messages))) throw new Error(`another prompt than the model's: ${text}`);
    prompts.push(ids);
    for (const [mode, options] of ways.entries()) {
      const reply = await model.generate(messages, { maxTokens: TOKENS, seed: i + 1, ...options }).result;
      replies[mode].push({ ids: [...reply.tokens], text: reply.text.trim() });
    }
    process.stderr.write(`\r${file}: ${i + 1} `);
  }
  process.stderr.write('\n');
  await engine.close();
  return { prompts, replies };
}

/** Mean logarithm of the probability of a reply's tokens. @param {string} file @param {number[][]} prompts @param {Reply[]} replies */
async function scores(file, prompts, replies) {
  const windows = prompts.map((prompt, i) => [...prompt, ...replies[i].ids]);
  const places = windows.flatMap((ids, i) => ids.slice(1).map((_, at) => ({ i, counts: at + 1 >= prompts[i].length })));
  const sums = prompts.map(() => 0);
  await read(file, windows, CONTEXT, (logits, next, at) => {
    const { i, counts } = places[at];
    if (counts) sums[i] += (logits[next] - logSum(logits)) / replies[i].ids.length;
  });
  return sums;
}

/** Unit vectors. @param {string} file @param {string[]} texts */
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

/** @param {string} reference @returns {Promise<Said & { own: number[], falls: number[] }>} */
async function referenceOf(reference) {
  const kept = join(FOLDER, 'replies.json');
  const { size, mtimeMs } = statSync(reference);
  const key = `${size} ${mtimeMs} ${PROMPTS.join('|')}`;
  const known = existsSync(kept) ? JSON.parse(readFileSync(kept, 'utf8')) : null;
  if (known?.key === key) return known;
  const ways = [{ temperature: 0 }, { temperature: 0.7, topK: 0, topP: 1 }];
  const {
    prompts,
    replies: [greedy, drawn],
  } = await message(reference, { kv: 'f32' }, ways);
  const own = await scores(reference, prompts, greedy);
  const falls = (await scores(reference, prompts, drawn)).map((score, i) => own[i] - score);
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(kept, JSON.stringify({ key, prompts, greedy, drawn, own, falls }));
  return { prompts, greedy, drawn, own, falls };
}

const [reference, minilm, ...files] = process.argv.slice(2);
const { prompts, greedy, drawn, own, falls } = await referenceOf(reference);
const theirs = await vectorsOf(
  minilm,
  greedy.map(({ text }) => text),
);
const apart = theirs.flatMap((a, i) => theirs.slice(i + 1).map((b) => dot(a, b)));
const [close, fall] = [quantile(apart, 0.99), quantile(falls, 0.5)];
console.log(
  `replies to different prompts: cosine ${quantile(apart, 0.5).toFixed(3)} (median), ${close.toFixed(3)} (99 %), ${Math.max(...apart).toFixed(3)} (most)`,
);
console.log(
  `drawn at temperature 0.7: less probable by ${fall.toFixed(3)} (median), ${quantile(falls, 0.9).toFixed(3)} (90 %)`,
);

/** @param {string} name @param {Reply[]} replies @param {number[]} lost  of the mean logarithm @param {boolean} report */
async function judged(name, replies, lost, report) {
  const vectors = await vectorsOf(
    minilm,
    replies.map(({ text }) => text),
  );
  const counts = { same: 0, equal: 0, near: 0, probable: 0 };
  for (const [i, { text }] of replies.entries()) {
    const same = text === greedy[i].text;
    const cosine = dot(vectors[i], theirs[i]);
    const [near, probable] = [same || cosine > close, same || lost[i] <= fall];
    counts.same += Number(same);
    counts.near += Number(near);
    counts.probable += Number(probable);
    counts.equal += Number(near && probable);
    if (report && !(near && probable))
      console.log(
        `\n> ${PROMPTS[i]}  (cosine ${cosine.toFixed(3)}, less probable by ${lost[i].toFixed(3)})\nreference: ${greedy[i].text}\n${name}: ${text}`,
      );
  }
  const mean = lost.reduce((sum, x) => sum + x, 0) / lost.length;
  return `| ${name} | ${counts.equal} | ${counts.same} | ${counts.near} | ${counts.probable} | ${mean.toFixed(3)} |`;
}

const rows = [
  await judged('the reference, drawn at temperature 0.7', drawn, falls, false),
  await judged(
    'the reference’s replies to the next prompt',
    greedy.map((_, i) => greedy[(i + 1) % greedy.length]),
    (
      await scores(
        reference,
        prompts,
        greedy.map((_, i) => greedy[(i + 1) % greedy.length]),
      )
    ).map((score, i) => own[i] - score),
    false,
  ),
];
for (const each of files) {
  const [name, file] = each.split('=');
  const {
    replies: [replies],
  } = await message(file, {}, [{ temperature: 0 }]);
  const lost = (await scores(reference, prompts, replies)).map((score, i) => own[i] - score);
  rows.push(await judged(name, replies, lost, true));
}
console.log(
  '\n| of 50 replies | equal in sense | the same text | near | probable | less probable by |\n|---|---|---|---|---|---|',
);
console.log(rows.join('\n'));
