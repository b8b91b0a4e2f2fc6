// Tests of the members of public objects that consoles, JSON and spreads show: only public ones.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { createWorkerEngine } from '../../js/index.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { TABLE } from '../../js/remote/port/methods.js';
import { tinyModel } from './fixture.mjs';

/** Members besides the methods of a kind. @type {Record<string, string[]>} */
const OTHERS = {
  engine: ['events', 'info', 'store'],
  model: ['info', 'loaded', 'createChat', 'score', 'rerank', 'chat', 'completions', 'embeddings'],
  session: ['info', 'loaded'],
  store: ['backend', 'reason'],
};

for (const create of [createEngine, createWorkerEngine])
  test(`${create.name}: engines, models, sessions and stores show only public members`, async () => {
    const path = mkdtempSync(join(tmpdir(), 'bq4-public-'));
    const engine = await create({ threads: 1, cache: path });
    const model = await engine.load(fromBytes(await tinyModel()));
    const session = await model.createSession();
    await session.generate('x', { maxTokens: 1 }).result;
    const objects = { engine, model, session, store: engine.store };
    for (const [kind, object] of Object.entries(objects)) {
      const publicNames = new Set([...Object.keys(TABLE[kind]), ...OTHERS[kind]]);
      assert.deepEqual(
        Object.keys({ ...object }).filter((name) => !publicNames.has(name)),
        [],
        kind,
      );
      assert.doesNotMatch(
        inspect(object, { depth: 0 }),
        /\b(handle|decoding|pair|replies|siblings|paceState|unreadSince|pages|crossOrigin)\b/,
      );
      if (kind !== 'engine') JSON.stringify(object);
    }
    await engine.close();
    rmSync(path, { recursive: true });
  });
