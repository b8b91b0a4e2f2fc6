/** What a model is asked when it sums up a conversation, and what is made of the answer. */

export const ASKED =
  'Summarize our conversation so far in a few sentences, from which it can be continued: what was asked, what was answered, which names and numbers matter.';

/** The longest summary, as a part of the context, and in tokens. */
const [PART, LONGEST] = [1 / 8, 256];

/** Tokens that a summary may have. @param {number} context */
export const roomFor = (context) => Math.min(LONGEST, Math.floor(context * PART));

/** What the user says first of what stays, with what was said before. @param {string} summary @param {string} content */
export const withSummary = (summary, content) => `[What was said before, in short: ${summary}]\n\n${content}`;
