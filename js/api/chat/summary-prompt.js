/** The request for a summary of a conversation, and the message that contains the summary. */

export const SUMMARY_REQUEST =
  'Summarize our conversation so far in a few sentences, from which it can be continued: what was asked, what was answered, which names and numbers matter.';

/** Upper limits of a summary: a share of the context, and a number of tokens. */
const [CONTEXT_SHARE, MAX_SUMMARY_TOKENS] = [1 / 8, 256];

/** Returns the largest number of tokens of a summary. @param {number} context  in tokens */
export const summaryTokens = (context) => Math.min(MAX_SUMMARY_TOKENS, Math.floor(context * CONTEXT_SHARE));

/** Prepends a summary to the first user message that stays. @param {string} summary @param {string} content */
export const withSummary = (summary, content) => `[What was said before, in short: ${summary}]\n\n${content}`;
