/** Older turns are summarized by the model itself, where the person wants that. Loaded on demand. */
import { clearAlert, showError, showNotice } from '../page/alerts.js';
import { say } from '../page/page.js';

/** @typedef {import('./tree.js').Entry} Entry */
/** @typedef {import('../../js/shared/types.js').Message} Message */
/**
 * What a summary needs of the page.
 * @typedef {object} Page
 * @property {import('../models/engine-host.js').Host} host
 * @property {() => import('./conversation.js').Current} current
 * @property {import('./view.js').Log} log
 * @property {boolean} system  its chat template has a place for a system prompt
 * @property {import('./reply-progress.js').Waiting} waiting
 * @property {(next: 'ready' | 'writing') => void} enter
 * @property {() => Promise<void>} showState
 */
/** What the model is asked. */
const SUMMARY_QUESTION =
  'Summarize our conversation so far in a few sentences, from which it can be continued: what was asked, what was answered, which names and numbers matter.';

/** The longest summary: as a share of the context, and in tokens. */
const [MAX_SHARE, MAX_TOKENS] = [1 / 8, 256];

/** Tokens that a summary may have. @param {number} contextTokens */
const summaryTokens = (contextTokens) => Math.min(MAX_TOKENS, Math.floor(contextTokens * MAX_SHARE));

/** What is summed up: up to which message, and what the model is asked. @typedef {{ upTo: string, messages: Message[] }} Asked */

/**
 * As many of the turns that the model no longer sees as it can read at once together with the question.
 * @param {Page} page @returns {Promise<Asked | null>}  null: not even the first turn
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
 * The model writes it, and reads it from then on.
 * @param {Page} page @param {AbortSignal} signal @returns {Promise<boolean>}  whether it did
 */
export async function summarize(page, signal) {
  const { host, log, enter, waiting, showState } = page;
  clearAlert();
  enter('writing');
  waiting.begin('Summarizing…');
  let text = '';
  /** @type {unknown} */
  let failure = null;
  /** @type {Asked | null} */
  let asked = null;
  try {
    asked = await older(page);
    if (asked) {
      const sampling = { temperature: 0, maxTokens: summaryTokens(host.info?.contextTokens ?? 0) };
      const generation = host.reply(asked.messages, { ...sampling, onProgress: waiting.reading, signal });
      for await (const part of generation) {
        waiting.end();
        text += part.text;
        log.summed(asked.upTo, text);
      }
    }
  } catch (error) {
    if (!signal.aborted) failure = error;
  }
  waiting.end();
  const done = asked !== null && !failure && !signal.aborted && text.trim() !== '';
  if (asked && done) page.current().sumUp({ upTo: asked.upTo, text: text.trim() });
  else page.current().show();
  enter('ready');
  if (failure) showError(failure);
  else if (!done && !signal.aborted)
    showNotice(asked ? 'The model wrote no summary.' : 'The messages are too long for a summary.');
  say(done ? 'The older turns are summarized.' : 'Nothing was summarized.');
  await showState();
  return done;
}
