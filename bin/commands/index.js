/**
 * The commands of the CLI, in the order of `bq4 --help`. A new command needs a file that exports `command`, and a line
 * here.
 */

/** @type {Record<string, () => Promise<{ command: import('../command.js').Command }>>} */
export const COMMANDS = {
  convert: () => import('./convert.js'),
  quantize: () => import('./quantize.js'),
  inspect: () => import('./inspect.js'),
  run: () => import('./run.js'),
  chat: () => import('./chat.js'),
  embed: () => import('./embed.js'),
  rerank: () => import('./rerank.js'),
  bench: () => import('./bench.js'),
  perplexity: () => import('./perplexity.js'),
  serve: () => import('./serve.js'),
  replay: () => import('./replay.js'),
  'prompt-cache': () => import('./prompt-cache.js'),
  bundle: () => import('./bundle.js'),
  'train-classifier': () => import('./train-classifier.js'),
  classify: () => import('./classify.js'),
};
