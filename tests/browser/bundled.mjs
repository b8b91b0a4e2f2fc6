// Apps of the package that bundlers make pages of (bundled/): one with an engine of its own, one whose tabs share one.
import assert from 'node:assert/strict';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createEngine, fromFile } from '../../js/node.js';
import { inTime } from '../waiting.mjs';
import { newPage, ROOT } from './site.mjs';

export const MODEL = join(ROOT, 'models/chat.bq4');
/** @typedef {'show' | 'share'} Kind */

/** The script of an app. @param {Kind} kind @param {string} [options]  of its engine, as code */
export const main = (kind, options = '') =>
  `import { ${kind} } from './${kind === 'show' ? 'page' : 'shared'}.js';\n${kind}(${options});\n`;

/** @param {string} place  a folder @param {Kind} kind */
export function makeApp(place, kind) {
  cpSync(join(ROOT, 'tests/browser/bundled'), place, { recursive: true });
  writeFileSync(join(place, 'main.js'), main(kind));
}

/** What the model says in Node, and how it goes on. @typedef {{ ids: number[], more: number[] }} Said */

/** @returns {Promise<Said>} */
export async function saidInNode() {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile(MODEL), { contextTokens: 64 });
  const session = await model.createSession();
  const say = async (/** @type {string} */ prompt) =>
    (await session.generate(prompt, { temperature: 0, maxTokens: 8 }).result).tokens;
  const report = { ids: await say('Once'), more: await say(' and') };
  await engine.close();
  return report;
}

/**
 * Two tabs share an engine; when the one that computes is closed, the other goes on.
 * @param {import('playwright-core').Browser} browser @param {string} url  of an app whose tabs share one @param {Said} said
 */
export async function shares(browser, url, { ids, more }) {
  const first = await newPage(browser);
  const context = first.context();
  const reportOf = async (/** @type {import('playwright-core').Page} */ page) => {
    await page.goto(url);
    const result = await page.waitForFunction(() => /** @type {any} */ (window).result, null, { timeout: 60_000 });
    return result.jsonValue();
  };
  const says = { ids, shared: true, threads: 2 };
  assert.deepEqual(await reportOf(first), { ...says, leads: true }, first.trouble.join('\n'));
  const second = await context.newPage();
  assert.deepEqual(await reportOf(second), { ...says, leads: false });
  assert.deepEqual(first.trouble, []);
  await first.close();
  const after = second.evaluate(() => /** @type {any} */ (window).tell(' and'));
  assert.deepEqual(await inTime('the tab that is left', after), { ...says, ids: more, leads: true });
  await context.close();
}
