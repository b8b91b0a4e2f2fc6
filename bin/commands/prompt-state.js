/** `bq4 prompt-state`: computes a prompt cache: the KV cache of the beginning of conversations, for pages to load. */
import { readFile, writeFile } from 'node:fs/promises';
import { stderr } from 'node:process';
import { DECODE, ENGINE, load, Usage, value } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'computes a prompt cache: the beginning of conversations, which pages then need not compute',
  operands: 'FILE [OUT]',
  writesLast: true,
  about: `OUT is FILE.prompt unless named: put it beside the model, and pages that load it with { promptCache: true } take it up.`,
  options: {
    system: value('TEXT', 'system message'),
    messages: value('FILE.json', 'list of messages, in place of --system'),
    ...DECODE,
    ...ENGINE,
  },
  run: writePromptState,
};

/** @param {string} file */
function besidePath(file) {
  if (/^[a-z]{2,}:/i.test(file))
    throw new Usage('prompt-state needs OUT: FILE is no path, so nothing can be written beside it');
  return `${file}.prompt`;
}

/** @param {string} path */
async function messagesIn(path) {
  const text = await readFile(path, 'utf8');
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Usage(`${path} is not valid JSON: ${/** @type {Error} */ (cause).message}`);
  }
}

/** @param {string[]} files @param {any} options */
export async function writePromptState([file, out = besidePath(file)], options) {
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
