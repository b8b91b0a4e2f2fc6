#!/usr/bin/env node
// Generates the replies of a model to the prompts of models/prompts.json with this engine, for judge.py.
//   node tools/train/replies.mjs models/chat.bq4 build/train/replies.json [--stories 100] [--sampled 3]
// Replies to the prompts are greedy; with --sampled, further replies to each prompt are sampled with different seeds and written to
// replies-1.json, replies-2.json and so on. --stories: number of additional chats with a request for a story, which are sampled.
// The sampling options are those of the demo for this model.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { recommendedFor } from '../../demo/models/catalogue.js';
import { createEngine, fromFile } from '../../js/node.js';

const PROMPTS = fileURLToPath(new URL('../../models/prompts.json', import.meta.url));
/** Largest number of tokens of a reply. */
const MAX_TOKENS = 256;
/** Requests for stories. */
const STORY_REQUESTS = ['Tell me a story', 'Can you tell me a story?', 'A story, please!', 'I want to hear a story.'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    stories: { type: 'string', default: '0' },
    sampled: { type: 'string', default: '0' },
    build: { type: 'string', default: 'relaxed' },
  },
});
const [file, output] = positionals;
const { sampling } = recommendedFor('bundled');
if (!sampling) throw new Error('expected sampling options for "bundled" in demo/models/catalogue.js, found none');

/** Returns the value of an option, a number of conversations. @param {'stories' | 'sampled'} name */
function countOf(name) {
  const count = Number(values[name]);
  if (!Number.isInteger(count) || count < 0) throw new Error(`--${name}: expected an integer, found "${values[name]}"`);
  return count;
}
const [stories, sampled] = [countOf('stories'), countOf('sampled')];
if (!file || !output) throw new Error(`expected MODEL.bq4 and REPLIES.json, found "${positionals.join(' ')}"`);

/** @type {{ id: string, kind: string, turns: string[] }[]} */
const prompts = JSON.parse(readFileSync(PROMPTS, 'utf8'));
const engine = await createEngine({ build: /** @type {any} */ (values.build), threads: 1 });
const model = await engine.load(fromFile(file));

/** Returns the replies of a chat, and whether the last one ends with an end token. @param {string[]} turns @param {Record<string, any>} options */
async function converse(turns, options) {
  const chat = await model.createChat();
  const replies = [];
  let finished = true;
  for (const turn of turns) {
    const reply = await chat.send(turn, { maxTokens: MAX_TOKENS, ...options }).result;
    replies.push(reply.text.trim());
    finished = reply.finishReason === 'stop';
  }
  await chat.close();
  return { replies, finished };
}

/** Returns the replies to all prompts. @param {(index: number) => Record<string, any>} optionsOf */
async function answerPrompts(optionsOf) {
  const answers = [];
  for (const [i, { id, kind, turns }] of prompts.entries())
    answers.push({ id, kind, turns, ...(await converse(turns, optionsOf(i))) });
  return answers;
}

/** @param {string} path @param {object[]} answers */
function save(path, answers) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `[\n${answers.map((answer) => `  ${JSON.stringify(answer)}`).join(',\n')}\n]\n`);
  console.log(`${answers.length} conversations in ${path}`);
}

const answers = await answerPrompts(() => ({ temperature: 0 }));
for (let i = 0; i < stories; i++) {
  const turns = [STORY_REQUESTS[i % STORY_REQUESTS.length]];
  const answer = await converse(turns, { ...sampling, seed: i + 1 });
  answers.push({ id: `sampled-story-${i + 1}`, kind: 'sampled story', turns, ...answer });
}
save(output, answers);
for (let n = 1; n <= sampled; n++) {
  const optionsOf = (/** @type {number} */ i) => ({ ...sampling, seed: n * prompts.length + i });
  save(output.replace(/(\.json)?$/, `-${n}.json`), await answerPrompts(optionsOf));
}
await engine.close();
