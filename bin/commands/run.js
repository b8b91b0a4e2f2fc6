/** `bq4 run`: continues a text, or replies to it with --chat. */
import { stderr, stdin, stdout } from 'node:process';
import { BqError } from '../../js/shared/errors.js';
import { generateFlags, generateOptions } from '../generate-options.js';
import { adapterOf, decodeText, draftOf, flag, load, outputFile, Usage, value, writeOutput } from '../options.js';

/** Defaults of this command for options of `generate`. */
const PRESETS = { maxTokens: 256 };

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'continues a text, or replies to it with --chat',
  operands: 'FILE [PROMPT]',
  loadsFile: true,
  options: {
    prompt: value('TEXT', 'the prompt, instead of PROMPT; if PROMPT is -, the prompt is read from standard input'),
    chat: flag("wraps the prompt as a user message in the model's chat format"),
    receipt: outputFile(
      'OUT.json',
      'writes a receipt with which bq4 replay repeats the computation (not with --adapter)',
    ),
    json: flag('prints one JSON object: tokens, text, finishReason, seed, usage, timings, build'),
    ...generateFlags(PRESETS),
  },
  run: runPrompt,
};

/** Reads standard input to its end and returns it without its last line break. Throws ARGUMENT. */
async function readStandardInput() {
  const chunks = [];
  for await (const chunk of stdin) chunks.push(chunk);
  try {
    return decodeText(Buffer.concat(chunks)).replace(/\r?\n$/, '');
  } catch (cause) {
    throw new BqError('ARGUMENT', 'standard input: expected text in UTF-8, found other bytes', { cause });
  }
}

/** @param {string[]} files @param {any} options */
async function runPrompt([file, positional], options) {
  const prompt = options.prompt ?? (positional === '-' ? await readStandardInput() : positional);
  if (prompt === undefined || (options.prompt !== undefined && positional !== undefined))
    throw new Usage('run needs one prompt: after FILE, as --prompt TEXT, or - for standard input');
  if (options.system !== undefined && !options.chat)
    throw new Usage('--system needs --chat: a text that is continued has no messages');
  if (options.receipt !== undefined && options.adapter !== undefined)
    throw new Usage('--receipt and --adapter exclude each other: receipts do not support adapters');
  const replyOptions = await generateOptions(options, PRESETS);
  const { engine, model } = await load(file, options);
  Object.assign(replyOptions, await adapterOf(model, options), await draftOf(engine, options));
  const session = options.chat ? null : await model.createSession();
  const run = session
    ? session.generate(prompt, replyOptions)
    : (await model.createChat({ system: options.system })).send(prompt, {
        ...replyOptions,
        receipt: options.receipt !== undefined,
      });
  for await (const part of run) if (!options.json) stdout.write(part.text);
  const result = await run.result;
  if (!options.json) stdout.write('\n'); // later messages begin on a new line
  const { tokens, text, finishReason, seed, usage, timings, warnings } = result;
  if (options.receipt) {
    const { receiptOf, receiptOfReply } = await import('../../js/api/receipts/index.js');
    const receipt = session
      ? receiptOf(model, session, result, replyOptions)
      : receiptOfReply(model, result, replyOptions);
    await writeOutput(options.receipt, `${JSON.stringify(await receipt)}\n`);
  }
  const { build, reason: buildReason } = engine.info;
  if (options.json)
    stdout.write(
      `${JSON.stringify({ tokens, text, finishReason, seed, usage, timings, warnings, build, buildReason })}\n`,
    );
  for (const warning of warnings ?? []) stderr.write(`bq4: ${warning}\n`);
  await engine.close();
}
