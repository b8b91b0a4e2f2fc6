/** Lets the model summarize older messages at the user's request. Loaded on demand. */
import { clearAlert, showError, showNotice } from '../page/alerts.js';
import { say } from '../page/page.js';

/** @typedef {import('./tree.js').Entry} Entry */
/** @typedef {import('../../js/shared/types.js').Message} Message */
/**
 * The parts of the page that a summary uses.
 * @typedef {object} Page
 * @property {import('../models/engine-host.js').Host} host
 * @property {() => import('./conversation.js').Current} current
 * @property {import('./view.js').Log} log
 * @property {boolean} system  whether the model's chat template supports a system prompt
 * @property {import('./reply-progress.js').Waiting} waiting
 * @property {(next: 'ready' | 'writing') => void} enter
 * @property {() => Promise<void>} showState
 */
/** The prompt for a summary. */
const SUMMARY_QUESTION =
  'Summarize our conversation so far in a few sentences, from which it can be continued: what was asked, what was answered, which names and numbers matter.';

/** Longest summary, as a share of the context and in tokens. */
const [MAX_SHARE, MAX_TOKENS] = [1 / 8, 256];

/** Returns the largest number of tokens of a summary. @param {number} contextTokens */
const summaryTokens = (contextTokens) => Math.min(MAX_TOKENS, Math.floor(contextTokens * MAX_SHARE));

/**
 * `upTo`: id of the last message to be summarized; `messages`: the prompt.
 * @typedef {{ upTo: string, messages: Message[] }} SummaryRequest
 */

/**
 * Returns the request for as many of the messages that the model no longer sees as fit into its context.
 * @param {Page} page @returns {Promise<SummaryRequest | null>}  null if not even the first turn fits
 */
async function older(page) {
  const { host, system } = page;
  const current = page.current();
  const context = host.info?.contextTokens ?? 0;
  const { path } = current;
  const { begin, summary } = current.reads(path);
  const start = path.findIndex(({ id }) => id === summary?.upTo) + 1;
  const ends = path.flatMap(({ role }, i) => (role === 'assistant' && i >= start && i < begin ? [i] : []));
  for (const end of ends.reverse()) {
    const messages = [
      ...current.messages(path.slice(0, end + 1), system),
      { role: /** @type {const} */ ('user'), content: SUMMARY_QUESTION },
    ];
    if ((await host.count(messages)) + summaryTokens(context) <= context) return { upTo: path[end].id, messages };
  }
  return null;
}

/**
 * Lets the model write a summary, which it then reads in place of the older messages.
 * @param {Page} page @param {AbortSignal} signal @returns {Promise<boolean>}  whether a summary was written
 */
export async function summarize(page, signal) {
  const { host, log, enter, waiting, showState } = page;
  clearAlert();
  enter('writing');
  waiting.begin('Summarizing…');
  let text = '';
  /** @type {unknown} */
  let failure = null;
  /** @type {SummaryRequest | null} */
  let request = null;
  try {
    request = await older(page);
    if (request) {
      const sampling = { temperature: 0, maxTokens: summaryTokens(host.info?.contextTokens ?? 0) };
      const generation = host.reply(request.messages, { ...sampling, onProgress: waiting.reading, signal });
      for await (const part of generation) {
        waiting.end();
        text += part.text;
        log.summed(request.upTo, text);
      }
    }
  } catch (error) {
    if (!signal.aborted) failure = error;
  }
  waiting.end();
  const done = request !== null && !failure && !signal.aborted && text.trim() !== '';
  if (request && done) page.current().sumUp({ upTo: request.upTo, text: text.trim() });
  else page.current().show();
  enter('ready');
  if (failure) showError(failure);
  else if (!done && !signal.aborted)
    showNotice(request ? 'The model wrote no summary.' : 'The messages are too long for a summary.');
  say(done ? 'The older messages are summarized.' : 'Nothing was summarized.');
  await showState();
  return done;
}
