/** What the model is asked when the demo sums up older turns, and how the summary is put before the turns that stay. */

export const SUMMARY_QUESTION =
  'Summarize our conversation so far in a few sentences, from which it can be continued: what was asked, what was answered, which names and numbers matter.';

/** The longest summary: as a share of the context, and in tokens. */
const [MAX_SHARE, MAX_TOKENS] = [1 / 8, 256];

/** Tokens that a summary may have. @param {number} contextTokens */
export const summaryTokens = (contextTokens) => Math.min(MAX_TOKENS, Math.floor(contextTokens * MAX_SHARE));

/** The first message of the user that stays, with the summary before it. @param {string} summary @param {string} content */
export const withSummary = (summary, content) => `[What was said before, in short: ${summary}]\n\n${content}`;
