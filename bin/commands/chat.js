/** `bq4 chat`: a conversation in the terminal. */
import { stderr, stdout } from 'node:process';
import { explain } from '../explain.js';
import { generateFlags, generateOptions } from '../generate-options.js';
import { adapterOf, draftOf, load } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'chats with a model in the terminal; Ctrl-C stops a reply, Ctrl-D ends the chat',
  operands: 'FILE',
  loadsFile: true,
  options: generateFlags(),
  run: chatLoop,
};

/** @param {string[]} files @param {any} options */
async function chatLoop([file], options) {
  const { createInterface } = await import('node:readline');
  const replyOptions = await generateOptions(options);
  const { engine, model } = await load(file, options);
  Object.assign(replyOptions, await adapterOf(model, options), await draftOf(engine, options));
  let chat = await model.createChat({ system: options.system });
  const lines = createInterface({
    input: process.stdin,
    output: stdout,
    terminal: process.stdin.isTTY && stdout.isTTY,
    prompt: '> ',
  });
  /** Aborts the running reply. @type {AbortController | null} */
  let replyController = null;
  const interrupt = () => (replyController ? replyController.abort() : lines.close());
  lines.on('SIGINT', interrupt);
  process.on('SIGINT', interrupt);
  const { info } = engine;
  stderr.write(
    `${model.info.name || file}: ${info.build} kernels, context ${model.info.contextTokens}. /new starts a new conversation, /again repeats the last reply, Ctrl-D ends.\n`,
  );
  let isOpen = true;
  lines.on('close', () => (isOpen = false));
  lines.prompt();
  for await (const line of lines) {
    const text = line.trim();
    if (text === '/new') {
      await chat.close();
      chat = await model.createChat({ system: options.system });
    } else if (text) {
      replyController = new AbortController();
      const withSignal = { ...replyOptions, signal: replyController.signal };
      const run = text === '/again' ? chat.regenerate(withSignal) : chat.send(text, withSignal);
      try {
        for await (const part of run) stdout.write(part.text);
      } catch (error) {
        if (!replyController.signal.aborted) stderr.write(explain(error));
      }
      replyController = null;
      const result = await run.result.catch(() => null);
      if (result) stdout.write('\n');
      if (result?.finishReason === 'context') stderr.write('The context is full: /new starts a new conversation.\n');
    }
    if (isOpen) lines.prompt();
  }
  process.off('SIGINT', interrupt);
  await engine.close();
}
