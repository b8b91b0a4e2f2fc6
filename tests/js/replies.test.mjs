// Tests of the bundled model with this engine: greedy replies to 20 fixed prompts match the patterns of models/check.json, which were
// written before any reply was generated, as in tools/train/check_replies.py.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FILE = join(ROOT, 'models/chat.bq4');
/** @type {{ id: string, turns: string[], pattern: string, avoid?: string }[]} */
const CHECK = JSON.parse(readFileSync(join(ROOT, 'models/check.json'), 'utf8'));
const LIMIT = 200;

/** @type {Awaited<ReturnType<typeof createEngine>>} */
let engine;
/** @type {Awaited<ReturnType<typeof engine.load>>} */
let model;
before(async () => {
  engine = await createEngine({ build: 'relaxed', threads: 1 });
  model = await engine.load(fromFile(FILE));
});
after(() => engine.close());

/** Whether a run of four words occurs three times. @param {string} reply */
function loops(reply) {
  const words = reply.toLowerCase().split(/\s+/).filter(Boolean);
  const runs = words.slice(3).map((_, i) => words.slice(i, i + 4).join(' '));
  return runs.some((run) => runs.filter((other) => other === run).length >= 3);
}

/** @param {string[]} turns */
async function lastReply(turns) {
  const chat = await model.createChat();
  let reply = { text: '', finishReason: '' };
  for (const turn of turns) reply = await chat.send(turn, { temperature: 0, maxTokens: LIMIT }).result;
  await chat.close();
  return reply;
}

test('the bundled model is small and has a name and a licence', () => {
  assert.ok(statSync(FILE).size < 4e6);
  assert.equal(model.info.license, 'CC-BY-4.0');
  assert.match(model.info.card, /Self-dialogue Corpus/);
});

test('at least 16 of 20 greedy replies are on topic', async (t) => {
  assert.equal(CHECK.length, 20);
  let good = 0;
  for (const { turns, pattern, avoid } of CHECK) {
    const { text, finishReason: reason } = await lastReply(turns);
    const on =
      reason === 'stop' &&
      text.trim() !== '' &&
      !loops(text) &&
      new RegExp(pattern, 'i').test(text.trim()) &&
      !(avoid && new RegExp(avoid, 'i').test(text));
    good += Number(on);
    t.diagnostic(`${on ? 'on topic ' : 'OFF TOPIC'} ${turns.join(' / ')} -> ${text.trim()}`);
  }
  assert.ok(good >= 16, `${good} of 20 on topic`);
});
