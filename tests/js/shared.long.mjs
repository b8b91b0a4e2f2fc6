// Tests of tabs that share an engine and open, close and replace each other at random, during replies, chats and sessions: results equal
// those of an engine of one's own, or are RESTARTED.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createWorkerEngine } from '../../js/index.js';
import { createSharedEngine } from '../../js/remote/tabs/index.js';
import { faultServer } from '../server/faults.mjs';
import { inTime } from '../waiting.mjs';
import { random, tinyModel } from './fixture.mjs';
import { interruptLeader } from './interrupt-leader.mjs';

const bytes = await tinyModel({ config: { hidden: 64, heads: 4, ffn: 128, context: 512 } });
/** As many as may have a session, and a reply, at once. */
const LANES = 4;
const TABS = 12;

for (const seed of [1, 2, 3])
  test(`tabs at random, seed ${seed}`, { timeout: 300_000 }, async (t) => {
    const server = await faultServer(bytes);
    const cache = mkdtempSync(join(tmpdir(), 'bq4-shared-'));
    const own = await createWorkerEngine({ threads: 1 });
    t.after(async () => {
      await own.close();
      await server.close();
      rmSync(cache, { recursive: true, force: true });
    });
    const known = await own.load(bytes, { sessions: 2 * LANES });
    const next = random(seed);
    const pick = (/** @type {number} */ n) => Math.floor(((next() + 1) / 2) * n) % n;
    const tokens = (/** @type {number} */ most) => Array.from({ length: 1 + pick(most) }, () => 5 + pick(250));
    let done = 0;
    let restarted = 0;

    /** Something that is no tab leads the next term for a moment. */
    const rob = () => interruptLeader(t.name);

    const tab = async () => {
      const engine = await createSharedEngine({ name: t.name, threads: 1, cache });
      await life(engine).finally(() => engine.close());
    };
    /** @param {import('../../js/index.js').SharedEngine} engine */
    const life = async (engine) => {
      const model = await engine.load(server.url, { sessions: 2 * LANES });
      const [chat, plain] = [await model.createChat(), await known.createChat()];
      const session = await model.createSession();
      /** @type {number[]} */
      const there = [];
      for (let left = 5 + pick(10); left > 0; left--) {
        const options = { seed: pick(1000), temperature: 0.9, maxTokens: 1 + pick(12) };
        const what = pick(5);
        const troubles = pick(8) === 0 ? rob() : null;
        if (what === 0) {
          const result = await chat.send(`hi ${left}`, options).result;
          assert.deepEqual(result.tokens, (await plain.send(`hi ${left}`, options).result).tokens);
        } else if (what === 1) {
          const prompt = tokens(60);
          assert.deepEqual(
            (await model.generate(prompt, options).result).tokens,
            (await known.generate(prompt, options).result).tokens,
          );
        } else if (what === 2) {
          const more = tokens(6);
          there.push(...more);
          assert.equal((await session.append(more)).tokens, there.length);
          assert.deepEqual(await session.tokens(), there);
        } else if (what === 3 && there.length > 2) {
          there.length = 2;
          assert.equal((await session.truncate(2)).tokens, 2);
        } else {
          const run = model.generate(tokens(20), options);
          for await (const _ of run) break;
          assert.ok(((await run.result)?.tokens.length ?? 0) <= 1);
        }
        await troubles;
        done++;
      }
    };

    let hasBegun = 0;
    const lane = async () => {
      while (hasBegun++ < TABS)
        await tab().catch((error) => {
          if (error.code !== 'RESTARTED') throw error;
          restarted++;
        });
    };
    await inTime('all tabs', Promise.all(Array.from({ length: LANES }, lane)), { seconds: 240 });
    assert.ok(done > 30 && restarted < TABS, `${done} done, ${restarted} restarted`);
    assert.ok(server.requests.length < TABS, 'leaders load out of the cache');
  });
