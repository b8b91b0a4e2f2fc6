/** `bq4 prompt-state`: computes what conversations begin with beforehand, so that a page needs not. */
import { readFile, writeFile } from 'node:fs/promises';
import { stderr } from 'node:process';
import { load, Usage } from './options.js';

/** @param {string} path */
async function messagesIn(path) {
  const text = await readFile(path, 'utf8');
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Usage(`${path} is no JSON: ${/** @type {Error} */ (cause).message}`);
  }
}

/** @param {string[]} files @param {any} options */
export async function writePromptState([file, out], options) {
  const { system, messages: path } = options;
  if ((system === undefined) === (path === undefined))
    throw new Usage('prompt-state needs --system TEXT or --messages FILE.json');
  const messages = path === undefined ? [{ role: 'system', content: system }] : await messagesIn(path);
  const { engine, model } = await load(file, options);
  const state = await model.savePromptCache(messages);
  const { tokens } = await model.loadPromptCache(state);
  await engine.close();
  await writeFile(out, state);
  stderr.write(`${out}: ${tokens} tokens, ${state.length} bytes\n`);
}
