/** `bq4 run`: continues a text. */
import { stderr, stdin, stdout } from 'node:process';
import { BqError } from '../../js/shared/errors.js';
import { generateFlags, generateOptions } from '../generate-options.js';
import { adapterOf, draftOf, flag, load, Usage, value, writeText } from '../options.js';

/** The command's own defaults of options of `generate`. */
const PRESETS = { maxTokens: 256 };

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'continues a text',
  operands: 'FILE [PROMPT]',
  loadsFile: true,
  options: {
    prompt: value('TEXT', 'the prompt, in place of PROMPT; a PROMPT of - is read from standard input'),
    chat: flag("wraps the prompt as a user message in the model's chat format"),
    receipt: value('OUT.json', 'writes a receipt with which bq4 replay repeats the computation (not with --adapter)'),
    json: flag('prints one JSON object: tokens, text, finishReason, seed, usage, timings, build'),
    ...generateFlags(PRESETS),
  },
  run: runPrompt,
};

/** All of standard input, without its last line break. ARGUMENT. */
async function textOfInput() {
  const chunks = [];
  for await (const chunk of stdin) chunks.push(chunk);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
    return text.replace(/\r?\n$/, '');
  } catch (cause) {
    throw new BqError('ARGUMENT', 'standard input: expected a text in UTF-8, found bytes that are none', { cause });
  }
}

/** @param {string[]} files @param {any} options */
async function runPrompt([file, positional], options) {
  const prompt = options.prompt ?? (positional === '-' ? await textOfInput() : positional);
  if (prompt === undefined || (options.prompt !== undefined && positional !== undefined))
    throw new Usage('run needs one prompt: after FILE, as --prompt TEXT, or - for standard input');
  if (options.receipt !== undefined && options.adapter !== undefined)
    throw new Usage('--receipt and --adapter exclude each other: receipts do not support adapters');
  const chosen = await generateOptions(options, PRESETS);
  const { engine, model } = await load(file, options);
  Object.assign(chosen, await adapterOf(model, options), await draftOf(engine, options));
  const session = options.chat ? null : await model.createSession();
  const run = session
    ? session.generate(prompt, chosen)
    : (await model.createChat({ system: options.system })).send(prompt, {
        ...chosen,
        receipt: options.receipt !== undefined,
      });
  for await (const part of run) if (!options.json) stdout.write(part.text);
  const result = await run.result;
  if (!options.json) stdout.write('\n'); // what goes wrong from here on has a line of its own
  const { tokens, text, finishReason, seed, usage, timings, warnings } = result;
  if (options.receipt) {
    const { receiptOf, receiptOfReply } = await import('../../js/api/receipts/index.js');
    const receipt = session ? receiptOf(model, session, result, chosen) : receiptOfReply(model, result, chosen);
    await writeText(options.receipt, `${JSON.stringify(await receipt)}\n`);
  }
  const { build, reason: buildReason } = engine.info;
  if (options.json)
    stdout.write(
      `${JSON.stringify({ tokens, text, finishReason, seed, usage, timings, warnings, build, buildReason })}\n`,
    );
  for (const warning of warnings ?? []) stderr.write(`bq4: ${warning}\n`);
  await engine.close();
}
