#!/usr/bin/env node
// Replies of a model, on this engine, to the prompts of models/prompts.json, for judge.py.
//   node tools/train/replies.mjs models/chat.bq4 build/train/replies.json [--stories 100] [--temperature 0.6]
// The prompts are answered greedily; --stories asks that often for a story, each in a chat of its own and drawn with another seed
// at --temperature (by default the page's, 0.6), which is what a visitor sees.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createEngine, fromFile } from '../../js/node.js';

const PROMPTS = fileURLToPath(new URL('../../models/prompts.json', import.meta.url));
const LIMIT = 256;
const ASKING = ['Tell me a story', 'Can you tell me a story?', 'A story, please!', 'I want to hear a story.'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    stories: { type: 'string', default: '0' },
    temperature: { type: 'string', default: '0.6' },
    build: { type: 'string', default: 'relaxed' },
  },
});
const [file, out] = positionals;
const [stories, temperature] = [Number(values.stories), Number(values.temperature)];
if (!file || !out) throw new Error('expected MODEL.bq4 REPLIES.json');
if (!Number.isInteger(stories) || stories < 0)
  throw new Error(`--stories: expected an integer, found "${values.stories}"`);
if (!(temperature >= 0)) throw new Error(`--temperature: expected a number, found "${values.temperature}"`);

/** @type {{ id: string, kind: string, turns: string[] }[]} */
const prompts = JSON.parse(readFileSync(PROMPTS, 'utf8'));
const engine = await createEngine({ build: /** @type {any} */ (values.build), threads: 1 });
const model = await engine.load(fromFile(file));

/** @param {string[]} turns @param {Record<string, number>} options */
async function converse(turns, options) {
  const chat = await model.createChat();
  const replies = [];
  let finished = true;
  for (const turn of turns) {
    const reply = await chat.send(turn, { maxTokens: LIMIT, ...options }).result;
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
  const turns = [ASKING[i % ASKING.length]];
  const answer = await converse(turns, { temperature, seed: i + 1 });
  answers.push({ id: `drawn-story-${i + 1}`, kind: 'drawn story', turns, ...answer });
}
await engine.close();
mkdirSync(dirname(out), { recursive: true });
writeFileSync(out, `[\n${answers.map((answer) => `  ${JSON.stringify(answer)}`).join(',\n')}\n]\n`);
console.log(`${answers.length} conversations in ${out}`);
