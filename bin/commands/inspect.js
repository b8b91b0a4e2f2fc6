/** `bq4 inspect`: describes the contents of a model file. */
import { stdout } from 'node:process';
import { flag, isAddress, isFolder, MODEL, sourceOf } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'describes a model: .bq4, .gguf, safetensors, a folder, or any other input of convert',
  operands: 'FILE',
  loadsFile: true,
  options: { json: flag('prints one JSON object'), companion: MODEL.companion },
  run: inspectFile,
};

/** @param {string[]} files @param {any} options */
async function inspectFile([file], options) {
  const { report } = await import('../inspect.js');
  const { describe } = await import('../describe.js');
  const card = await report(file, isAddress(file) || !(await isFolder(file)) ? await sourceOf(file, options) : null);
  stdout.write(options.json ? `${JSON.stringify(card, null, 2)}\n` : describe(card));
  const { hashes } = card;
  if (hashes && (hashes.damaged.length || [hashes.header, hashes.plan, hashes.prefix].includes('damaged')))
    process.exitCode = 1;
}
