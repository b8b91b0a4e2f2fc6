// Apps with the package, for tests of bundlers (bundled/): one with an engine of its own, one whose tabs share an engine.
import assert from 'node:assert/strict';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createEngine, fromFile } from '../../js/node.js';
import { inTime } from '../waiting.mjs';
import { newPage, ROOT } from './site.mjs';

export const MODEL = join(ROOT, 'models/chat.bq4');
/** @typedef {'show' | 'share'} Kind */

/** The main script of an app. @param {Kind} kind @param {string} [options]  of its engine, as code */
export const mainScript = (kind, options = '') =>
  `import { ${kind} } from './${kind === 'show' ? 'page' : 'shared'}.js';\n${kind}(${options});\n`;

/** Writes the files of an app. @param {string} folder @param {Kind} kind */
export function makeApp(folder, kind) {
  cpSync(join(ROOT, 'tests/browser/bundled'), folder, { recursive: true });
  writeFileSync(join(folder, 'main.js'), mainScript(kind));
}

/** Tokens of the model's first reply, and of the second one in the same session. @typedef {{ ids: number[], more: number[] }} Replies */

/** Generates in Node the replies that the apps are expected to show. @returns {Promise<Replies>} */
export async function repliesInNode() {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile(MODEL), { contextTokens: 64 });
  const session = await model.createSession();
  const generate = async (/** @type {string} */ prompt) =>
    (await session.generate(prompt, { temperature: 0, maxTokens: 8 }).result).tokens;
  const replies = { ids: await generate('Once'), more: await generate(' and') };
  await engine.close();
  return replies;
}

/**
 * Checks that two tabs share an engine, and that one tab continues when the tab that computes is closed.
 * @param {import('playwright-core').Browser} browser @param {string} url  of an app whose tabs share an engine @param {Replies} replies
 */
export async function checkSharing(browser, url, { ids, more }) {
  const first = await newPage(browser);
  const context = first.context();
  const reportOf = async (/** @type {import('playwright-core').Page} */ page) => {
    await page.goto(url);
    const result = await page.waitForFunction(() => /** @type {any} */ (window).result, null, { timeout: 60_000 });
    return result.jsonValue();
  };
  const expected = { ids, shared: true, threads: 2 };
  assert.deepEqual(await reportOf(first), { ...expected, leads: true }, first.trouble.join('\n'));
  const second = await context.newPage();
  assert.deepEqual(await reportOf(second), { ...expected, leads: false });
  assert.deepEqual(first.trouble, []);
  await first.close();
  const report = second.evaluate(() => /** @type {any} */ (window).continueReply(' and'));
  assert.deepEqual(await inTime('the reply of the other tab', report), { ...expected, ids: more, leads: true });
  await context.close();
}
