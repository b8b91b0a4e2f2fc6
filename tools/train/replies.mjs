#!/usr/bin/env node
// Generates the replies of a model to the prompts of models/prompts.json with this engine, for judge.py.
//   node tools/train/replies.mjs models/chat.bq4 build/train/replies.json [--stories 100] [--temperature 0.6]
// Replies to the prompts are greedy. --stories: number of additional chats with a request for a story. Their replies are sampled with
// different seeds at --temperature (default: 0.6, as in the demo).
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
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
    temperature: { type: 'string', default: '0.6' },
    build: { type: 'string', default: 'relaxed' },
  },
});
const [file, output] = positionals;
const [stories, temperature] = [Number(values.stories), Number(values.temperature)];
if (!file || !output) throw new Error(`expected MODEL.bq4 and REPLIES.json, found "${positionals.join(' ')}"`);
if (!Number.isInteger(stories) || stories < 0)
  throw new Error(`--stories: expected an integer, found "${values.stories}"`);
if (!(temperature >= 0)) throw new Error(`--temperature: expected a number, found "${values.temperature}"`);

/** @type {{ id: string, kind: string, turns: string[] }[]} */
const prompts = JSON.parse(readFileSync(PROMPTS, 'utf8'));
const engine = await createEngine({ build: /** @type {any} */ (values.build), threads: 1 });
const model = await engine.load(fromFile(file));

/** Returns the replies of a chat, and whether the last one ends with an end token. @param {string[]} turns @param {Record<string, number>} options */
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

const answers = [];
for (const { id, kind, turns } of prompts)
  answers.push({ id, kind, turns, ...(await converse(turns, { temperature: 0 })) });
for (let i = 0; i < stories; i++) {
  const turns = [STORY_REQUESTS[i % STORY_REQUESTS.length]];
  const answer = await converse(turns, { temperature, seed: i + 1 });
  answers.push({ id: `sampled-story-${i + 1}`, kind: 'sampled story', turns, ...answer });
}
await engine.close();
mkdirSync(dirname(output), { recursive: true });
writeFileSync(output, `[\n${answers.map((answer) => `  ${JSON.stringify(answer)}`).join(',\n')}\n]\n`);
console.log(`${answers.length} conversations in ${output}`);
