/**
 * `bq4 prompt-cache`: computes a prompt cache, the KV cache of the beginning of conversations, which pages can load.
 */
import { stderr } from 'node:process';
import { checkOutput, DECODE, ENGINE, load, readText, Usage, value, writeOutput } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'computes a prompt cache, so that pages need not compute the beginning of conversations',
  operands: 'FILE [OUT]',
  writesLast: true,
  about: `The default of OUT is FILE.prompt. Put it in the folder of the model: pages that load the model with { promptCache: true } use it.`,
  options: {
    system: value('TEXT', 'system message'),
    messages: value('FILE.json', 'list of messages, instead of --system'),
    ...DECODE,
    ...ENGINE,
  },
  run: writePromptCache,
};

/** Returns the path of a prompt cache in the folder of a model. Throws Usage for an address. @param {string} file */
function defaultPath(file) {
  if (/^[a-z]{2,}:/i.test(file)) throw new Usage('prompt-cache needs OUT, because FILE is not a path');
  return `${file}.prompt`;
}

/** Reads a list of messages. Throws Usage. @param {string} path */
async function readMessages(path) {
  const text = await readText(path);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Usage(`${path} is not valid JSON: ${/** @type {Error} */ (cause).message}`);
  }
}

/** @param {string[]} files @param {any} options */
export async function writePromptCache([file, out = defaultPath(file)], options) {
  const { system, messages: path } = options;
  if ((system === undefined) === (path === undefined))
    throw new Usage('prompt-cache needs --system TEXT or --messages FILE.json');
  const messages = path === undefined ? [{ role: 'system', content: system }] : await readMessages(path);
  await checkOutput('prompt-cache', out); // also the default
  const { engine, model } = await load(file, options);
  const promptCache = await model.savePromptCache(messages);
  const { tokens } = await model.loadPromptCache(promptCache);
  await engine.close();
  await writeOutput(out, promptCache);
  stderr.write(`${out}: ${tokens} tokens, ${promptCache.length} bytes\n`);
}
